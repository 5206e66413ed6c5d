# SPDX-License-Identifier: Apache-2.0
"""Finds the addresses of host names: in a map, else by DNS, without threads, so that a hung name stops no other."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

import aiodns
import pycares
from aiohttp.abc import AbstractResolver, ResolveResult

from ojak.clock import Clock, SystemClock
from ojak.http.guard import Guard
from ojak.http.resolver_map import NO_MAP, ResolverMap

_MAX_NAMES: Final = 10_000
_PER_FAMILY: Final = 2
# What c-ares says when it is our side that does not work, as opposed to the name or its servers.
_OWN_FAULTS: Final = frozenset(
    {
        pycares.errno.ARES_ECONNREFUSED,
        pycares.errno.ARES_EFILE,
        pycares.errno.ARES_ENOMEM,
        pycares.errno.ARES_ENOTINITIALIZED,
        pycares.errno.ARES_EDESTRUCTION,
        pycares.errno.ARES_ECANCELLED,
    }
)


class NameNotResolved(OSError):
    """A name has no address to dial.

    Attributes:
        own: our resolver does not work: nothing is known about the name.
    """

    def __init__(self, host: str, why: str, *, own: bool = False) -> None:
        super().__init__(None, f"{host} has no address: {why}")
        self.own = own


Lookup = Callable[[str], Awaitable[list[str]]]
"""Gives the addresses of a name, best first; raises NameNotResolved, or OSError for a fault of our own."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What is known about a name."""

    until_s: float
    addresses: tuple[str, ...]
    error: NameNotResolved | None


class Resolver(AbstractResolver):
    """Resolves names for one event loop, with one look-up at a time for each name.

    What was found is kept for `positive_s` (and by c-ares for as long as it lives), what was not for `negative_s`; a
    look-up may take `limit_s`. At most two
    addresses of each family are given, so that a name with many dead ones cannot hold a slot for long. Addresses that
    `guard` refuses are left out while there are others; if there are none, they are given, for the guard to refuse
    them when they are dialled.
    """

    def __init__(
        self,
        *,
        guard: Guard,
        known: ResolverMap = NO_MAP,
        lookup: Lookup | None = None,
        limit_s: float = 5.0,
        positive_s: float = 10.0,
        negative_s: float = 60.0,
        max_names: int = _MAX_NAMES,
        clock: Clock | None = None,
    ) -> None:
        self._guard = guard
        self._known = known
        self._dns = Dns()
        self._lookup = lookup if lookup is not None else self._dns.lookup
        self._limit_s = limit_s
        self._positive_s = positive_s
        self._negative_s = negative_s
        self._max_names = max_names
        self._clock = clock if clock is not None else SystemClock()
        self._found: dict[str, _Found] = {}
        self._flights: dict[str, asyncio.Task[_Found]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return addresses to dial. Raises NameNotResolved."""
        addresses = self._known.get(host)
        if addresses is None:
            addresses = await self._look_up(host)
        allowed = [address for address in addresses if self._guard.allows(address)]
        return [
            ResolveResult(hostname=host, host=address, port=port, family=version, proto=0, flags=socket.AI_NUMERICHOST)
            for address, version in _few(allowed or addresses)
            if family in (socket.AF_UNSPEC, version)
        ]

    async def close(self) -> None:
        """End all look-ups."""
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        await self._dns.close()

    async def _look_up(self, host: str) -> tuple[str, ...]:
        found = self._found.get(host)
        if found is None or found.until_s <= self._clock.boot_s():
            flight = self._flights.get(host)
            if flight is None:
                flight = asyncio.create_task(self._fly(host), name=f"resolve {host}")
                self._flights[host] = flight
                flight.add_done_callback(lambda _: self._flights.pop(host, None))
            # Who asked first may be cancelled; the others still want the answer.
            found = await asyncio.shield(flight)
        if found.error is not None:
            # A new one each time: an error that is raised again and again collects tracebacks.
            raise NameNotResolved(host, found.error.args[1].partition(": ")[2], own=found.error.own)
        return found.addresses

    async def _fly(self, host: str) -> _Found:
        """Look a name up and remember what came of it. Never raises, so that no failure goes unread."""
        try:
            async with asyncio.timeout(self._limit_s):
                addresses = tuple(await self._lookup(host))
            error = None if addresses else NameNotResolved(host, "it has neither A nor AAAA records")
        except TimeoutError:
            addresses, error = (), NameNotResolved(host, f"no answer within {self._limit_s:g} s")
        except NameNotResolved as failed:
            addresses, error = (), failed
        except OSError as failed:
            addresses, error = (), NameNotResolved(host, f"the resolver failed: {failed.strerror or failed}", own=True)
        keep_s = self._positive_s if error is None else self._negative_s
        found = _Found(self._clock.boot_s() + keep_s, addresses, error)
        self._found.pop(host, None)
        if error is None or not error.own:
            while len(self._found) >= self._max_names:
                self._found.pop(next(iter(self._found)))
            self._found[host] = found
        return found


class Dns:
    """Looks names up with c-ares, which reads /etc/hosts and /etc/resolv.conf itself."""

    def __init__(self, *, servers: list[str] | None = None, timeout_s: float = 2.0, tries: int = 2) -> None:
        self._servers = servers
        self._timeout_s = timeout_s
        self._tries = tries
        self._resolver: aiodns.DNSResolver | None = None

    async def lookup(self, host: str) -> list[str]:
        """Return the addresses of `host`. Raises NameNotResolved."""
        if self._resolver is None:
            self._resolver = aiodns.DNSResolver(
                nameservers=self._servers,
                loop=asyncio.get_running_loop(),
                # A host in a URL is a whole name: with a search list it could turn into one inside our own domain.
                flags=pycares.ARES_FLAG_NOSEARCH,
                timeout=self._timeout_s,
                tries=self._tries,
            )
        try:
            result = await self._resolver.getaddrinfo(
                host, family=socket.AF_UNSPEC, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
            )
        except aiodns.error.DNSError as error:
            code, why = error.args[0], str(error.args[1] if len(error.args) > 1 else error.args[0])
            raise NameNotResolved(host, why, own=code in _OWN_FAULTS) from error
        return [_text(node.addr[0]) for node in result.nodes]

    async def close(self) -> None:
        """Let the channel go."""
        if self._resolver is not None:
            with contextlib.suppress(aiodns.error.DNSError):
                await self._resolver.close()
            self._resolver = None


def _text(address: str | bytes) -> str:
    return address.decode("ascii") if isinstance(address, bytes) else address


def _few(addresses: tuple[str, ...] | list[str]) -> list[tuple[str, socket.AddressFamily]]:
    """The first addresses of each family, in their order."""
    few: list[tuple[str, socket.AddressFamily]] = []
    counts = {socket.AF_INET: 0, socket.AF_INET6: 0}
    for address in addresses:
        family = socket.AF_INET if ip_address(address).version == 4 else socket.AF_INET6
        counts[family] += 1
        if counts[family] <= _PER_FAMILY:
            few.append((address, family))
    return few
