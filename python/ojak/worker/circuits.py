# SPDX-License-Identifier: Apache-2.0
"""Circuits: what a `run()` asks of its breakers and tells them, whatever keeps them (SPEC section 4)."""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from ojak.breaker.admission import CLEAN, Admission, BreakerScope, Verdict
from ojak.breaker.circuit import Signal
from ojak.breaker.store import BreakerResult, BreakerStore
from ojak.clock import Clock
from ojak.model.job import Job
from ojak.store.breakers import MongoBreakers, forget_breakers
from ojak.store.claim import ReadyHost
from ojak.store.database import DatabaseTrouble, QueueDatabase
from ojak.store.mirror import MirroredBreakers
from ojak.worker.foreign import ForeignCall
from ojak.worker.probes import Probes

_log = logging.getLogger("ojak.worker.circuits")

T = TypeVar("T")

_KNOWN: Final = 65_536
_GATHERED_S: Final = 0.005
"""Results that come at the same time are recorded in one call."""
_WORD_S: Final = 1.0
"""A slot waits so long at most for what the breaker says to its result."""
_PENDING: Final = 10_000
_AGAIN_S: Final = 1.0
_STORE_AWAY_S: Final = 5.0


@dataclass(slots=True)
class _Result:
    job: Job
    result: BreakerResult
    heard: asyncio.Future[None]


