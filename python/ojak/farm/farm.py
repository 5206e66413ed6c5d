# SPDX-License-Identifier: Apache-2.0
"""The farm itself: opens its ports, serves until it is told to stop."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from os import getpid
from pathlib import Path

from ojak.farm.certificates import Certificates
from ojak.farm.connection import Connection
from ojak.farm.control import ControlPort
from ojak.farm.errors import FarmError
from ojak.farm.floor import Floor
from ojak.farm.host import Host
from ojak.farm.inspector import Inspector
from ojak.farm.ledger_book import LedgerBook
from ojak.farm.listener import raise_descriptor_limit, shared_listener
from ojak.farm.own_port import OwnPort, bind_own_ports
from ojak.farm.plan import FarmPlan
from ojak.farm.report import FarmReport
from ojak.farm.senders import KnownSenders
from ojak.farm.site import Directory, FarmHost, Site, write_resolver

FLUSH_S = 0.2
_BACKLOG = 4096
_IDLE_ROUNDS = 4
_BUSY_S = 3700.0
"""Longer than any behaviour holds a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmSettings:
    """Where a farm works and whom it knows.

    Attributes:
        folder: for its files.
        keys_folders: of senders' PEM files.
        key_files: JSON files of PEMs by key id.
    """

    folder: Path
    keys_folders: tuple[Path, ...] = ()
    key_files: tuple[Path, ...] = ()


class Farm:
    """One farm in one event loop."""

    def __init__(self, plan: FarmPlan, settings: FarmSettings) -> None:
        self._plan = plan
        self._settings = settings
        self._site = Site(folder=settings.folder.absolute())
        self._stopping = asyncio.Event()
        self._failure: FarmError | None = None
        self._control: ControlPort | None = None
        self._book: LedgerBook | None = None

    def stop(self) -> None:
        """Have `serve` end."""
        self._stopping.set()

    async def serve(self, ready: Callable[[Directory], None]) -> FarmReport:
        """Serve until `stop`; `ready` is called when every port is open and every file written.

        Returns:
            The last counters.

        Raises:
            FarmError: it cannot start, or the ledger cannot be written any more.
        """
        plan, site = self._plan, self._site
        site.prepare()
        senders = KnownSenders(self._settings.keys_folders)
        for path in self._settings.key_files:
            senders.add_file(path)
        certificates = Certificates(plan.hosts)
        certificates.write(site.authority)
        async with AsyncExitStack() as stack:
            book = LedgerBook(site.ledger)
            stack.callback(book.close)
            floor = Floor(
                hosts={host.name: Host(host, seed=plan.seed) for host in plan.hosts},
                inspector=Inspector(senders),
                book=book,
                connections_max=raise_descriptor_limit(),
            )
            http_port, tls_port = await self._open_shared(stack, floor, certificates)
            own_ports, own_port, own_tls_port = self._open_own(stack, floor, certificates)
            directory = Directory(
                pid=getpid(),
                http_port=http_port,
                tls_port=tls_port,
                own_port=own_port,
                own_tls_port=own_tls_port,
                hosts=tuple(
                    FarmHost(
                        name=host.plan.name,
                        address=host.plan.address,
                        label=host.plan.label,
                        origin=host.origin,
                        living=host.plan.living,
                    )
                    for host in floor.hosts.values()
                ),
            )
            write_resolver(site, directory.hosts)
            control = ControlPort(floor=floor, senders=senders, own_ports=own_ports, stop=self.stop)
            await control.open(site.control)
            stack.push_async_callback(control.close)
            for host in floor.hosts.values():
                host.start()
            for port in own_ports.values():
                port.script_moved()
            directory.write(site)
            ready(directory)
            await self._until_stopped(floor, book)
            report = control.report()
        site.directory.unlink(missing_ok=True)
        site.control.unlink(missing_ok=True)
        if self._failure is not None:
            raise self._failure
        return report

    async def _open_shared(self, stack: AsyncExitStack, floor: Floor, certificates: Certificates) -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        plain = shared_listener(self._plan.http_port, "http")
        stack.callback(plain.close)
        secure = shared_listener(self._plan.tls_port, "tls")
        stack.callback(secure.close)
        http_port: int = plain.getsockname()[1]
        tls_port: int = secure.getsockname()[1]
        for host in floor.hosts.values():
            if not host.plan.needs_own_port:
                floor.admit(host, http_port, tls=False)
                floor.admit(host, tls_port, tls=True)
                scheme, port = ("https", tls_port) if host.plan.tls else ("http", http_port)
                host.origin = _origin(scheme, host.plan.name, port)
        for sock, context in ((plain, None), (secure, certificates.context)):
            tls = context is not None
            server = await loop.create_server(
                lambda tls=tls: Connection(floor, loop, tls=tls),
                sock=sock,
                backlog=_BACKLOG,
                ssl=context,
            )
            stack.callback(server.close)
        stack.callback(floor.close_connections)
        return http_port, tls_port

    def _open_own(
        self, stack: AsyncExitStack, floor: Floor, certificates: Certificates
    ) -> tuple[dict[str, OwnPort], int, int]:
        own_ports: dict[str, OwnPort] = {}
        numbers = {False: 0, True: 0}
        for tls in (False, True):
            hosts = [host for host in floor.hosts.values() if host.plan.needs_own_port and host.plan.tls is tls]
            if not hosts:
                continue
            try:
                port, socks = bind_own_ports([host.plan.address for host in hosts])
            except OSError as error:
                raise FarmError(
                    f"no port could be bound for {len(hosts)} hosts of their own: {error.strerror}"
                ) from error
            numbers[tls] = port
            for host, sock in zip(hosts, socks, strict=True):
                floor.admit(host, port, tls=tls)
                host.origin = _origin("https" if tls else "http", host.plan.name, port)
                own = OwnPort(host=host, sock=sock, floor=floor, tls=certificates.context if tls else None)
                own_ports[host.plan.name] = own
                stack.callback(own.close)
        return own_ports, numbers[False], numbers[True]

    async def _until_stopped(self, floor: Floor, book: LedgerBook) -> None:
        loop = asyncio.get_running_loop()
        every_s = self._plan.keep_alive_s / _IDLE_ROUNDS
        busy_rounds = int(_BUSY_S / every_s) + 1
        sweep_at_s = loop.time() + every_s
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(FLUSH_S):
                    await self._stopping.wait()
            except TimeoutError:
                pass
            try:
                book.flush()
            except FarmError as error:
                self._failure = error
                return
            if loop.time() >= sweep_at_s:
                sweep_at_s = loop.time() + every_s
                floor.sweep(_IDLE_ROUNDS, busy_rounds)


def _origin(scheme: str, name: str, port: int) -> str:
    default = 443 if scheme == "https" else 80
    return f"{scheme}://{name}" + ("" if port == default else f":{port}")


def with_ports(plan: FarmPlan, *, http_port: int | None, tls_port: int | None) -> FarmPlan:
    """The plan with other shared ports, where given."""
    return replace(
        plan,
        http_port=plan.http_port if http_port is None else http_port,
        tls_port=plan.tls_port if tls_port is None else tls_port,
    )
