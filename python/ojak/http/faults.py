# SPDX-License-Identifier: Apache-2.0
"""Says what an error of aiohttp or of the socket means for a delivery."""

import errno
import ssl
from typing import Final

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from ojak.http.flight import Flight, Phase
from ojak.http.resolver import NameNotResolved
from ojak.http.transport import (
    AddressError,
    ConnectError,
    ExchangeError,
    FaultReason,
    LocalError,
    PostError,
    ResolveError,
    TlsError,
)

# What this machine lacks, and no host can help: descriptors, memory, buffers, ports, a network, permission.
_LOCAL: Final = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.EADDRNOTAVAIL,
        errno.EADDRINUSE,
        errno.ENETDOWN,
        errno.EACCES,
        errno.EPERM,
    }
)
# A machine without IPv6 says these of every IPv6 address. That such a host cannot be reached from here is no fault that
# will pass, and its deliveries have to come to an end like others.
_NO_IPV6: Final = frozenset({errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM, errno.ENETDOWN})
_BY_ERRNO: Final = {
    errno.ECONNREFUSED: FaultReason.CONNECT_REFUSED,
    errno.ETIMEDOUT: FaultReason.CONNECT_TIMEOUT,
}
_MAX_DETAIL: Final = 200

_WORDS: Final = {
    FaultReason.DNS: "its name could not be resolved",
    FaultReason.CONNECT_REFUSED: "it refused the connection",
    FaultReason.CONNECT_TIMEOUT: "it did not take the connection in time",
    FaultReason.UNREACHABLE: "it cannot be reached",
    FaultReason.TLS: "the TLS handshake failed",
    FaultReason.TLS_TIMEOUT: "the TLS handshake did not end in time",
    FaultReason.TIMEOUT: "it did not answer in time",
    FaultReason.INTERIM_ONLY: "it sent only interim answers",
    FaultReason.RESET: "the connection broke before the answer",
    FaultReason.CLOSED: "it closed the connection before the answer",
    FaultReason.BAD_ANSWER: "it answered what is no HTTP/1 answer",
    FaultReason.REFUSED_ADDRESS: "the guard refused every address",
    FaultReason.LOCAL: "this machine could not send",
}


def explain(error: BaseException, flight: Flight, now_s: float) -> PostError:
    """Return the PostError that says what `error` means at the point that `flight` has come to."""
    kind, reason = _kind(error, flight)
    detail = str(flight.refused or _cause(error)) if reason is not FaultReason.CLOSED else ""
    text = f"{flight.authority}: {_WORDS[reason]}"
    if detail:
        # What a peer sent can be in there, a certificate's names for one.
        text += f" ({ascii(detail)[1:-1][:_MAX_DETAIL]})"
    return kind(text, reason=reason, maybe_delivered=flight.sent, phases=flight.phases(now_s))


def _cause(error: BaseException) -> object:
    """What of an error says most."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error
    return error.message if isinstance(error, HttpProcessingError) else error


def _kind(error: BaseException, flight: Flight) -> tuple[type[PostError], FaultReason]:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        own = isinstance(error.os_error, NameNotResolved) and error.os_error.own
        return (LocalError, FaultReason.LOCAL) if own else (ResolveError, FaultReason.DNS)
    if flight.refused is not None and not flight.dialled:
        return AddressError, FaultReason.REFUSED_ADDRESS
    if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
        return LocalError, FaultReason.LOCAL
    # The number of an SSLError is OpenSSL's: its 1 is no EPERM.
    tls = isinstance(error, aiohttp.ClientSSLError) or isinstance(error.__cause__, ssl.SSLError)
    number = error.errno if isinstance(error, OSError) and not tls else None
    if number in _LOCAL and not (flight.ipv6 and number in _NO_IPV6):
        return LocalError, FaultReason.LOCAL
    if isinstance(error, RuntimeError) and not isinstance(error, aiohttp.ClientError):
        return LocalError, FaultReason.LOCAL
    if flight.wire is None:
        return _connecting(error, flight, number, tls=tls)
    return ExchangeError, _exchanging(error, flight, number)


def _connecting(
    error: BaseException, flight: Flight, number: int | None, *, tls: bool
) -> tuple[type[PostError], FaultReason]:
    timed_out = isinstance(error, TimeoutError)
    if flight.phase is Phase.RESOLVE:
        return ResolveError, FaultReason.DNS
    if tls or flight.phase is Phase.TLS:
        return TlsError, FaultReason.TLS_TIMEOUT if timed_out else FaultReason.TLS
    if timed_out:
        return ConnectError, FaultReason.CONNECT_TIMEOUT
    return ConnectError, _BY_ERRNO.get(number or 0, FaultReason.UNREACHABLE)


def _exchanging(error: BaseException, flight: Flight, number: int | None) -> FaultReason:
    interim = flight.wire is not None and flight.wire.interim > 0
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return FaultReason.CLOSED
    if isinstance(error, TimeoutError) or number == errno.ETIMEDOUT:
        return FaultReason.INTERIM_ONLY if interim else FaultReason.TIMEOUT
    if isinstance(error, HttpProcessingError):
        return FaultReason.INTERIM_ONLY if interim else FaultReason.BAD_ANSWER
    return FaultReason.RESET
