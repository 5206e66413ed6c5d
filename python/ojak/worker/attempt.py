# SPDX-License-Identifier: Apache-2.0
"""One attempt of one delivery: sign, post, knock once more if the scheme was refused, and say what it came to."""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from ojak.backoff import backoff_s
from ojak.breaker.circuit import Signal
from ojak.breaker.signals import signal_of
from ojak.clock import Clock
from ojak.config import DelivererConfig
from ojak.errors import SigningError, UnknownSender
from ojak.http.knock import LD_JSON, Knocked, Knocker
from ojak.http.transport import FaultReason, PostAnswer, PostError
from ojak.model.domains import BlockedDomains
from ojak.model.failover import Came
from ojak.model.hold import Hold, HoldKind
from ojak.model.host import ContentForm
from ojak.model.job import Job
from ojak.model.outcome import AttemptPhases, FailureReason, SettledOutcome
from ojak.model.status import GATE_STATUSES, TOO_MANY_REQUESTS, StatusClass, classify_status, retry_after_s
from ojak.signing import CachingSenderKeys, KeysOutOfReach, Scheme, SenderKeyring, SenderKeys, SigningKey
from ojak.store.aside import SetAside
from ojak.store.holds import GONE_FIRST_S
from ojak.store.settle import Ended, Retried, without_attempt
from ojak.worker.attempted import Attempted, Outcome
from ojak.worker.bodies import Body
from ojak.worker.failover import Passed, passed
from ojak.worker.foreign import ForeignCall, name_of
from ojak.worker.headers import RequestHeaders
from ojak.worker.outage import Outage
from ojak.worker.scheme_memory import shown_by
from ojak.worker.standings import Standings

_log = logging.getLogger("ojak.worker.attempt")

_NAMED_RETRIES: Final = 5
"""What an operator's `retry_statuses` name is retried up to so many attempts."""
_KEYS_S: Final = 10.0
_OWN_FAULT_S: Final = 30.0
_BAD_TIME_S: Final = 60.0
"""After a 408 or 429 to a probe; what the host asked for in Retry-After holds beside it."""
_DETAIL_BYTES: Final = 200

_BLOCKED: Final = "blocked-domain"
_GONE_AT_A_GATEWAY: Final = frozenset({404, 410})
"""What a gateway says that takes nothing for that inbox. Source: FEP-ef61; 410 is what some answer instead."""


