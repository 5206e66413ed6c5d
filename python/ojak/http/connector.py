# SPDX-License-Identifier: Apache-2.0
"""How the aiohttp transport connects: every address through the guard, every phase on the clock."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Protocol

import aiohttp
from aiohttp import hdrs
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler

from ojak.errors import ConfigError
from ojak.http.door import Door
from ojak.http.flight import Flight, boot_s
from ojak.http.guard import Guard, RefusedAddress
from ojak.http.request_head import Fields
from ojak.http.wire import Wire

_CLOSE: Final = (("Connection", "close"),)

CURRENT: Final[ContextVar[Flight]] = ContextVar("ojak_flight")
"""The request that the running task is about. aiohttp has no other way to hand it down to a new connection."""


class Lost(Protocol):
    """Is called when a connection is gone."""

    def __call__(self, wire: Wire, *, unannounced: bool) -> None:
        """`unannounced`: the server closed it right after an answer without having said so."""
        ...


class Context(ssl.SSLContext):
    """A TLS context that tells the flight when its handshake begins."""

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Begin a handshake."""
        flight = CURRENT.get(None)
        if flight is not None:
            flight.handshaking(boot_s())
        return super().wrap_bio(*args, **kwargs)


def tls_context(extra_ca: str | Path | None) -> Context:
    """A context that verifies names and certificates by the system's authorities and those in the file `extra_ca`.

    Raises ConfigError if the file cannot be used.
    """
    if extra_ca is None:
        return _system_context()
    context = _new_context()
    try:
        context.load_verify_locations(cafile=str(extra_ca))
    except ssl.SSLError as error:
        raise ConfigError(f"extra_ca is {str(extra_ca)!r}; allowed is a PEM file of certificates") from error
    except OSError as error:
        raise ConfigError(f"extra_ca is {str(extra_ca)!r}, which cannot be read: {error.strerror}") from error
    return context


def _new_context() -> Context:
    context = Context(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_default_certs()
    return context


@cache
def _system_context() -> Context:
    """One for all: reading the system's authorities takes tens of milliseconds."""
    return _new_context()


class Connector(aiohttp.TCPConnector):
    """Makes and keeps connections. How many is its owner's business: the slots of deliveries bound them.

    A `keepalive_s` of None closes each connection after its answer, and says so in each request.
    """

    def __init__(
        self,
        *,
        guard: Guard | None,
        resolver: AbstractResolver,
        context: Context,
        keepalive_s: float | None,
        made: Callable[[Wire], None],
        lost: Lost,
    ) -> None:
        kept: dict[str, Any] = {"force_close": True} if keepalive_s is None else {"keepalive_timeout": keepalive_s}
        super().__init__(
            resolver=resolver,
            # The resolver has a cache, with one flight a name and a memory for failures, of its own.
            use_dns_cache=False,
            ssl=context,
            limit=0,
            socket_factory=self._dial,
            **kept,
        )
        wire: Callable[..., ResponseHandler] = Wire
        self._factory = partial(wire, loop=self._loop, lost=lost)
        self._guard = guard
        self._made = made

    def _dial(self, addr_info: Any) -> socket.socket:
        """Open a socket for an address: the one point that every connection passes, to address literals too."""
        flight = CURRENT.get()
        flight.dialling(boot_s())
        family, kind, protocol, _, address = addr_info
        if self._guard is not None:
            try:
                self._guard.check(str(address[0]))
            except RefusedAddress as refused:
                flight.refused = refused
                raise
        flight.dialled = True
        flight.ipv6 = family == socket.AF_INET6
        return socket.socket(family, kind, protocol)

    def fields(self, door: Door) -> Fields:
        """What a request over one of the connections has to say beside its own fields."""
        fields = _CLOSE if self.force_close else ()
        if not door.asks_a_proxy or (password := door.headers.get(hdrs.PROXY_AUTHORIZATION)) is None:
            return fields
        return (*fields, (hdrs.PROXY_AUTHORIZATION, password))

    async def _create_connection(self, req: aiohttp.ClientRequest, *args: Any) -> ResponseHandler:
        if self.closed:
            raise RuntimeError("the transport is closed")
        flight = CURRENT.get()
        flight.reused = False
        # Until an address is dialled only the resolver has the time, which bounds itself.
        async with asyncio.timeout(flight.deadline_s - boot_s()) as flight.limit:
            protocol = await super()._create_connection(req, *args)
        flight.limit = None
        if not isinstance(protocol, Wire):
            # Without its wire nothing would bound how long a request takes.
            protocol.close()
            raise TypeError(f"aiohttp {aiohttp.__version__} does not let Ojak make its connections")
        protocol.authority = flight.authority
        self._made(protocol)
        return protocol
