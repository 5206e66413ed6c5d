# SPDX-License-Identifier: Apache-2.0
"""How attempts come out and how deliveries end (SPEC sections 1 and 3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class AttemptOutcome(StrEnum):
    """What one attempt came to."""

    DELIVERED = "delivered"
    RETRY = "retry"
    REFUSED = "refused"
    RECIPIENT_GONE = "recipient-gone"
    HOST_GONE = "host-gone"
    REFUSED_ADDRESS = "refused-address"
    PASSED_ON = "passed-on"
    """A gateway of a portable inbox did not take it: the attempt goes on at another, if one is open."""
    OWN_FAULT = "own-fault"
    """A fault of this machine or of the sender's key: no attempt is spent, and the host is not to blame."""


class SettledOutcome(StrEnum):
    """How a delivery was settled: it is done with, and trying again would change nothing."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    RECIPIENT_GONE = "recipient-gone"
    HOST_GONE = "host-gone"
    HOST_UNAVAILABLE = "host-unavailable"
    REFUSED_ADDRESS = "refused-address"
    BLOCKED = "blocked-domain"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class FailureReason(StrEnum):
    """Why a delivery will not be tried again though it was not settled."""

    OUT_OF_RETRIES = "out-of-retries"
    PAST_DEADLINE = "past-deadline"
    TOO_OLD = "too-old"
    PARKED = "parked"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPhases:
    """Where the time of an attempt went, in milliseconds."""

    sign_ms: float
    post_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """One attempt as it came out; `on_attempt` is called with it.

    Attributes:
        delivery_id: the job's id, 32 hexadecimal digits.
        activity_id: the activity's id, or its hash if it has none.
        inbox: the canonical inbox URL.
        ref: the application's reference for the inbox.
        sender: whose key signed.
        number: the number of the attempt, from 1.
        outcome: what it came to.
        scheme: the scheme of the last knock, or None if nothing was sent.
        status: the last HTTP status, or None if no answer came.
        reason: a word of the closed list in docs/outcomes.md, "" when delivered.
        maybe_delivered: the body was out when the connection failed: the inbox may have it.
        body_bytes: the length of what was sent.
        phases: where the time went.
        gateway: the origin of the gateway that was asked, if the inbox is portable; else None.
    """

    delivery_id: str
    activity_id: str
    inbox: str
    ref: str | None
    sender: str
    number: int
    outcome: AttemptOutcome
    scheme: str | None
    status: int | None
    reason: str
    maybe_delivered: bool
    body_bytes: int
    phases: AttemptPhases
    gateway: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """What every end of a delivery tells.

    Attributes:
        delivery_id: the job's id, 32 hexadecimal digits.
        end: the number of this end, from 1; with the delivery id it is unique, so deduplicate by both.
        activity_id: the activity's id, or its hash if it has none.
        inbox: the canonical inbox URL.
        ref: the application's reference for the inbox.
        sender: who sent it.
        attempts: how many attempts were spent.
        status: the last HTTP status, or None.
        reason: the last attempt's reason, "" when delivered at once.
        finished_at: when, by the database's clock.
    """

    delivery_id: str
    end: int
    activity_id: str
    inbox: str
    ref: str | None
    sender: str
    attempts: int
    status: int | None
    reason: str
    finished_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(_End):
    """A delivery that is done with; `on_settled` is called with it, at least once."""

    outcome: SettledOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFailure(_End):
    """A delivery that will not be tried again; `on_failure` is called with it, at least once."""

    outcome: FailureReason


class SentState(StrEnum):
    """What `send` did for one inbox."""

    NEW = "new"
    DUPLICATE = "duplicate"
    """The same delivery is waiting already."""
    ENDED = "ended"
    """It was delivered, or refused for good, before."""
    REFUSED = "refused"
    """The inbox is not usable; the others were queued."""
    PENDING = "pending"
    """It is in the application's transaction, and queued once that is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentInbox:
    """What `send` did for one inbox.

    Attributes:
        state: what was done.
        url: the canonical inbox URL, or the text as given if it was refused.
        outcome: how it ended before, if `state` is ENDED.
        reason: why it was refused, if `state` is REFUSED.
    """

    state: SentState
    url: str
    outcome: SettledOutcome | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The answer of `send`: what became of each inbox, by the text it was given as."""

    activity_id: str
    inboxes: Mapping[str, SentInbox]

    def count(self, state: SentState) -> int:
        """How many inboxes ended up in `state`."""
        return sum(1 for inbox in self.inboxes.values() if inbox.state is state)

    @property
    def new(self) -> int:
        """How many deliveries were queued by this call."""
        return self.count(SentState.NEW)

    @property
    def refused(self) -> Mapping[str, str]:
        """The inboxes that were refused, each with its reason."""
        return {given: inbox.reason or "" for given, inbox in self.inboxes.items() if inbox.state is SentState.REFUSED}
