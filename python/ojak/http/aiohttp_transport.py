# SPDX-License-Identifier: Apache-2.0
"""The transport that uses aiohttp."""

import asyncio
import io
import logging
import os
from functools import lru_cache
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict
from yarl import URL

from ojak.errors import ConfigError
from ojak.http.connector import CURRENT, Connector, Context, tls_context
from ojak.http.faults import explain
from ojak.http.flight import Flight, boot_s
from ojak.http.guard import Guard
from ojak.http.head import salvage_head
from ojak.http.resolver import Resolver
from ojak.http.resolver_map import NO_MAP, ResolverMap
from ojak.http.transport import (
    MAX_BODY_HEAD_BYTES,
    MAX_FIELDS,
    MAX_HEAD_BYTES,
    ExchangeError,
    FaultReason,
    PostAnswer,
    PostRequest,
)
from ojak.http.wire import Wire

_log = logging.getLogger(__name__)

_TICK_S: Final = 0.25
_CLOSER_S: Final = 3600.0
_MAX_CLOSERS: Final = 4096
_MAX_VALUE: Final = 2048
_MANY_BYTES: Final = 1 << 20
_SWITCHING_PROTOCOLS: Final = 101
_PROXY_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


class _Answer(aiohttp.ClientResponse):
    """Tells the flight which connection its request went out on, before anything can go wrong there."""

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        wire = connection.protocol
        if isinstance(wire, Wire):
            now_s = boot_s()
            flight = CURRENT.get()
            wire.begin(flight, now_s)
            flight.exchanging(wire, now_s)
        return await super().start(connection)


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
        self._proxy = None if proxy is None else _proxy_url(proxy)
        self._connect_s = connect_s
        self._read_s = read_s
        self._request_s = request_s
        self._body_s = body_s
        self._max_open = max_open
        self._open: dict[Wire, None] = {}
        self._closers: dict[str, float] = {}
        self._flights: set[Flight] = set()
        self._ticker: asyncio.TimerHandle | None = None
        context = tls_context(extra_ca)
        self._kept = self._session(guard if proxy is None else None, context, keepalive_s)
        self._closing = self._session(guard if proxy is None else None, context, None)
        unused = sorted(name for name in os.environ if name.upper() in _PROXY_VARIABLES)
        if unused:
            _log.info("Proxy variables in the environment are not used", extra={"variables": unused})
        if proxy is not None:
            _log.info("Everything goes through the proxy, which has to guard the addresses it dials")

    def _session(self, guard: Guard | None, context: Context, keepalive_s: float | None) -> aiohttp.ClientSession:
        connector = Connector(
            guard=guard,
            resolver=self._resolver,
            context=context,
            keepalive_s=keepalive_s,
            made=self._made,
            lost=self._lost,
        )
        return aiohttp.ClientSession(
            connector=connector,
            response_class=_Answer,
            cookie_jar=aiohttp.DummyCookieJar(),
            # All limits are ours: one ticker for all requests is cheaper than two timers for each.
            timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=MAX_BODY_HEAD_BYTES,
            max_line_size=MAX_HEAD_BYTES,
            max_field_size=MAX_HEAD_BYTES,
            max_headers=MAX_FIELDS,
        )

    async def post(self, request: PostRequest) -> PostAnswer:
        """POST once (`Transport.post`)."""
        now_s = boot_s()
        url, authority = _target(request.url)
        limit_s = self._request_s if request.within_s is None else min(request.within_s, self._request_s)
        flight = Flight(authority, now_s, now_s + limit_s, self._connect_s)
        CURRENT.set(flight)
        self._flights.add(flight)
        if self._ticker is None:
            self._ticker = self._loop.call_later(_TICK_S, self._tick)
        session = self._session_for(authority, now_s)
        try:
            while True:
                try:
                    return await self._exchange(session, url, request, flight)
                except (aiohttp.ClientError, OSError) as error:
                    if not _unsent(error, flight, request):
                        return self._salvage(error, flight)
                # A kept connection was gone before a byte was written: nothing is repeated by using a fresh one.
                self._learn_closer(authority, now_s)
                session = self._closing
                flight.again(boot_s())
        finally:
            self._flights.discard(flight)
            if flight.wire is not None:
                flight.wire.end(flight, boot_s())

    async def _exchange(
        self, session: aiohttp.ClientSession, url: URL, request: PostRequest, flight: Flight
    ) -> PostAnswer:
        body = request.body
        answer = await session.post(
            url,
            # aiohttp warns of large bodies as bytes; as a file their length is known just the same.
            data=body if len(body) <= _MANY_BYTES else io.BytesIO(body),
            headers=CIMultiDict(request.headers),
            allow_redirects=False,
            proxy=self._proxy,
        )
        flight.answered(boot_s())
        return await self._read(answer, flight)

    async def close(self) -> None:
        """Close every connection. Requests on the wire fail."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        await self._kept.close()
        await self._closing.close()
        if self._owns_resolver:
            await self._resolver.close()

    async def _read(self, answer: aiohttp.ClientResponse, flight: Flight) -> PostAnswer:
        status, headers, content = answer.status, answer.headers, answer.content
        if status == _SWITCHING_PROTOCOLS:
            answer.close()
            if flight.wire is not None:
                # aiohttp takes the answer for complete, and the connection for usable.
                flight.wire.close()
            raise ExchangeError(
                f"{flight.authority}: it switched protocols unasked",
                reason=FaultReason.BAD_ANSWER,
                maybe_delivered=True,
                phases=flight.phases(boot_s()),
            )
        delivered = 200 <= status < 300
        if content.is_eof():
            body_head = b""
            if content.total_bytes > MAX_BODY_HEAD_BYTES and flight.wire is not None:
                flight.wire.close()
            if not delivered and content.exception() is None:
                body_head = content.read_nowait(MAX_BODY_HEAD_BYTES)
        else:
            body_head = await self._read_rest(answer, flight)
        return PostAnswer(
            status=status,
            content_type=_clean(headers.get(hdrs.CONTENT_TYPE)),
            accept_signature=_clean(headers.get("Accept-Signature")),
            retry_after=None if delivered else _clean(headers.get(hdrs.RETRY_AFTER)),
            location=None if delivered else _clean(headers.get(hdrs.LOCATION)),
            body_head=body_head,
            reused=flight.reused,
            phases=flight.phases(0.0),
        )

    async def _read_rest(self, answer: aiohttp.ClientResponse, flight: Flight) -> bytes:
        """Read a body that did not come with its head: not for long, not for much, and whatever goes wrong."""
        body = b""
        within_s = min(self._body_s, flight.deadline_s - boot_s())
        try:
            if (answer.content_length or 0) <= MAX_BODY_HEAD_BYTES or answer.status >= 300:
                async with asyncio.timeout(within_s):
                    while len(body) < MAX_BODY_HEAD_BYTES and (
                        piece := await answer.content.read(MAX_BODY_HEAD_BYTES - len(body))
                    ):
                        body += piece
        except (aiohttp.ClientError, OSError):
            # The head has said everything; what the body lacks changes nothing.
            pass
        finally:
            if not answer.content.at_eof():
                answer.close()
        return body

    def _salvage(self, error: Exception, flight: Flight) -> PostAnswer:
        """Answer with the head that arrived before something broke, or raise what that means."""
        now_s = boot_s()
        wire = flight.wire
        if wire is None:
            raise explain(error, flight, now_s) from error
        head = salvage_head(wire.head, MAX_HEAD_BYTES, MAX_FIELDS)
        if head is None:
            if flight.reused and not wire.head and not isinstance(error, TimeoutError):
                self._learn_closer(flight.authority, now_s)
            raise explain(error, flight, now_s) from error
        flight.answered(now_s)
        return PostAnswer(
            status=head.status,
            content_type=_clean(head.fields.get("content-type")),
            accept_signature=_clean(head.fields.get("accept-signature")),
            retry_after=_clean(head.fields.get("retry-after")),
            location=_clean(head.fields.get("location")),
            reused=flight.reused,
            phases=flight.phases(now_s),
        )

    def _session_for(self, authority: str, now_s: float) -> aiohttp.ClientSession:
        if self._closers and (until_s := self._closers.get(authority)) is not None:
            if now_s < until_s:
                return self._closing
            del self._closers[authority]
        return self._kept

    def _learn_closer(self, authority: str, now_s: float) -> None:
        """Remember that a server closes its connections after an answer without saying so.

        Otherwise every second POST to it would go out on a connection that is just being closed.
        """
        self._closers.pop(authority, None)
        while len(self._closers) >= _MAX_CLOSERS:
            del self._closers[next(iter(self._closers))]
        self._closers[authority] = now_s + _CLOSER_S

    def _made(self, wire: Wire) -> None:
        if len(self._open) >= self._max_open:
            idle = next((other for other in self._open if other.user is None), None)
            if idle is not None:
                del self._open[idle]
                idle.close()
        self._open[wire] = None

    def _lost(self, wire: Wire, *, unannounced: bool) -> None:
        self._open.pop(wire, None)
        if unannounced and wire.authority:
            self._learn_closer(wire.authority, boot_s())

    def _tick(self) -> None:
        """Give up what is over its time, and look again soon while anything is under way."""
        now_s = boot_s()
        for flight in self._flights:
            wire = flight.wire
            if wire is not None and wire.user is flight and wire.awaiting:
                silent = now_s - wire.heard_at_s >= self._read_s and not wire.sending()
                if silent or now_s >= flight.deadline_s:
                    wire.give_up()
        self._ticker = self._loop.call_later(_TICK_S, self._tick) if self._flights else None


@lru_cache(maxsize=8192)
def _target(canonical: str) -> tuple[URL, str]:
    """A URL whose bytes aiohttp will send as they are, and its authority.

    The whole target goes in as the path: of a query of its own yarl would drop an empty one. The authority is cut out
    here, since yarl's decodes A-labels, and fails where they cannot be decoded.
    """
    scheme, _, rest = canonical.partition("://")
    authority, slash, target = rest.partition("/")
    return URL.build(scheme=scheme, authority=authority, path=slash + target, encoded=True), authority


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


def _unsent(error: Exception, flight: Flight, request: PostRequest) -> bool:
    """Whether a kept connection turned out to be closed when the request was about to be written to it."""
    # Only a body that goes out in one write fails before its first byte.
    single = len(request.body) <= _MANY_BYTES
    return flight.reused and single and isinstance(error.__cause__, aiohttp.ClientConnectionResetError)


def _clean(value: str | None) -> str | None:
    """A field value that can be stored and shown: printable ASCII, and not too long."""
    if value is None or (len(value) <= _MAX_VALUE and value.isascii() and value.isprintable()):
        return value
    return ascii(value[:_MAX_VALUE])[1:-1][:_MAX_VALUE]