class Attempter:
    """Makes attempts.

    Args:
        knocker: signs and posts.
        keys: the senders' keys.
        standings: what is known of hosts; attempts add to it.
        config: limits and statuses.
        clock: for dates in answers.
        blocked: domains that nothing is sent to.
        headers: gives further headers of each attempt, which are signed; None: there are none.
        outage: told of each attempt; says whether a failure is our own.
    """

    def __init__(
        self,
        *,
        knocker: Knocker,
        keys: SenderKeys,
        standings: Standings,
        config: DelivererConfig,
        clock: Clock,
        blocked: BlockedDomains | None = None,
        headers: RequestHeaders | None = None,
        outage: Outage,
    ) -> None:
        self._outage = outage
        self._blocked = blocked or BlockedDomains()
        self._knocker = knocker
        self._keys = keys
        # Not of a class derived from it, which may refuse what is kept.
        self._kept_key = keys.kept if type(keys) is CachingSenderKeys else _none_kept
        self._standings = standings
        self._config = config
        self._clock = clock
        self._headers = headers
        self._first = Scheme(config.first_scheme)
        self._random = random.Random()  # noqa: S311 - jitter

    async def attempt(
        self,
        job: Job,
        body: Body | None,
        *,
        allowance: Callable[[], float],
        begin: Callable[[], Outcome | None],
        probe: bool = False,
        gone_before: bool = False,
    ) -> Attempted:
        """Make one attempt.

        Args:
            job: the leased delivery.
            body: what to send; None if it is not in the database any more.
            allowance: for how many seconds the lease may still be believed.
            begin: asked in the step of the loop in which the request begins; gives what becomes of the delivery instead
                if it was cancelled or its sender paused before that.
            probe: whether it is the probe of an open breaker: then it spends no attempt unless it shows that the host
                works.
            gone_before: whether it tries a shared inbox that answered 410 an hour or more ago.
        """
        if job.past_deadline:
            return Attempted(outcome=without_attempt(job, FailureReason.PAST_DEADLINE, "past-deadline"))
        if self._blocked.covers(job.lane):
            blocked = passed(job, Came.BLOCKED, reason=_BLOCKED) if job.route is not None else None
            return Attempted(outcome=blocked or without_attempt(job, SettledOutcome.BLOCKED, _BLOCKED), quiet=True)
        if job.too_old:
            return Attempted(outcome=without_attempt(job, FailureReason.TOO_OLD, "too-old"))
        if body is None:
            return Attempted(outcome=without_attempt(job, FailureReason.PARKED, "body-missing"))
        key = await self._key_of(job.sender)
        if isinstance(key, str):
            return self._set_aside(job, key) if key != FaultReason.LOCAL.value else self._own_fault(job)
        signed = await self._headers.of(job) if self._headers is not None else ()
        overrides = self._standings.overrides(job.lane)
        known = overrides.scheme or self._standings.scheme(job.lane)
        # No step of the loop lies between this and the request.
        if (instead := begin()) is not None:
            return Attempted(outcome=instead, quiet=True)
        try:
            knocked = await self._knocker.knock(
                job.url,
                body.content,
                digest=body.digest,
                key=key,
                first=Scheme(known) if known is not None else self._first,
                signed=signed,
                second=overrides.scheme is None,
                content_type=LD_JSON if overrides.form is ContentForm.LD_JSON else None,
                allowance=allowance,
            )
        except PostError as error:
            return self._unanswered(job, body, error, probe=probe)
        except SigningError as error:
            return self._set_aside(job, self._keyless(job.sender, "key-broken", error))
        except Exception as error:  # noqa: BLE001 - a fault of this program
            return self.failed(job, error)
        return self._answered(job, body, knocked, probe=probe, gone_before=gone_before)

    def failed(self, job: Job, error: BaseException) -> Attempted:
        """What an attempt came to that met a fault of this program.

        It must neither take the worker with it nor be repeated for ever.
        """
        extra = {"delivery": job.id.hex()}
        _log.error("an attempt failed in a way nobody foresaw", exc_info=error, extra=extra)
        return Attempted(outcome=self._retry(job, None, "internal-error", None), again_s=_OWN_FAULT_S)

    async def can_sign(self, sender: str) -> bool:
        """Whether the key of a sender can be had and used."""
        return isinstance(await self._key_of(sender), SigningKey)

    async def _key_of(self, sender: str) -> SigningKey | str:
        """The key of a sender, or the reason why it cannot sign: `local` if that is ours and not its own."""
        # Nearly always it is here, and a time-out costs more than all else about it.
        if (kept := self._kept_key(sender)) is not None:
            return kept.rsa
        try:
            # A source that hangs must not hold a slot: its sender waits, and nobody else.
            with ForeignCall():
                async with asyncio.timeout(_KEYS_S):
                    return (await self._keys.keys_of(sender)).rsa
        except KeysOutOfReach as error:
            _log.error("a fault of this machine; deliveries wait", extra={"error": str(error)})
            return FaultReason.LOCAL.value
        except UnknownSender as error:
            return self._keyless(sender, "key-missing", error)
        except SigningError as error:
            return self._keyless(sender, "key-broken", error)
        except Exception as error:  # noqa: BLE001 - an application's own source may raise anything
            return self._keyless(sender, "key-source-failed", error)

    def _keyless(self, sender: str, reason: str, error: Exception) -> str:
        extra = {"sender": sender, "reason": reason, "error": name_of(error)}
        _log.warning("a sender cannot sign; its deliveries wait", extra=extra)
        return reason

    def _set_aside(self, job: Job, reason: str) -> Attempted:
        """The sender waits, not the host: no attempt is spent."""
        hold = Hold(kind=HoldKind.KEY, of=job.sender, reason=reason, for_s=self._config.key_retry_s)
        return Attempted(outcome=SetAside(job=job, hold=hold, stands=False, reason=reason))

    def _own_fault(self, job: Job, phases: AttemptPhases | None = None) -> Attempted:
        """What this machine lacks is no fault of a host or a sender: the delivery waits, and spends no attempt."""
        own = FaultReason.LOCAL.value
        outcome = Retried(job=job, delay_s=_OWN_FAULT_S, spent=False, status=None, reason=own, scheme=None)
        return Attempted(
            outcome=outcome, again_s=_OWN_FAULT_S, phases=phases or AttemptPhases(sign_ms=0.0, post_ms=0.0)
        )

    def _unanswered(self, job: Job, body: Body, error: PostError, *, probe: bool) -> Attempted:
        phases = AttemptPhases(sign_ms=0.0, post_ms=error.phases.answer_ms)
        if error.reason is FaultReason.REFUSED_ADDRESS:
            return Attempted(outcome=_final(job, SettledOutcome.REFUSED_ADDRESS, error.reason.value), phases=phases)
        if error.reason is FaultReason.LOCAL:
            _log.error("a fault of this machine; deliveries wait", extra={"error": str(error)})
            return self._own_fault(job, phases)
        if self._outage.unreachable(job, known=self._standings.answered_lately(job.lane)):
            # It is us who are cut off. Nothing begins until that is over: so it waits no longer than that.
            reason, may_have = error.reason.value, error.maybe_delivered
            cut_off = Retried(
                job=job, delay_s=0.0, spent=False, status=None, reason=reason, scheme=None, maybe_delivered=may_have
            )
            return Attempted(outcome=cut_off, again_s=_OWN_FAULT_S, body_bytes=len(body.content), phases=phases)
        self._standings.note(job.lane, came_through=False, answer_ms=None, took_ms=error.phases.answer_ms)
        outcome = self._retry(job, None, error.reason.value, None, maybe_delivered=error.maybe_delivered, free=probe)
        return Attempted(
            outcome=outcome, tells=True, signal=Signal.FAILURE, body_bytes=len(body.content), phases=phases
        )

    def _answered(self, job: Job, body: Body, knocked: Knocked, *, probe: bool, gone_before: bool) -> Attempted:
        answer = knocked.answer
        config = self._config
        self._outage.answered(job)
        kind = classify_status(answer.status, config.retry_statuses, config.final_statuses, knocked=knocked.knocked)
        hold_s = retry_after_s(answer.retry_after, self._clock.wall_s()) if answer.status in GATE_STATUSES else None
        self._standings.note(
            job.lane,
            came_through=kind in (StatusClass.DELIVERED, StatusClass.GONE, StatusClass.FINAL),
            answer_ms=answer.phases.answer_ms,
            took_ms=answer.phases.answer_ms,
            told_to_wait=answer.status == TOO_MANY_REQUESTS,
            # A gateway may go by the activity's proof, and take it whatever the signature.
            shown=shown_by(knocked) if job.route is None else None,
            scheme_kept_s=config.scheme_memory_s,
            hold_s=hold_s,
        )
        signal = signal_of(answer.status, config.final_statuses)
        return Attempted(
            outcome=self._outcome(
                job, kind, knocked, free=probe and signal is not Signal.SUCCESS, gone_before=gone_before
            ),
            tells=True,
            signal=signal,
            again_s=_BAD_TIME_S,
            hold_s=hold_s,
            body_bytes=len(body.content),
            phases=AttemptPhases(sign_ms=knocked.sign_ms, post_ms=knocked.post_ms),
        )

    def _outcome(self, job: Job, kind: StatusClass, knocked: Knocked, *, free: bool, gone_before: bool) -> Outcome:
        answer, scheme = knocked.answer, knocked.scheme.value
        reason = f"status-{answer.status}"
        if kind is StatusClass.DELIVERED:
            # A page instead of an empty answer: perhaps a parked domain. Delivered, but an operator should see it.
            return _ended(job, SettledOutcome.DELIVERED, "html-answer" if answer.html else "", answer, scheme)
        if kind is StatusClass.FINAL:
            return _final(job, SettledOutcome.REFUSED, reason, answer, scheme)
        if kind is StatusClass.GONE and not job.shared:
            return _final(job, SettledOutcome.RECIPIENT_GONE, reason, answer, scheme)
        if kind is StatusClass.GONE and gone_before:
            return _ended(job, SettledOutcome.HOST_GONE, reason, answer, scheme)
        if kind is StatusClass.GONE and job.tries + 1 < self._config.max_attempts:
            hold = Hold(kind=HoldKind.GONE, of=job.inbox, reason=reason, for_s=GONE_FIRST_S)
            return SetAside(
                job=job, hold=hold, stands=False, spent=True, status=answer.status, reason=reason, scheme=scheme
            )
        if self._is_named_only(answer.status) and job.tries + 1 >= _NAMED_RETRIES:
            return _final(job, SettledOutcome.REFUSED, reason, answer, scheme)
        return self._retry(job, answer.status, reason, scheme, free=free)

    def _is_named_only(self, status: int) -> bool:
        """Whether a status is retried only because an operator named it."""
        return status in self._config.retry_statuses and classify_status(
            status, frozenset(), self._config.final_statuses, knocked=True
        ) in (StatusClass.FINAL, StatusClass.GONE)

    def _retry(
        self,
        job: Job,
        status: int | None,
        reason: str,
        scheme: str | None,
        *,
        maybe_delivered: bool = False,
        free: bool = False,
    ) -> Ended | Retried | Passed:
        if job.route is not None:
            return passed(
                job, Came.FAILED, status=status, reason=reason, scheme=scheme, maybe=maybe_delivered, free=free
            )
        if free:
            # It waits for the host now, not for its own time. At the end of the lane: should it be what the host
            # chokes on, the next probe is made with another.
            return Retried(
                job=job,
                delay_s=0.0,
                spent=False,
                status=status,
                reason=reason,
                scheme=scheme,
                maybe_delivered=maybe_delivered,
            )
        number = job.tries + 1
        if number >= self._config.max_attempts:
            return Ended(
                job=job,
                outcome=FailureReason.OUT_OF_RETRIES,
                spent=True,
                status=status,
                reason=reason,
                scheme=scheme,
                maybe_delivered=maybe_delivered,
            )
        return Retried(
            job=job,
            delay_s=backoff_s(number, self._random),
            spent=True,
            status=status,
            reason=reason,
            scheme=scheme,
            maybe_delivered=maybe_delivered,
        )


