# SPDX-License-Identifier: Apache-2.0
"""Failover: which gateway of a portable inbox is tried next, and what an attempt at them came to (SPEC section 3).

Pure. One attempt asks the gateways in order until one accepts. One that is held is passed over without a request; so
an attempt is over when every gateway was asked or is held.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ojak.model.inbox import canonical_inbox
from ojak.model.portable import inbox_at


class Came(StrEnum):
    """What one gateway's part of an attempt came to; whatever accepts ends the delivery."""

    GONE = "gone"
    """404 or 410: it does not take anything for that inbox."""
    REFUSED = "refused"
    """Another final answer."""
    NO_ADDRESS = "no-address"
    """None of its addresses may be dialled. Nothing was asked."""
    BLOCKED = "blocked"
    """It is in a domain that nothing is sent to: as if its actor did not list it."""
    FAILED = "failed"
    """An answer or a fault after which a retry makes sense."""
    HELD = "held"
    """Its inbox there is held, where breakers are kept for inboxes. Nothing was asked."""


_FINAL: Final = frozenset({Came.GONE, Came.REFUSED, Came.NO_ADDRESS, Came.BLOCKED})
_ASKED: Final = frozenset({Came.GONE, Came.REFUSED, Came.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One gateway's part of an attempt.

    Attributes:
        place: which gateway, by its place in the list.
        came: what it came to.
        status, reason, scheme: of its last answer.
        free: it was the probe of an open breaker and failed: it spends no attempt.
        hold_s: if it was held: for how long.
    """

    place: int
    came: Came
    status: int | None = None
    reason: str = ""
    scheme: str | None = None
    free: bool = False
    hold_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The gateways of a delivery, and how far its attempt is.

    Attributes:
        origins: the gateways, in the order they are tried.
        place: the one whose lane it is in: tried now, or next.
        tried: what others came to in the attempt that is under way.
    """

    origins: tuple[str, ...]
    place: int
    tried: tuple[Tried, ...] = ()

    @property
    def origin(self) -> str:
        """The gateway that is tried now, or next."""
        return self.origins[self.place]

    def url(self, uri: str) -> str:
        """Where a delivery to the inbox `uri` is POSTed now."""
        return inbox_at(self.origin, uri)

    def authorities(self) -> list[str]:
        """The hosts of the gateways, in order."""
        return [canonical_inbox(origin).authority for origin in self.origins]

    def with_tried(self, last: Tried) -> tuple[Tried, ...]:
        """What was tried, with what the gateway of now came to."""
        return (*(one for one in self.tried if one.place != last.place), last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Whether a host may be sent to.

    Attributes:
        left_s: nothing goes to it for so long.
        unavailable: it is held, and has been away for so long that what goes to it ends at once.
    """

    left_s: float = 0.0
    unavailable: bool = False


OPEN: Final = Hold()


class StepKind(StrEnum):
    """What follows a gateway that did not accept."""

    GO = "go"
    """Another gateway is asked, in the same attempt."""
    RETRY = "retry"
    """The attempt is over and was spent; the next one comes later."""
    WAIT = "wait"
    """All that was not ruled out is held: the delivery waits for the first to open, without an attempt."""
    GONE = "gone"
    REFUSED = "refused"
    NO_ADDRESS = "no-address"
    BLOCKED = "blocked"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is to be done.

    Attributes:
        kind: what.
        place: at which gateway, if it is GO or WAIT.
        wait_s: if it is WAIT: for how long at least, beyond what the host's own record says.
    """

    kind: StepKind
    place: int = 0
    wait_s: float = 0.0


def has_begun(tried: Sequence[Tried]) -> bool:
    """Whether a request of the attempt was made that counts."""
    return any(one.came in _ASKED and not one.free for one in tried)


def next_step(tried: Sequence[Tried], holds: Sequence[Hold], *, after_s: float = 0.0) -> Step:
    """What follows, given what was tried in this attempt.

    Args:
        tried: what the gateways came to that were asked, each once.
        holds: of every gateway, in order.
        after_s: in how many seconds the next request can be made; what is open by then is not held.
    """
    came = {one.place: one for one in tried}
    for place, hold in enumerate(holds):
        if place not in came and hold.left_s <= after_s:
            return Step(kind=StepKind.GO, place=place)
    if len(came) >= len(holds) and all(one.came in _FINAL for one in tried):
        return Step(kind=_final(tried))
    if has_begun(tried):
        return Step(kind=StepKind.RETRY)
    # What is ruled out for its address or domain is not waited for; what failed as a probe is, as its breaker says.
    left = [place for place in range(len(holds)) if place not in came or came[place].came not in _FINAL]
    if all(holds[place].unavailable for place in left):
        return Step(kind=StepKind.UNAVAILABLE, place=_first_to_open(left, holds))
    left = [place for place in left if not holds[place].unavailable]
    waits = {place: max(holds[place].left_s, came[place].hold_s if place in came else 0.0) for place in left}
    place = min(left, key=waits.__getitem__)
    return Step(kind=StepKind.WAIT, place=place, wait_s=came[place].hold_s if place in came else 0.0)


def start_at(holds: Sequence[Hold], *, after_s: float = 0.0) -> int:
    """Where an attempt begins in `after_s` seconds: at the first gateway open by then, else the first to open."""
    return next_step((), holds, after_s=after_s).place


def still_ruled_out(tried: Sequence[Tried]) -> tuple[Tried, ...]:
    """What a delivery that waits without an attempt need not ask again."""
    return tuple(one for one in tried if one.came in (Came.NO_ADDRESS, Came.BLOCKED))


def _first_to_open(places: Sequence[int], holds: Sequence[Hold]) -> int:
    return min(places, key=lambda place: holds[place].left_s)


def _final(tried: Sequence[Tried]) -> StepKind:
    came = {one.came for one in tried} - {Came.BLOCKED}
    if not came:
        return StepKind.BLOCKED
    if came == {Came.GONE}:
        return StepKind.GONE
    return StepKind.NO_ADDRESS if came == {Came.NO_ADDRESS} else StepKind.REFUSED
