# SPDX-License-Identifier: Apache-2.0
"""Hosts as an operator sees them: what is set for one, why nothing goes to it, and how it does (SPEC section 4)."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from ojak.errors import InputError, shown
from ojak.model.inbox import InvalidInbox, canonical_inbox


class UnknownHost(InputError):
    """Nothing is known of a host; names it."""


class ContentForm(StrEnum):
    """The Content-Type of deliveries, in the two forms that ActivityPub section 7 has."""

    ACTIVITY_JSON = "activity+json"
    """`application/activity+json`, as every large server sends."""
    LD_JSON = "ld+json"
    """`application/ld+json; profile="https://www.w3.org/ns/activitystreams"`."""


class HostState(StrEnum):
    """What a host's deliveries wait for, in a word. Of several the first in this list."""

    PAUSED = "paused"
    """An operator's pause."""
    UNAVAILABLE = "unavailable"
    """It has been in the longest quarantine for so long that what goes there ends at once."""
    PROBING = "probing"
    """Its breaker is open, and one delivery tries it."""
    QUARANTINED = "quarantined"
    """Its breaker is open."""
    GATED = "gated"
    """It asked for no request before a time (`Retry-After`)."""
    RECOVERING = "recovering"
    """It was quarantined: one delivery at a time."""
    DUE = "due"
    """A delivery can go now."""
    LATER = "later"
    """Its deliveries have a time that has not come."""
    IDLE = "idle"
    """Nothing waits for it."""


class HostFilter(StrEnum):
    """Which hosts to list."""

    HELD = "held"
    """Nothing goes to them for now, for whatever reason."""
    OPEN = "open"
    """Their breaker is open."""
    PAUSED = "paused"
    """An operator paused them."""
    FAILING = "failing"
    """The last attempt did not come through."""
    SET = "set"
    """An operator has set something for them."""


class HostSort(StrEnum):
    """The order of a list of hosts."""

    NAME = "name"
    HELD = "held"
    """Those that are held for longest first."""
    SLOW = "slow"
    """Those that take longest to answer first."""
    FAILURE = "failure"
    """Those that failed last first."""


class ProbeAnswer(StrEnum):
    """What came of an operator's wish to probe a host now."""

    GOES = "goes"
    """Its probe was brought forward: the oldest delivery goes at once."""
    NOT_QUARANTINED = "not-quarantined"
    """Its breaker is not open: nothing has to be probed."""
    UNDER_WAY = "under-way"
    """A probe is under way, or may be had already."""
    NOTHING_WAITS = "nothing-waits"
    """Its probe was brought forward, and nothing waits for it: the next delivery is the probe."""
    PAUSED = "paused"
    """It is paused, or everything is: resume first."""
    GATED = "gated"
    """It asked for no request for now: the probe goes when that is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOverrides:
    """What an operator has set of how requests go to a host; None: as to any other.

    Attributes:
        scheme: the signature scheme that it is sent to with, whatever was learnt.
        per_host: how many requests it may have open.
        form: the Content-Type.
    """

    scheme: str | None = None
    per_host: int | None = None
    form: ContentForm | None = None


NO_OVERRIDES: Final = HostOverrides()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause: of a host, or of everything.

    Attributes:
        host: what is paused; None: everything.
        since: since when.
        by: who paused it.
        until: when it ends by itself; None: when somebody resumes.
        waiting: how many deliveries wait there that have not ended.
    """

    host: str | None
    since: datetime
    by: str
    until: datetime | None
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostBreaker:
    """A host's circuit breaker, as the queue's database has it.

    Attributes:
        state: closed, open, probing or recovering.
        failures: consecutive failures while it is closed.
        quarantine: the number of its quarantine, from 1; the next is longer.
        until: open: when it may be tried next.
        ends: open: when the quarantine ends by itself.
        to_go: recovering: how many successes in a row are missing.
        quiet_since: since when nothing came through, as far as that is known.
        unavailable_at: from when its deliveries end at once, or None.
    """

    state: str
    failures: int
    quarantine: int
    until: datetime | None
    ends: datetime | None
    to_go: int
    quiet_since: datetime | None
    unavailable_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """One host as the queue has it.

    Attributes:
        authority: its name, with its port if it has one.
        shard: which shard it belongs to.
        state: what its deliveries wait for.
        due: when its next delivery can go by its own time; None if nothing waits.
        held_until: until when nothing goes there; None if nothing holds it, or a pause without an end does.
        pause: the operator's pause, or None.
        breaker: its circuit breaker, None if nothing stands against it.
        scheme: the signature scheme it was learnt to take, or None.
        scheme_until: until when that is remembered.
        overrides: what an operator has set.
        limit: how many requests it may have open now, if that is fewer than it might have.
        proven: whether the last attempt came through; None if there was none.
        answer_ms: how long its answers take, smoothed.
        last_success, last_failure: when, within a minute.
        waiting: how many deliveries are in each state that have not ended.
        waiting_small: how many of these go before others.
    """

    authority: str
    shard: int
    state: HostState
    due: datetime | None
    held_until: datetime | None
    pause: Pause | None
    breaker: HostBreaker | None
    scheme: str | None
    scheme_until: datetime | None
    overrides: HostOverrides
    limit: int | None
    proven: bool | None
    answer_ms: float | None
    last_success: datetime | None
    last_failure: datetime | None
    waiting: Mapping[str, int] = field(default_factory=dict)
    waiting_small: int = 0

    @property
    def next_try(self) -> datetime | None:
        """When a delivery can go to it next: not before what holds it ends. None if nothing waits, or till resumed."""
        if self.due is None or (self.pause is not None and self.pause.until is None):
            return None
        return max(self.due, self.held_until) if self.held_until is not None else self.due

    @property
    def total_waiting(self) -> int:
        """How many deliveries have not ended."""
        return sum(self.waiting.values())


_HOST: Final = re.compile(r"(?:(https?)://([^/?#@\\]+)/?|([^/?#@\\]+))", re.IGNORECASE)
_PORT_OF_HTTP: Final = re.compile(r".*:0*80", re.DOTALL)


def canonical_host(name: str) -> str:
    """A host's name as hosts are kept: the authority of its inboxes' canonical URLs.

    A port that is a scheme's own goes, 443 and 80 alike. Where an inbox has the port of the other scheme, its origin
    says so: `http://example.org:443`.

    Raises:
        InputError: it is no name of a host.
    """
    given = _HOST.fullmatch(name) if isinstance(name, str) else None  # type: ignore[redundant-expr]
    if given is not None:
        scheme, authority = given[1], given[2] or given[3]
        if scheme is None:
            scheme = "http" if _PORT_OF_HTTP.fullmatch(authority) else "https"
        with contextlib.suppress(InvalidInbox):
            return canonical_inbox(f"{scheme}://{authority}/").authority
    raise InputError(
        f"host is {shown(name)}; allowed is a host's name, with its port if that is not its scheme's own,"
        " such as example.org or example.org:8443; or its origin, such as http://example.org:443"
    )