def _none_kept(_: str) -> SenderKeyring | None:
    """For a source that keeps nothing, or does not say."""
    return None


def _final(
    job: Job, outcome: SettledOutcome, reason: str, answer: PostAnswer | None = None, scheme: str | None = None
) -> Ended | Passed:
    """A final answer: it ends a delivery, unless other gateways are left to be asked."""
    if job.route is None:
        return _ended(job, outcome, reason, answer, scheme)
    status = answer.status if answer is not None else None
    came = Came.GONE if status in _GONE_AT_A_GATEWAY else Came.NO_ADDRESS if answer is None else Came.REFUSED
    return passed(job, came, status=status, reason=reason, scheme=scheme, detail=_detail(answer) if answer else "")


def _ended(
    job: Job, outcome: SettledOutcome, reason: str, answer: PostAnswer | None = None, scheme: str | None = None
) -> Ended:
    return Ended(
        job=job,
        outcome=outcome,
        spent=True,
        status=answer.status if answer is not None else None,
        reason=reason,
        scheme=scheme,
        detail=_detail(answer) if answer is not None and outcome is SettledOutcome.REFUSED else "",
        tried=job.route.tried if job.route is not None else (),
    )


def _detail(answer: PostAnswer) -> str:
    """What an operator should see of a refusal: where it points, and how its body begins."""
    location = f"Location: {answer.location} " if answer.location is not None else ""
    text = answer.body_head[:_DETAIL_BYTES].decode("utf-8", "replace")
    return location + "".join(mark if mark.isprintable() else " " for mark in text).strip()
