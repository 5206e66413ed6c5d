# SPDX-License-Identifier: Apache-2.0
"""`Job`: one delivery as a worker holds it."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from hashlib import sha256

from ojak.model.failover import Route, has_begun


class JobState(StrEnum):
    """Where an unfinished job is. A finished one has its outcome as its state."""

    QUEUED = "queued"
    BLOCKED = "blocked"
    LEASED = "leased"
    ASIDE = "aside"
    """Set aside: it waits for its sender or its inbox, no worker looks at it, and it keeps its place in its order."""


UNFINISHED = tuple(state.value for state in JobState)
WAITING = tuple(state.value for state in JobState if state is not JobState.LEASED)
"""Where a job is that no worker has: whoever ends it needs no lease."""


class Priority(IntEnum):
    """Which of a host's two lines a job stands in. Lower goes first."""

    SMALL = 0
    """A send to few inboxes: a direct message, a Follow, an Accept."""
    FANOUT = 1
    """Everything else."""


def job_id(activity_identity: str, inbox: str) -> bytes:
    """The id of the delivery of an activity to a canonical inbox: 16 bytes of a hash.

    As `_id` it makes deliveries unique without an index of its own (DESIGN section 3).

    NUL parts the two: neither an id nor a canonical inbox can hold one without changing the other's reading.
    """
    return sha256(f"{activity_identity}\0{inbox}".encode()).digest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A leased delivery.

    Attributes:
        id: 16 bytes, from activity and inbox.
        lane: the host's authority.
        inbox: the canonical URL, or of a portable inbox its `ap://` id.
        shared: whether it is a shared inbox, which decides what a 410 means.
        ref: the application's reference for the inbox.
        sender: whose key signs.
        activity_id: the activity's id or hash.
        body: the key of the body.
        priority: the line it stands in.
        tries: attempts spent so far.
        deaths: workers that died while it ran.
        ends: how often it ended before (it may have been revived since).
        too_old: it was queued longer ago than a delivery may wait, by the database's clock.
        past_deadline: its batch's deadline has come.
        order: what it shares with those that it goes before or after, or None.
        since: when its activity was handed over, as a number of the database's that rises, if it is one that another
            can take back before it is begun (`TAKEN_BACK_BY`); else None.
        route: the gateways of a portable inbox, else None.
        scout: the mark of a hold that it tries, or None: whether its inbox is still gone or quarantined.
        stamp: the lease's stamp; every later write matches it.
    """

    id: bytes
    lane: str
    inbox: str
    shared: bool
    ref: str | None
    sender: str
    activity_id: str
    body: bytes
    priority: Priority
    tries: int
    deaths: int
    ends: int
    too_old: bool
    stamp: bytes
    past_deadline: bool = False
    order: bytes | None = None
    since: int | None = None
    route: Route | None = None
    scout: bytes | None = None

    @property
    def url(self) -> str:
        """Where it is POSTed."""
        return self.inbox if self.route is None else self.route.url(self.inbox)

    @property
    def has_begun(self) -> bool:
        """Whether other gateways were asked in the attempt that goes on now: it counts, however it ends."""
        return self.route is not None and has_begun(self.route.tried)
