# SPDX-License-Identifier: Apache-2.0
"""What attempts come to, and what becomes of deliveries without one: values that the settler writes."""

from dataclasses import dataclass
from typing import Final

from ojak.breaker.circuit import Signal
from ojak.model.failover import Came
from ojak.model.hold import Hold, HoldKind
from ojak.model.job import Job
from ojak.model.outcome import AttemptOutcome, AttemptPhases, DeliveryAttempt, SettledOutcome
from ojak.store.aside import SetAside
from ojak.store.settle import Ended, Retried, without_attempt
from ojak.store.supersede import REASON as TAKEN_BACK
from ojak.worker.failover import Passed, passed

_ASIDE_FROM_S: Final = 5.0
"""What waits for less is not worth the look that letting it go costs."""
_NO_TIME: Final = AttemptPhases(sign_ms=0.0, post_ms=0.0)

Outcome = Ended | Retried | SetAside | Passed
"""What the queue writes of a leased delivery."""

_ENDS: Final = {
    SettledOutcome.DELIVERED: AttemptOutcome.DELIVERED,
    SettledOutcome.REFUSED: AttemptOutcome.REFUSED,
    SettledOutcome.RECIPIENT_GONE: AttemptOutcome.RECIPIENT_GONE,
    SettledOutcome.HOST_GONE: AttemptOutcome.HOST_GONE,
    SettledOutcome.REFUSED_ADDRESS: AttemptOutcome.REFUSED_ADDRESS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """What an attempt came to.

    Attributes:
        outcome: what the queue writes.
        tells: whether it tells anything of the host; a fault of our own does not.
        signal: what it tells the host's breaker.
        again_s: if it was a probe and tells the breaker nothing: how soon another may be made.
        hold_s: for how long the host asked for no more requests, or None.
        body_bytes: how much was sent.
        phases: where the time went.
        quiet: nothing was attempted, and nobody is told of an attempt.
    """

    outcome: Outcome
    tells: bool = False
    signal: Signal = Signal.NOTHING
    again_s: float = 0.0
    hold_s: float | None = None
    body_bytes: int = 0
    phases: AttemptPhases = _NO_TIME
    quiet: bool = False

    def as_told(self) -> DeliveryAttempt:
        """The attempt as the application is told of it."""
        outcome, job = self.outcome, self.outcome.job
        if isinstance(outcome, Ended) and isinstance(outcome.outcome, SettledOutcome):
            came_to = _ENDS.get(outcome.outcome, AttemptOutcome.OWN_FAULT)
        elif isinstance(outcome, Passed) and outcome.goes_on:
            came_to = AttemptOutcome.PASSED_ON
        else:
            # A probe that failed spends no attempt, and is no fault of ours.
            came_to = AttemptOutcome.RETRY if outcome.spent or self.tells else AttemptOutcome.OWN_FAULT
        return DeliveryAttempt(
            delivery_id=job.id.hex(),
            activity_id=job.activity_id,
            inbox=job.inbox,
            ref=job.ref,
            sender=job.sender,
            number=job.tries + 1,
            outcome=came_to,
            scheme=outcome.scheme,
            status=outcome.status,
            reason=outcome.reason,
            maybe_delivered=isinstance(outcome, Retried | Passed) and outcome.maybe_delivered,
            body_bytes=self.body_bytes,
            phases=self.phases,
            gateway=job.route.origin if job.route is not None else None,
        )


def put_off(job: Job, seconds: float) -> Attempted:
    """No attempt: the breaker of its inbox is open, or another delivery has to be alone there."""
    reason = "inbox-held"
    if job.route is not None:
        outcome: Outcome = passed(job, Came.HELD, reason=reason, hold_s=seconds)
    elif seconds < _ASIDE_FROM_S:
        outcome = Retried(job=job, delay_s=seconds, spent=False, status=None, reason=reason, scheme=None)
    else:
        hold = Hold(kind=HoldKind.QUARANTINE, of=job.inbox, reason=reason, for_s=seconds)
        outcome = SetAside(job=job, hold=hold, stands=False, reason=reason)
    return Attempted(outcome=outcome, quiet=True)


def taken_back(job: Job) -> Ended:
    """What becomes of a delivery that was taken back before it was begun."""
    return without_attempt(job, SettledOutcome.SUPERSEDED, TAKEN_BACK)
