# SPDX-License-Identifier: Apache-2.0
"""What a transport does: one POST, and how it came out. Every transport passes one conformance suite."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from ojak.errors import DeliveryError

MAX_BODY_HEAD_BYTES: Final = 4096
"""How much of an answer's body is read, raw and never decoded; a longer one closes the connection."""
MAX_HEAD_BYTES: Final = 16 * 1024
"""How long the head of an answer may be, with all interim answers before it."""
MAX_FIELDS: Final = 100
"""How many header fields an answer may have."""


class FaultReason(StrEnum):
    """Why no answer came of a request. These words are stored, counted and shown."""

    DNS = "dns"
    """The name has no address, or its servers did not say."""
    CONNECT_REFUSED = "connect-refused"
    CONNECT_TIMEOUT = "connect-timeout"
    UNREACHABLE = "unreachable"
    """No route to the address, or it was given up on by a router between."""
    TLS = "tls"
    """No handshake: a certificate that does not verify, no common version, or no TLS at all."""
    TLS_TIMEOUT = "tls-timeout"
    TIMEOUT = "timeout"
    """No answer in time."""
    INTERIM_ONLY = "interim-only"
    """Nothing but 1xx answers in time, or more of them than an answer's head may be long."""
    RESET = "reset"
    """The connection broke before the answer's head ended."""
    CLOSED = "closed-before-answer"
    """The connection was closed before the answer's head ended."""
    BAD_ANSWER = "bad-answer"
    """Something that is no HTTP/1 answer, or one whose head is too long."""
    REFUSED_ADDRESS = "refused-address"
    """The guard refused every address. Final, and no failure of the host."""
    LOCAL = "local"
    """A fault of this machine: no descriptors, no resolver, no ports, or its proxy. No failure of the host."""


class PostError(DeliveryError):
    """A POST that got no answer. Subclasses say in which phase; `reason` says why.

    Attributes:
        reason: why.
        maybe_delivered: the body was out, so that the inbox may have it.
        phases: where the time went.
        scheme: the signature scheme of the request, where one signed it.
        first_status: the status that the other scheme was refused with just before, if it was.
    """

    def __init__(
        self, text: str, *, reason: FaultReason, maybe_delivered: bool = False, phases: "PostPhases | None" = None
    ) -> None:
        super().__init__(text)
        self.reason = reason
        self.maybe_delivered = maybe_delivered
        self.phases = phases if phases is not None else PostPhases()
        self.scheme: str | None = None
        self.first_status: int | None = None


class ResolveError(PostError):
    """The host's name has no address."""


class ConnectError(PostError):
    """No connection could be made to any address of the host."""


class TlsError(PostError):
    """The TLS handshake failed."""


class ExchangeError(PostError):
    """A connection was there, the request went out, at least in part, and no answer came."""


class AddressError(PostError):
    """The guard refused every address of the host."""


class LocalError(PostError):
    """This machine, not the host, is at fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostPhases:
    """Where the time of a request went, in milliseconds. A kept connection has only the last.

    Attributes:
        dns_ms: until the name had addresses.
        connect_ms: from there until TCP was up.
        tls_ms: from there until TLS was up.
        answer_ms: from the request's first byte until the answer's head had ended, or it was given up on.
    """

    dns_ms: float = 0.0
    connect_ms: float = 0.0
    tls_ms: float = 0.0
    answer_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PostRequest:
    """One POST.

    Attributes:
        url: a canonical URL (`ojak.model.inbox.canonical_inbox`): its bytes go out as they are.
        headers: the fields to send, in this order. A transport adds Content-Length, `Connection: close` where a host
            is known to need it, and nothing else.
        body: what to send, byte for byte.
        within_s: an end earlier than the transport's own, in seconds from now, or None.
    """

    url: str
    headers: list[tuple[str, str]]
    body: bytes
    within_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostAnswer:
    """An answer whose head has arrived, whatever its body is or lacks.

    Attributes:
        status: the status of the final answer.
        content_type: its Content-Type, or None. Field values are printable ASCII, escaped where they were not.
        accept_signature: its Accept-Signature (RFC 9421 section 5.1), or None.
        retry_after: its Retry-After, or None.
        location: its Location, or None.
        body_head: what was read of its body, raw, at most 4 KiB. Empty for most 2xx: nobody asks.
        reused: whether a kept connection was used.
        phases: where the time went.
    """

    status: int
    content_type: str | None = None
    accept_signature: str | None = None
    retry_after: str | None = None
    location: str | None = None
    body_head: bytes = b""
    reused: bool = False
    phases: PostPhases

    @property
    def html(self) -> bool:
        """Whether it is a web page: a 200 of this kind is delivered, but may come from a parked domain."""
        return self.content_type is not None and self.content_type.lower().startswith("text/html")


class Transport(Protocol):
    """Posts. One instance belongs to one event loop."""

    async def post(self, request: PostRequest) -> PostAnswer:
        """POST once: no redirect is followed, nothing is repeated, no cookie is kept.

        Raises PostError if no head of an answer arrived.
        """
        ...

    async def close(self) -> None:
        """Close every connection. Requests on the wire fail."""
        ...
