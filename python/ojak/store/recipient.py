# SPDX-License-Identifier: Apache-2.0
"""Recipient: an inbox as an application hands it over becomes a delivery to queue."""

from ojak.model.domains import BlockedDomains
from ojak.model.inbox import Inbox, InvalidInbox, canonical_inbox
from ojak.model.portable import GATEWAY_PATH, PortableInbox, canonical_portable, portable_form
from ojak.store.enqueue import NewJob


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
