# SPDX-License-Identifier: Apache-2.0
"""`Explanation`: where an activity went, and what each of its deliveries waits for."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class WaitsFor(StrEnum):
    """What an unfinished delivery waits for."""

    TURN = "turn"
    """A free slot: it can go now."""
    TIME = "time"
    """Its next try, after one that failed."""
    HOST = "host"
    """Its host, to which nothing goes for now."""
    PAUSE = "pause"
    """An operator's pause: of its host, or of everything."""
    SENDER = "sender"
    """Its sender, who is paused or cannot sign."""
    INBOX = "inbox"
    """Its inbox, to which nothing goes for now."""
    ORDER = "order"
    """Another delivery of its order to the same inbox."""
    ANSWER = "answer"
    """A worker has it: begun, or about to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayState:
    """One gateway of a delivery to a portable inbox.

    Attributes:
        origin: the gateway.
        status, reason: of its answer in the attempt that goes on, or else the last one; None and "" if it was not
            asked in that.
        next: it is asked now or next, or is the one that accepted.
        held_until: nothing goes to it before that, in the year 9999 where a pause has no end; None if it is not held,
            or the delivery has ended.
    """

    origin: str
    status: int | None
    reason: str
    next: bool
    held_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryState:
    """One delivery as the queue has it.

    Attributes:
        activity_id: the activity's id or hash.
        inbox: the canonical inbox URL.
        sender: who sends it.
        ref: the application's reference for the inbox.
        batch: the tag of its batch, or None.
        state: queued, blocked, leased, or how it ended.
        attempts: how many attempts were spent.
        maybe_delivered: how many of them failed after the body was out.
        status, reason, scheme: of the last attempt.
        detail: what the inbox said of a refusal.
        waits_for: what it waits for, None if it ended.
        behind: the activity it waits behind, if it waits for its order.
        next_try: when it can be tried next, as far as that is known.
        queued_at: when it was handed over.
        finished_at: when it ended, or None.
        gateways: of a portable inbox, in the order they are asked.
    """

    activity_id: str
    inbox: str
    sender: str
    ref: str | None
    batch: str | None
    state: str
    attempts: int
    maybe_delivered: int
    status: int | None
    reason: str
    scheme: str | None
    detail: str
    waits_for: WaitsFor | None
    behind: str | None
    next_try: datetime | None
    queued_at: datetime | None
    finished_at: datetime | None
    gateways: tuple[GatewayState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where an activity went.

    Attributes:
        activity_id: its id.
        counts: how many of its deliveries are in each state, ended ones by outcome; `pending` are those that a
            transaction committed and that are not queued yet, all of a send until the last of it is.
        deliveries: those that are in the queue, unfinished ones first; at most as many as were asked for.
    """

    activity_id: str
    counts: Mapping[str, int]
    deliveries: tuple[DeliveryState, ...]

    @property
    def total(self) -> int:
        """How many deliveries the activity has, as far as they are kept."""
        return sum(self.counts.values())