class Circuits:
    """The breakers of one `run()`.

    What is clean costs nothing: no question at a claim, no record of a success. A failure is recorded before its slot
    is free again, so that no further request begins once the breaker is open.

    Args:
        store: keeps the breakers: in the queue's database, or elsewhere and, if of hosts, mirrored there.
        db: the queue.
        clock: for trust.
        hold_s: how long a probe is held, unless renewed: a lease.
        probes: the probes that are held.
        on_held: called with a host that may not be sent to any more.
        on_sent: called with a host that may be sent to, and how many at a time, None for as many as it has slots.
        on_reopened: called when a host came back.
    """

    def __init__(
        self,
        *,
        store: BreakerStore,
        db: QueueDatabase,
        clock: Clock,
        hold_s: float,
        probes: Probes,
        on_held: Callable[[str], None],
        on_sent: Callable[[str, int | None], None],
        on_reopened: Callable[[], None],
    ) -> None:
        self._db = db
        self._clock = clock
        self._hold_s = hold_s
        self._probes = probes
        self._on_held = on_held
        self._on_sent = on_sent
        self._on_reopened = on_reopened
        self.scope = store.scope
        self._store = store
        self._in_records = isinstance(store, MongoBreakers)
        self._mirror = store if isinstance(store, MirroredBreakers) else None
        # Whether a key is clean. Host records say so at each claim; of other stores nothing is known before they said.
        self._clean: OrderedDict[str, bool] = OrderedDict()
        self._clean_unless_told = self._in_records and self.scope is BreakerScope.HOST
        self._opened: OrderedDict[str, float] = OrderedDict()
        # A store that failed is left alone for a while, and then asked by one at a time: each time one that hangs takes
        # as long as it may.
        self._failing = False
        self._left_alone_until_s = -math.inf
        self._pending: list[_Result] = []
        self._come = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    # At a claim.

    async def admit(self, hosts: Sequence[ReadyHost]) -> dict[str, Admission]:
        """Say for each host that is to be claimed what may be done now."""
        answers = dict.fromkeys((host.authority for host in hosts), CLEAN)
        if self.scope is BreakerScope.INBOX:
            # Records may still show what was kept for hosts before.
            if over := [host.authority for host in hosts if host.troubled]:
                await forget_breakers(self._db, over)
            return answers
        for host in hosts:
            if host.troubled:
                self._note(host.authority, clean=False)
                answers[host.authority] = Admission(verdict=Verdict.SEND, one_at_a_time=host.recovering)
                if self._mirror is not None:
                    self._mirror.learn_shown(host.authority)
                    if host.asked:
                        # An operator's wish, which only the record knew of so far.
                        await self._ask_to_probe(self._mirror, host.authority)
        asked = [host.authority for host in hosts if host.is_open or not self._in_records]
        if asked:
            asked_at_s = self._clock.boot_s()
            said = await self._ask(asked)
            for key, answer in zip(asked, said or [CLEAN] * len(asked), strict=True):
                answers[key] = answer
                if said is not None:
                    self._take_note(key, answer, asked_at_s=asked_at_s)
        return answers

    async def _ask_to_probe(self, store: BreakerStore, key: str) -> None:
        await self._answer(lambda: store.heard_from(key), or_say="a probe could not be brought forward", keys=1)

    async def _ask(self, keys: Sequence[str]) -> Sequence[Admission] | None:
        """What the store says of some keys; None if it cannot be asked: then what is not known to be held is sent."""
        return await self._answer(
            lambda: self._store.admit(keys, hold_s=self._hold_s),
            or_say="breakers could not be asked; what is not known to be held is sent",
            keys=len(keys),
        )

    async def _answer(self, ask: Callable[[], Awaitable[T]], *, or_say: str, keys: int) -> T | None:
        """What the store answers; None if it failed, now or a moment ago."""
        if self._clock.boot_s() < self._left_alone_until_s:
            return None
        if self._failing:
            self._leave_alone()
        try:
            with ForeignCall():
                answer = await ask()
        except DatabaseTrouble:
            raise
        except Exception:  # noqa: BLE001 - an application's store may raise anything
            self._leave_alone()
            _log.exception(or_say, extra={"keys": keys})
            return None
        self._answered()
        return answer

    def _leave_alone(self) -> None:
        self._failing, self._left_alone_until_s = True, self._clock.boot_s() + _STORE_AWAY_S

    def _answered(self) -> None:
        self._failing, self._left_alone_until_s = False, -math.inf

    def opened_since(self, authority: str, boot_s: float) -> bool:
        """Whether the breaker of a host opened since: what was claimed before must not be sent."""
        return self._opened.get(authority, -1.0) >= boot_s

    # Around an attempt.

    async def enter(self, job: Job) -> float:
        """Ask for an inbox before its attempt; answers for how many seconds the delivery is to be set aside.

        Only where breakers are kept for inboxes. Where the answer is a probe, the job holds it from now on.
        """
        asked_at_s = self._clock.boot_s()
        said = await self._ask([job.url])
        if said is None:
            answer = CLEAN
        else:
            (answer,) = said
            self._take_note(job.url, answer, asked_at_s=asked_at_s)
        if answer.verdict is Verdict.HOLD:
            return max(answer.hold_s, _AGAIN_S)
        if answer.probe is not None:
            self._probes.take(job.id, answer.probe, until_s=asked_at_s + self._hold_s)
        if not self._probes.enter_inbox(job, alone=answer.one_at_a_time):
            return _AGAIN_S
        return 0.0

    async def report(self, job: Job, signal: Signal, *, again_s: float) -> None:
        """Take in what an attempt said; returns when the breaker has had its say, a second later at most.

        Args:
            job: what was attempted.
            signal: what it said.
            again_s: if it decided nothing: how soon another probe may be made.
        """
        key = job.url if self.scope is BreakerScope.INBOX else job.lane
        probe = self._probes.probe_of(job.id)
        if signal is Signal.NOTHING:
            await self._probes.give_back([job.id], after_s=again_s)
            return
        if probe is None and signal is Signal.SUCCESS and self._clean.get(key, self._clean_unless_told):
            return
        if signal is Signal.FAILURE:
            self._note(key, clean=False)
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if len(self._pending) >= _PENDING:
            # The store is away for long. The oldest say least of how hosts are now.
            self._let_go(self._pending.pop(0))
        self._pending.append(_Result(job, BreakerResult(key=key, signal=signal, probe=probe), heard))
        self._empty.clear()
        self._come.set()
        await asyncio.wait([heard], timeout=_WORD_S)

    async def step(self) -> None:
        """Wait for results, and record what has come together."""
        await self._come.wait()
        await asyncio.sleep(_GATHERED_S)
        self._come.clear()
        batch, self._pending = self._pending, []
        asked_at_s = self._clock.boot_s()
        try:
            with ForeignCall():
                answers = await self._store.record([item.result for item in batch])
        except BaseException as error:
            self._pending = [*batch, *self._pending]
            self._come.set()
            if isinstance(error, DatabaseTrouble) or not isinstance(error, Exception):
                raise
            # What it says is heeded all the same: one that takes no writes for now may still know what is held.
            _log.exception("results were not recorded; again later", extra={"results": len(batch)})
            await asyncio.sleep(_STORE_AWAY_S)
            return
        self._answered()
        last = {item.result.key: (item, answer) for item, answer in zip(batch, answers, strict=True)}
        for key, (_, answer) in last.items():
            self._take_note(key, answer, asked_at_s=asked_at_s)
        for item, answer in zip(batch, answers, strict=True):
            self._let_go(item)
            if item.result.probe is not None:
                extra = {"key": item.result.key, "signal": item.result.signal.value, "hold_s": round(answer.hold_s, 1)}
                _log.info("probe decided", extra=extra)
        if any(item.result.probe is not None and item.result.signal is Signal.SUCCESS for item in batch):
            self._on_reopened()
        if not self._pending:
            self._empty.set()

    def _let_go(self, item: _Result) -> None:
        self._probes.drop(item.job.id)
        if not item.heard.done():
            item.heard.set_result(None)

    async def recorded(self) -> None:
        """Wait, a second at most, until what was reported is recorded; give back every probe that nobody uses."""
        try:
            async with asyncio.timeout(_WORD_S):
                await self._empty.wait()
        except TimeoutError:
            _log.warning("results were not recorded", extra={"results": len(self._pending)})
        await self._probes.give_back_all()

    def _take_note(self, key: str, answer: Admission, *, asked_at_s: float) -> None:
        """What a breaker said, for the lanes and for the next result."""
        if answer.verdict is Verdict.SEND and self.opened_since(key, asked_at_s):
            return  # an answer of before it opened, that took longer
        was_open = key in self._opened
        if answer.verdict is Verdict.HOLD:
            if not was_open:
                _log.warning("breaker open", extra={"key": key, "hold_s": round(answer.hold_s, 1)})
            self._opened[key] = self._clock.boot_s()
            self._opened.move_to_end(key)
            if len(self._opened) > _KNOWN:
                self._opened.popitem(last=False)
        elif answer.verdict is Verdict.SEND and was_open:
            del self._opened[key]
            _log.info("breaker closed", extra={"key": key})
        self._note(key, clean=answer.clean)
        if self.scope is BreakerScope.HOST:
            if answer.verdict is Verdict.HOLD:
                self._on_held(key)
            else:
                self._on_sent(key, 1 if answer.one_at_a_time or answer.verdict is Verdict.PROBE else None)

    def _note(self, key: str, *, clean: bool) -> None:
        if clean is self._clean_unless_told:
            self._clean.pop(key, None)
            return
        self._clean[key] = clean
        self._clean.move_to_end(key)
        if len(self._clean) > _KNOWN:
            self._clean.popitem(last=False)
