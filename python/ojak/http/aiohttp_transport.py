# SPDX-License-Identifier: Apache-2.0
"""The transport that uses aiohttp."""

import asyncio
import logging
import os
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from ojak.errors import ConfigError
from ojak.http.answers import salvage_answer
from ojak.http.closers import Closers
from ojak.http.connector import CURRENT, Connector, tls_context
from ojak.http.door import Door
from ojak.http.exchange import exchange
from ojak.http.faults import explain
from ojak.http.flight import Flight, boot_s
from ojak.http.guard import Guard
from ojak.http.request_head import request_head
from ojak.http.resolver import Resolver
from ojak.http.resolver_map import NO_MAP, ResolverMap
from ojak.http.transport import PostAnswer, PostRequest
from ojak.http.wire import Wire

_log = logging.getLogger(__name__)

_TICK_S: Final = 0.25
_DOORS: Final = 1024
_SCHEME_END: Final = len("https://")
# All limits are ours: one ticker for all requests is cheaper than two timers for each.
_NO_LIMITS: Final = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
# uvloop says RuntimeError where asyncio says OSError.
_BROKEN: Final = (aiohttp.ClientError, HttpProcessingError, OSError, RuntimeError)
_PROXY_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


class AiohttpTransport:
    """Posts with aiohttp, for the event loop that is running when it is made.

    Args:
        guard: which addresses may be dialled. With a `proxy`, only the proxy is dialled, and what it dials is out of
            the guard's sight: its place moves to the proxy.
        resolver_map: addresses of host names that go before DNS.
        resolver: instead of the resolver of its own.
        extra_ca: a PEM file of certificates that are trusted beside the system's.
        proxy: URL of the HTTP proxy that everything goes through, or None. The environment's is never used.
        connect_s: time to connect, TLS included, once a name has addresses.
        dns_s: time for a name to have addresses.
        read_s: time without a byte of the answer, once the body is out.
        request_s: time of one request in all.
        body_s: time for the rest of an answer's body, once its head has said everything.
        keepalive_s: how long an unused connection is kept.
        max_open: how many connections are kept at most; the one unused for longest goes.

    Raises ConfigError if `extra_ca` or `proxy` cannot be used.
    """

    def __init__(
        self,
        *,
        guard: Guard,
        resolver_map: ResolverMap = NO_MAP,
        resolver: Resolver | None = None,
        extra_ca: str | Path | None = None,
        proxy: str | None = None,
        connect_s: float = 5.0,
        dns_s: float = 5.0,
        read_s: float = 10.0,
        request_s: float = 30.0,
        body_s: float = 2.0,
        keepalive_s: float = 15.0,
        max_open: int = 512,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._resolver = resolver or Resolver(guard=guard, known=resolver_map, limit_s=dns_s)
        self._owns_resolver = resolver is None
        self._connect_s = connect_s
        self._read_s = read_s
        self._request_s = request_s
        self._body_s = body_s
        self._max_open = max_open
        self._open: dict[Wire, None] = {}
        self._closers = Closers()
        self._ticker: asyncio.TimerHandle | None = None
        self._door = lru_cache(maxsize=_DOORS)(
            partial(Door, proxy=None if proxy is None else _proxy_url(proxy), loop=self._loop)
        )
        connector = partial(
            Connector,
            guard=guard if proxy is None else None,
            resolver=self._resolver,
            context=tls_context(extra_ca),
            made=self._made,
            lost=self._lost,
        )
        self._kept = connector(keepalive_s=keepalive_s)
        self._closing = connector(keepalive_s=None)
        unused = sorted(name for name in os.environ if name.upper() in _PROXY_VARIABLES)
        if unused:
            _log.info("Proxy variables in the environment are not used", extra={"variables": unused})
        if proxy is not None:
            _log.info("Everything goes through the proxy, which has to guard the addresses it dials")

    async def post(self, request: PostRequest) -> PostAnswer:
        """POST once (`Transport.post`)."""
        now_s = boot_s()
        url = request.url
        # A canonical URL has a path.
        origin_end = url.index("/", _SCHEME_END)
        door = self._door(url[:origin_end])
        limit_s = self._request_s if request.within_s is None else min(request.within_s, self._request_s)
        flight = Flight(door.authority, now_s, now_s + limit_s, self._connect_s)
        CURRENT.set(flight)
        connector = self._closing if self._closers.knows(door.authority, now_s) else self._kept
        try:
            connection = await connector.connect(door, [], _NO_LIMITS)
        except _BROKEN as error:
            raise explain(error, flight, boot_s()) from error
        wire = connection.protocol
        assert isinstance(wire, Wire)
        if self._ticker is None:
            self._ticker = self._loop.call_later(_TICK_S, self._tick)
        try:
            target = url if door.asks_a_proxy else url[origin_end:]
            fields = [*request.headers, *connector.fields(door)]
            head = request_head(target, door.authority, fields, len(request.body))
            return await exchange(wire, flight, head, request.body, self._body_s)
        except _BROKEN as error:
            return self._broken(error, flight)
        finally:
            wire.end()
            connection.release()
            if wire in self._open:
                # To the end: the first are those unused for longest.
                self._open[wire] = self._open.pop(wire)

    async def reach(self, url: str) -> None:
        """Make a new connection to a host, TLS and all, and close it: shows whether the network is there.

        Args:
            url: canonical; only its origin counts.

        Raises:
            PostError: there is none.
        """
        now_s = boot_s()
        door = self._door(url[: url.index("/", _SCHEME_END)])
        flight = Flight(door.authority, now_s, now_s + self._request_s, self._connect_s)
        CURRENT.set(flight)
        try:
            # Of those that keep no connection: an old one would show nothing.
            connection = await self._closing.connect(door, [], _NO_LIMITS)
        except _BROKEN as error:
            raise explain(error, flight, boot_s()) from error
        connection.close()

    def _broken(self, error: Exception, flight: Flight) -> PostAnswer:
        """Answer with the head that arrived before something broke, or raise what that means."""
        answer = salvage_answer(flight)
        if answer is not None:
            return answer
        wire = flight.wire
        if wire is not None and flight.reused and not wire.head and not isinstance(error, TimeoutError):
            self._closers.learn(flight.authority, boot_s())
        raise explain(error, flight, boot_s()) from error

    async def close(self) -> None:
        """Close every connection. Requests on the wire fail."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        await self._kept.close()
        await self._closing.close()
        if self._owns_resolver:
            await self._resolver.close()

    def _made(self, wire: Wire) -> None:
        if len(self._open) >= self._max_open:
            idle = next((other for other in self._open if other.idle), None)
            if idle is not None:
                del self._open[idle]
                idle.close()
        self._open[wire] = None

    def _lost(self, wire: Wire, *, unannounced: bool) -> None:
        self._open.pop(wire, None)
        if unannounced and wire.authority:
            self._closers.learn(wire.authority, boot_s())

    def _tick(self) -> None:
        """Give up what is over its time, and look again soon while anything is under way."""
        now_s = boot_s()
        awaiting = [wire for wire in self._open if wire.awaiting]
        for wire in awaiting:
            if wire.sending():
                # The time for an answer begins when the body is out.
                wire.heard_at_s = now_s
            if now_s - wire.heard_at_s >= self._read_s or now_s >= wire.deadline_s:
                wire.give_up()
        self._ticker = self._loop.call_later(_TICK_S, self._tick) if awaiting else None


def _proxy_url(given: str) -> URL:
    try:
        url = URL(given)
        usable = url.scheme in {"http", "https"} and url.host is not None and url.port is not None
    except ValueError:
        usable = False
    if not usable:
        # It may hold a password, so it is not shown.
        raise ConfigError("proxy cannot be used; allowed is an http or https URL, such as http://proxy.example:3128")
    return url
