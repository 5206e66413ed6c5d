# SPDX-License-Identifier: Apache-2.0
"""Failover: a gateway did not take a delivery to a portable inbox; what becomes of it (SPEC section 3, "Portable").

Each gateway is asked under a lease of its own, in the lane of its own host, so that its limit, its breaker and its
gate hold as for any other delivery. The attempt is one all the same: what was tried in it goes along with the row.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ojak.backoff import backoff_s
from ojak.config import DelivererConfig
from ojak.model.failover import OPEN, Came, Hold, StepKind, Tried, has_begun, next_step, start_at, still_ruled_out
from ojak.model.job import Job
from ojak.model.outcome import FailureReason, SettledOutcome
from ojak.store.database import QueueDatabase
from ojak.store.gateways import holds_of
from ojak.store.move import Moved
from ojak.store.settle import Ended, Retried, without_attempt
from ojak.store.waiting import Waiting

_ENDS: Final = {
    StepKind.GONE: SettledOutcome.RECIPIENT_GONE,
    StepKind.REFUSED: SettledOutcome.REFUSED,
    StepKind.NO_ADDRESS: SettledOutcome.REFUSED_ADDRESS,
    StepKind.BLOCKED: SettledOutcome.BLOCKED,
    StepKind.UNAVAILABLE: SettledOutcome.HOST_UNAVAILABLE,
}
_UNAVAILABLE: Final = "host-unavailable"
_AWAY: Final = Hold(left_s=3600.0, unavailable=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A delivery that a gateway did not take, and whose end that is not.

    Attributes:
        job: as it was leased.
        tried: what was tried in this attempt.
        status, reason, scheme: of this gateway's answer.
        maybe_delivered: the inbox may have it all the same.
        unavailable: nothing was asked: the gateway has been away for so long that nothing goes there.
    """

    job: Job
    tried: tuple[Tried, ...]
    status: int | None
    reason: str
    scheme: str | None
    maybe_delivered: bool = False
    unavailable: bool = False

    @property
    def spent(self) -> bool:
        """Whether the attempt counts."""
        return has_begun(self.tried)

    @property
    def goes_on(self) -> bool:
        """Whether gateways are left that were not asked."""
        return self.job.route is not None and len(self.tried) < len(self.job.route.origins)


def passed(
    job: Job,
    came: Came,
    *,
    status: int | None = None,
    reason: str,
    scheme: str | None = None,
    maybe: bool = False,
    free: bool = False,
    hold_s: float = 0.0,
    detail: str = "",
) -> Ended | Passed:
    """What a delivery comes to that a gateway did not take: an end if that was the last of final answers."""
    assert job.route is not None
    last = Tried(
        place=job.route.place, came=came, status=status, reason=reason, scheme=scheme, free=free, hold_s=hold_s
    )
    tried = job.route.with_tried(last)
    step = next_step(tried, [OPEN] * len(job.route.origins))
    if step.kind in _ENDS and step.kind is not StepKind.UNAVAILABLE:
        return Ended(
            job=job,
            outcome=_ENDS[step.kind],
            spent=step.kind is not StepKind.BLOCKED,
            status=status,
            reason=reason,
            scheme=scheme,
            detail=detail if step.kind is StepKind.REFUSED else "",
            tried=tried,
        )
    return Passed(job=job, tried=tried, status=status, reason=reason, scheme=scheme, maybe_delivered=maybe)


def given_up(job: Job) -> Ended | Passed:
    """What becomes of a delivery whose host has been away for so long that nothing goes there."""
    if job.route is None:
        return without_attempt(job, SettledOutcome.HOST_UNAVAILABLE, _UNAVAILABLE)
    return Passed(job=job, tried=job.route.tried, status=None, reason=_UNAVAILABLE, scheme=None, unavailable=True)


