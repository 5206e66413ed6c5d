# SPDX-License-Identifier: Apache-2.0
"""Delivery without a queue: one body, one inbox, one key, now."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Network, IPv6Network

from ojak.clock import Clock
from ojak.errors import DeliveryError, InputError
from ojak.http.aiohttp_transport import AiohttpTransport
from ojak.http.guard import Guard
from ojak.http.knock import ACTIVITY_JSON, Headers, Knocked, Knocker, check_headers
from ojak.http.transport import Transport
from ojak.model.domains import BlockedDomains
from ojak.model.inbox import Inbox, canonical_inbox
from ojak.model.status import permanent_status
from ojak.signing import BodyDigest, Scheme, SigningKey

_SHOWN_BYTES = 200


class InboxRefused(DeliveryError):
    """An inbox answered, and not that it took the activity.

    Attributes:
        inbox: its canonical URL.
        status: what it answered, to the last scheme that was tried.
        scheme: that scheme.
        location: where a redirect, which is not followed, leads.
        retry_after: its Retry-After as it came, or None.
        body_head: the first 200 bytes of the answer's body, raw.
    """

    def __init__(self, inbox: str, knocked: Knocked) -> None:
        answer = knocked.answer
        super().__init__(f"inbox {inbox} answered {answer.status} to a request signed by {knocked.scheme}")
        self.inbox = inbox
        self.status = answer.status
        self.scheme = knocked.scheme
        self.location = answer.location
        self.retry_after = answer.retry_after
        self.body_head = answer.body_head[:_SHOWN_BYTES]

    @property
    def permanent(self) -> bool:
        """Whether the same request would be answered the same (`permanent_status`)."""
        return permanent_status(self.status)


async def deliver(
    body: bytes,
    inbox: str | Inbox,
    key: SigningKey,
    *,
    first: Scheme = Scheme.CAVAGE,
    transport: Transport | None = None,
    allow: tuple[IPv4Network | IPv6Network, ...] = (),
    blocked: BlockedDomains | None = None,
    agent: str | None = None,
    content_type: str = ACTIVITY_JSON,
    clock: Clock | None = None,
) -> Scheme:
    """POST one body to one inbox, signed with one key, and return the scheme that was accepted. No queue, no retry.

    `first` is tried first; if it is refused with 400, 401 or 403, the other.

    Args:
        body: the activity, sent byte for byte.
        inbox: the inbox's URL.
        key: what signs.
        first: the scheme to try first.
        transport: what posts; by default one made for this call, so for many deliveries give one.
        allow: networks that the guard lets through beside the public ones, where no transport is given.
        blocked: domains that nothing is sent to (`Outbound.blocked`).
        agent: the User-Agent; by default product and version.
        content_type: the Content-Type.
        clock: what tells the time that is signed.

    Raises:
        InvalidInbox: the inbox is no URL that can be delivered to, or its domain is blocked.
        InboxRefused: it answered anything but a 2xx.
        PostError: it did not answer; `reason` says why, `maybe_delivered` whether it may have the body all the same.
        SigningError: the key cannot sign.

    Source: SPEC sections 1 and 3.
    """
    return await deliver_with_headers(
        body,
        inbox,
        key,
        (),
        first=first,
        transport=transport,
        allow=allow,
        blocked=blocked,
        agent=agent,
        content_type=content_type,
        clock=clock,
    )


async def deliver_with_headers(
    body: bytes,
    inbox: str | Inbox,
    key: SigningKey,
    headers: Headers,
    *,
    signed: bool = False,
    first: Scheme = Scheme.CAVAGE,
    transport: Transport | None = None,
    allow: tuple[IPv4Network | IPv6Network, ...] = (),
    blocked: BlockedDomains | None = None,
    agent: str | None = None,
    content_type: str = ACTIVITY_JSON,
    clock: Clock | None = None,
) -> Scheme:
    """Do as `deliver`, and send further headers, such as `Collection-Synchronization`, beside the signature's own.

    They are not covered by the signature unless `signed` asks for it. Raises InputError, beside what `deliver` raises,
    if they cannot be sent or are set by the delivery itself.
    """
    check_headers(headers)
    # The types are checked for callers that run without a type checker.
    for name, value, kind in (("body", body, bytes), ("key", key, SigningKey), ("first", first, Scheme)):
        if not isinstance(value, kind):
            raise InputError(f"{name} is a {type(value).__name__}; allowed is {kind.__name__}")
    if not isinstance(blocked, BlockedDomains | None):
        raise InputError(f"blocked is a {type(blocked).__name__}; allowed is BlockedDomains, or None")
    canonical = canonical_inbox(inbox.url if isinstance(inbox, Inbox) else inbox)
    if blocked is not None:
        blocked.check(canonical)
    url = canonical.url
    async with _using(transport, allow) as posting:
        knocked = await Knocker(posting, agent=agent, content_type=content_type, clock=clock).knock(
            url,
            body,
            digest=BodyDigest(body),
            key=key,
            first=first,
            signed=headers if signed else (),
            unsigned=() if signed else headers,
        )
    if not 200 <= knocked.answer.status < 300:
        raise InboxRefused(url, knocked)
    return knocked.scheme


@asynccontextmanager
async def _using(given: Transport | None, allow: tuple[IPv4Network | IPv6Network, ...]) -> AsyncIterator[Transport]:
    if given is not None:
        yield given
        return
    made = AiohttpTransport(guard=Guard(allow))
    try:
        yield made
    finally:
        await made.close()
