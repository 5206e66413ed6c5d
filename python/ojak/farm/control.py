# SPDX-License-Identifier: Apache-2.0
"""The farm's control socket: one JSON object a line in, one out, on a Unix socket that only its user can reach."""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from ojak.errors import OjakError
from ojak.farm.behaviour import Reach
from ojak.farm.errors import FarmError, PlanError
from ojak.farm.floor import Floor
from ojak.farm.host import Host
from ojak.farm.own_port import OwnPort
from ojak.farm.plan import HostPlan, Phase, check_plan, reach_of
from ojak.farm.report import Counted, FarmReport, HostReport
from ojak.farm.senders import KnownSenders

MAX_LINE_BYTES = 8 << 20
MAX_WAIT_S = 600.0


class ControlPort:
    """Answers on the control socket."""

    def __init__(
        self, *, floor: Floor, senders: KnownSenders, own_ports: dict[str, OwnPort], stop: Callable[[], None]
    ) -> None:
        self._floor = floor
        self._senders = senders
        self._own_ports = own_ports
        self._stop = stop
        self._ready_s = time.monotonic()
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()
        self._orders: dict[str, Callable[[dict[str, Any]], object]] = {
            "report": lambda _: self.report(),
            "hosts": lambda order: [host_report(host) for host in self._hosts(order.get("which", "*"))],
            "flush": lambda _: self._flush(),
            "behave": self._behave,
            "add-keys": lambda order: self._senders.add(order.get("keys", {})),
            "forget-keys": lambda _: self._senders.forget(),
            "stop": lambda _: self._stop(),
        }

    async def open(self, path: Path) -> None:
        """Begin to listen at `path`, which must not be there."""
        self._ready_s = time.monotonic()
        self._server = await asyncio.start_unix_server(self._talk, sock=_bound(path), limit=MAX_LINE_BYTES)

    async def close(self) -> None:
        """Stop listening, and let nobody wait on."""
        if self._server is not None:
            self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        try:
            while line := await reader.readline():
                writer.write(orjson.dumps(await self._answer(line), option=orjson.OPT_APPEND_NEWLINE))
                await writer.drain()
        except (OSError, ValueError, asyncio.CancelledError):
            pass  # the other side left or sent a line without end, or the farm stops
        finally:
            self._talks.discard(task)
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, object]:
        try:
            order = orjson.loads(line)
            if not isinstance(order, dict):
                raise FarmError("an order is a JSON object")
            name = order.get("order")
            if name == "wait":
                return {"ok": await self._wait(order)}
            carry_out = self._orders.get(str(name))
            if carry_out is None:
                raise FarmError(f"order is {name!r}, but wait or one of {', '.join(self._orders)} is wanted")
            return {"ok": carry_out(order)}
        except orjson.JSONDecodeError as error:
            return {"error": f"an order is a JSON object a line: {error}"}
        except OjakError as error:
            return {"error": str(error)}

    def report(self) -> FarmReport:
        """All counters."""
        floor, book = self._floor, self._floor.book
        hosts = floor.hosts.values()
        return FarmReport(
            pid=os.getpid(),
            hosts=len(hosts),
            arrivals=book.arrivals,
            accepted=book.accepted,
            unverified=book.unverified,
            connections=sum(host.connections for host in hosts),
            open_connections=len(floor.connections),
            open=sum(host.open for host in hosts),
            peak=max(host.peak for host in hosts),
            rejected=dict(floor.rejected),
            cpu_s=time.process_time(),
            uptime_s=time.monotonic() - self._ready_s,
        )

    def _flush(self) -> int:
        self._floor.book.flush()
        return self._floor.book.arrivals

    def _hosts(self, which: object) -> Sequence[Host]:
        """Hosts by name, by label, or all."""
        hosts = self._floor.hosts
        if which == "*":
            return tuple(hosts.values())
        if isinstance(which, str) and which in hosts:
            return (hosts[which],)
        found = tuple(host for host in hosts.values() if host.plan.label == which)
        if not found:
            raise FarmError(f"no host has the name or the label {which!r}")
        return found

    def _behave(self, order: dict[str, Any]) -> int:
        hosts = self._hosts(order.get("which"))
        script = order.get("script")
        planned = check_plan({"hosts": [{"name": "order", "script": script, "cycle": order.get("cycle", False)}]})
        wanted: HostPlan = planned.hosts[0]
        if any(reach_of(phase.behaviour) is not Reach.LISTENS for phase in wanted.script):
            for host in hosts:
                if host.plan.name not in self._own_ports:
                    raise PlanError(
                        f"host {host.plan.name} shares its port, so it cannot refuse connections; plan it with own_port"
                    )
        self._apply(hosts, wanted.script, cycle=wanted.cycle)
        return len(hosts)

    def _apply(self, hosts: Sequence[Host], script: tuple[Phase, ...], *, cycle: bool) -> None:
        for host in hosts:
            host.behave(script, cycle=cycle)
            own_port = self._own_ports.get(host.plan.name)
            if own_port is not None:
                own_port.script_moved()

    async def _wait(self, order: dict[str, Any]) -> bool:
        """Wait until a counter has got somewhere; whether it did in time."""
        try:
            counted = Counted(order.get("counted", ""))
            at_least, at_most = order.get("at_least"), order.get("at_most")
            timeout_s = min(float(order.get("timeout_s", 10)), MAX_WAIT_S)
        except (TypeError, ValueError) as error:
            raise FarmError(f"the order to wait is not usable: {error}") from error
        hosts = self._hosts(order.get("which", "*"))
        reached = asyncio.Event()

        def look() -> None:
            count = sum(_count(host, counted) for host in hosts)
            if (at_least is None or count >= at_least) and (at_most is None or count <= at_most):
                reached.set()

        self._floor.watchers.add(look)
        try:
            look()
            async with asyncio.timeout(timeout_s):
                await reached.wait()
        except TimeoutError:
            return False
        finally:
            self._floor.watchers.discard(look)
        return True


def _bound(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    # a socket's name holds 107 bytes and the path may be longer, so it is named by its folder's descriptor
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sock.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
    path.chmod(0o600)
    return sock


def _count(host: Host, counted: Counted) -> int:
    match counted:
        case Counted.ARRIVALS:
            return host.requests
        case Counted.ACCEPTED:
            return host.accepted
        case Counted.UNVERIFIED:
            return host.unverified
        case Counted.CONNECTIONS:
            return host.connections
        case Counted.OPEN:
            return host.open


def host_report(host: Host) -> HostReport:
    """One host's counters."""
    return HostReport(
        name=host.plan.name,
        label=host.plan.label,
        behaviour=host.behaviour_now,
        arrivals=host.requests,
        accepted=host.accepted,
        unverified=host.unverified,
        connections=host.connections,
        open=host.open,
        peak=host.peak,
    )