class Failover:
    """Decides where deliveries go that a gateway did not take.

    Args:
        db: the queue, to see which gateways are held.
        config: how often is retried.
    """

    def __init__(self, *, db: QueueDatabase, config: DelivererConfig) -> None:
        self._db = db
        self._config = config
        self._random = random.Random()  # noqa: S311 - jitter

    async def decide(self, batch: Sequence[Passed]) -> list[Ended | Moved]:
        """Say where each goes; one read for all of them."""
        lanes = {one.job.id: one.job.route.authorities() for one in batch if one.job.route is not None}
        holds = await holds_of(self._db, {lane for found in lanes.values() for lane in found})
        return [self._decide(one, lanes[one.job.id], holds) for one in batch]

    async def pass_on(self, page: Sequence[Waiting]) -> list[Moved | Passed]:
        """Say what of some deliveries that wait for a held gateway goes elsewhere; one read for all of them."""
        lanes = {one.job.id: one.job.route.authorities() for one in page if one.job.route is not None}
        holds = await holds_of(self._db, {lane for found in lanes.values() for lane in found})
        decided = [self._pass_on(one, lanes[one.job.id], holds) for one in page if one.job.id in lanes]
        return [one for one in decided if one is not None]

    def _pass_on(self, one: Waiting, lanes: Sequence[str], holds: Mapping[str, Hold]) -> Moved | Passed | None:
        job, route = one.job, one.job.route
        assert route is not None
        held = [holds[lane] for lane in lanes]
        if held[route.place].left_s <= one.wait_s:
            return None
        step = next_step(route.tried, held, after_s=one.wait_s)
        if step.kind is StepKind.RETRY:
            last = route.tried[-1]
            return Passed(job=job, tried=route.tried, status=last.status, reason=last.reason, scheme=last.scheme)
        if step.kind not in (StepKind.GO, StepKind.WAIT) or step.place == route.place:
            # Of a host that is unavailable a claim says so.
            return None
        tried = route.tried if step.kind is StepKind.GO else still_ruled_out(route.tried)
        return Moved(job=job, place=step.place, lane=lanes[step.place], tried=tried, retry=None)

    def _decide(self, one: Passed, lanes: Sequence[str], holds: Mapping[str, Hold]) -> Ended | Moved:
        assert one.job.route is not None
        held = [holds[lane] for lane in lanes]
        if one.unavailable:
            place = one.job.route.place
            held[place] = replace(_AWAY, left_s=max(_AWAY.left_s, held[place].left_s))
        step = next_step(one.tried, held)
        match step.kind:
            case StepKind.GO:
                return self._moved(one, lanes, step.place, tried=one.tried)
            case StepKind.WAIT:
                return self._moved(one, lanes, step.place, tried=still_ruled_out(one.tried), delay_s=step.wait_s)
            case StepKind.RETRY:
                number = one.job.tries + 1
                if number >= self._config.max_attempts:
                    return self._ended(one, FailureReason.OUT_OF_RETRIES)
                delay_s = backoff_s(number, self._random)
                place = start_at(held, after_s=delay_s)
                return self._moved(one, lanes, place, delay_s=delay_s, spent=True)
            case StepKind.UNAVAILABLE:
                return self._ended(replace(one, status=None, reason=_UNAVAILABLE), _ENDS[step.kind])
            case _:
                return self._ended(one, _ENDS[step.kind])

    def _ended(self, one: Passed, outcome: SettledOutcome | FailureReason) -> Ended:
        return Ended(
            job=one.job,
            outcome=outcome,
            spent=one.spent,
            status=one.status,
            reason=one.reason,
            scheme=one.scheme,
            maybe_delivered=one.maybe_delivered,
            tried=one.tried,
        )

    def _moved(
        self,
        one: Passed,
        lanes: Sequence[str],
        place: int,
        *,
        tried: tuple[Tried, ...] = (),
        delay_s: float = 0.0,
        spent: bool = False,
    ) -> Moved:
        retry = Retried(
            job=one.job,
            delay_s=delay_s,
            spent=spent,
            status=one.status,
            reason=one.reason,
            scheme=one.scheme,
            maybe_delivered=one.maybe_delivered,
            # What goes on keeps it apart.
            tried=one.tried if spent else (),
        )
        return Moved(job=one.job, place=place, lane=lanes[place], tried=tried, retry=retry)
