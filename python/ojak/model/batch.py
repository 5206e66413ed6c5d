# SPDX-License-Identifier: Apache-2.0
"""`Batch`: what a batch of deliveries shares, and `BatchProgress`: how far it is (SPEC sections 1 and 2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ojak.errors import InputError, shown
from ojak.model.activity import check_text
from ojak.model.given import LONGEST_S
from ojak.model.job import UNFINISHED
from ojak.model.outcome import SentState

_LONGEST: Final = timedelta(seconds=LONGEST_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a batch of deliveries shares.

    Attributes:
        tag: what to find them by.
        deadline: when to give up on what has not gone through: a moment with its zone, or a time from the first send
            with this tag. None: as any delivery. The first send with a tag decides.
        order_key: what they are sent in order with; None: what each activity is about.

    Raises:
        InputError: a field is not usable; names it, its value and what is allowed.
    """

    tag: str
    deadline: datetime | timedelta | None = None
    order_key: str | None = None

    def __post_init__(self) -> None:
        check_text("tag", self.tag)
        if self.order_key is not None:
            check_text("order_key", self.order_key)
        if isinstance(self.deadline, datetime):
            if self.deadline.tzinfo is None:
                raise InputError(f"deadline is {self.deadline!r}; allowed is a moment with its zone, or a timedelta")
        elif self.deadline is not None and not (
            isinstance(self.deadline, timedelta)  # type: ignore[redundant-expr]
            and timedelta(0) < self.deadline <= _LONGEST
        ):
            raise InputError(
                f"deadline is {shown(self.deadline)}; allowed is a moment, or a timedelta of up to ten years"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDelivery:
    """A delivery of a batch that did not go through: where to, how it ended, and why."""

    activity_id: str
    inbox: str
    outcome: str
    status: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """How far a batch is.

    Attributes:
        tag: its tag.
        counts: how many deliveries are in each state, ended ones by outcome; `pending` are those that a transaction
            committed and that are not queued yet, all of a send until the last of it is.
        began_at: when the first was queued, or while none is, handed over.
        deadline: when the rest is given up on, or None.
        ends_at: an estimate of the end: by what has ended so far, not before the latest planned try, and at the
            deadline at the latest. None while nothing has ended, and when everything has.
        failures: what ended without being delivered, the latest first, at most as many as were asked for.
    """

    tag: str
    counts: Mapping[str, int]
    began_at: datetime
    deadline: datetime | None
    ends_at: datetime | None
    failures: tuple[FailedDelivery, ...]

    @property
    def total(self) -> int:
        """How many deliveries belong to it."""
        return sum(self.counts.values())

    @property
    def unfinished(self) -> int:
        """How many have not ended."""
        return sum(self.counts.get(state, 0) for state in (*UNFINISHED, SentState.PENDING.value))


def estimate_end(
    *,
    now: datetime,
    began_at: datetime,
    ended: int,
    unfinished: int,
    last_try: datetime | None,
    deadline: datetime | None,
) -> datetime | None:
    """When a batch will have ended, if it goes on as so far. None: nothing to go by, or nothing left. Pure."""
    if not unfinished or not ended:
        return None
    left_s = min((now - began_at).total_seconds() / ended * unfinished, 365 * 86_400.0)
    estimate = now + timedelta(seconds=left_s)
    if last_try is not None:
        estimate = max(estimate, last_try)
    return estimate if deadline is None else min(estimate, max(deadline, now))
