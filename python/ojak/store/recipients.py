# SPDX-License-Identifier: Apache-2.0
"""Recipients: inboxes as an application hands them over become deliveries to queue, or are refused with a reason."""

from collections.abc import AsyncIterable, Iterable, Iterator
from contextlib import suppress
from typing import Final, TypeVar

from ojak.errors import InputError
from ojak.model.domains import BlockedDomains
from ojak.model.inbox import Inbox, InvalidInbox, canonical_inbox
from ojak.model.outcome import SentInbox, SentState
from ojak.model.portable import GATEWAY_PATH, PortableInbox, canonical_portable, portable_form
from ojak.store.enqueue import NewJob

T = TypeVar("T")

_SHOWN_MAX: Final = 100


def list_portable(inboxes: Iterable[PortableInbox]) -> list[PortableInbox]:
    """Portable inboxes as they were handed over.

    Raises:
        InputError: something else is among them.
    """
    return [_portable_checked(inbox) for inbox in _listed(inboxes)]


def _portable_checked(inbox: object) -> PortableInbox:
    if not isinstance(inbox, PortableInbox):
        raise InputError(f"inboxes holds a {type(inbox).__name__}; allowed are PortableInboxes")
    return inbox


def sort_out(
    inboxes: Iterable[str | Inbox | PortableInbox], blocked: BlockedDomains
) -> tuple[list[NewJob], dict[str, SentInbox], dict[str, list[str]]]:
    """Split inboxes into jobs, one for each canonical one, and refusals; with the given texts of each canonical one."""
    jobs: dict[str, NewJob] = {}
    refused: dict[str, SentInbox] = {}
    given: dict[str, list[str]] = {}
    for item in _listed(inboxes):
        inbox = item if isinstance(item, Inbox | PortableInbox) else Inbox(item)
        try:
            job = new_job(inbox, blocked)
        except InvalidInbox as error:
            text = inbox.url if isinstance(inbox.url, str) else ascii(inbox.url)[:_SHOWN_MAX]  # type: ignore[redundant-expr]
            refused[text] = SentInbox(state=SentState.REFUSED, url=text, reason=str(error))
            continue
        jobs.setdefault(job.inbox, job)
        given.setdefault(job.inbox, []).append(inbox.url)
    return list(jobs.values()), refused, given


def _listed(inboxes: Iterable[T]) -> Iterator[T]:
    """Go through what was handed over as inboxes, unless it is one inbox, of which each character would be refused."""
    if isinstance(inboxes, AsyncIterable):
        raise InputError("inboxes is an async iterable; allowed is a list of inboxes: collect it first")
    if not isinstance(inboxes, str | bytes | bytearray | memoryview):
        with suppress(TypeError):
            return iter(inboxes)
    raise InputError(f"inboxes is a {type(inboxes).__name__}; allowed is a list of inboxes, also for one")


def new_job(inbox: Inbox | PortableInbox, blocked: BlockedDomains) -> NewJob:
    """The delivery to an inbox. Gateways in blocked domains are left out.

    An ordinary inbox in the form that gateways serve portable ones under is that portable one, which has one gateway:
    whoever hands it over in either way means the same inbox.

    Raises:
        InvalidInbox: it cannot be delivered to, or is in a blocked domain.
    """
    if isinstance(inbox, PortableInbox):
        return _portable(inbox, inbox.ref, blocked)
    found = canonical_inbox(inbox.url)
    if found.target.startswith(GATEWAY_PATH) and not inbox.shared:
        portable = portable_form(found.url)
        if portable is not None:
            return _portable(portable, inbox.ref, blocked)
    blocked.check(found)
    return NewJob(authority=found.authority, inbox=found.url, shared=inbox.shared, ref=inbox.ref)


def _portable(inbox: PortableInbox, ref: str | None, blocked: BlockedDomains) -> NewJob:
    found = canonical_portable(inbox)
    gateways = tuple(gateway for gateway in found.gateways if not blocked.covers(gateway.authority))
    if not gateways:
        raise InvalidInbox("gateways", "in blocked domains, all of them", "a gateway outside the blocked domains")
    return NewJob(authority=gateways[0].authority, inbox=found.uri, shared=False, ref=ref, gateways=gateways)
