# SPDX-License-Identifier: Apache-2.0
"""The engine: one `run()` put together. Claim → lanes → attempt → settle, and the loops that keep leases true."""

import asyncio
import contextlib
import inspect
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

from ojak.clock import Clock
from ojak.config import DelivererConfig
from ojak.model.job import Job
from ojak.model.outcome import DeliveryAttempt
from ojak.store.claim import hand_back
from ojak.store.database import DatabaseTrouble, QueueDatabase
from ojak.store.ends import set_telling, wants_telling
from ojak.store.settle import Ended, Retried
from ojak.store.sweep import mend_dues
from ojak.store.wakeups import listen
from ojak.worker.attempt import Attempted, Attempter
from ojak.worker.board import FlightBoard
from ojak.worker.bodies import Bodies
from ojak.worker.claimer import Claimer
from ojak.worker.held import Held
from ojak.worker.lanes import Lanes
from ojak.worker.loops import forever, pause
from ojak.worker.ownership import Ownership
from ojak.worker.pace import Pace
from ojak.worker.reaper import Reaper
from ojak.worker.renewer import Renewer
from ojak.worker.settler import MAX_PENDING, Settler
from ojak.worker.standings import Standings
from ojak.worker.teller import Teller

_log = logging.getLogger("ojak.worker")

OnAttempt = Callable[[DeliveryAttempt], Awaitable[None] | None]

_BEAT_EVERY_S = 1.0
_TELLING_EVERY_S = 5.0


class Engine:
    """One `run()`: an owner of shards with a stamp of its own.

    Args:
        db: the queue, set up.
        config: how the loop behaves.
        clock: for deadlines and dates.
        attempter: makes one attempt.
        teller: calls the application back.
        on_attempt: called with each attempt, or None.
        board: what the supervisor reads after a death, or None without one.
        expected: how many `run()`s are being started together.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        config: DelivererConfig,
        clock: Clock,
        attempter: Attempter,
        standings: Standings,
        teller: Teller,
        on_attempt: OnAttempt | None,
        board: FlightBoard | None,
        expected: int,
    ) -> None:
        self._db = db
        self._config = config
        self._clock = clock
        self._attempter = attempter
        self._teller = teller
        self._on_attempt = on_attempt
        self._board = board
        self.stamp = secrets.token_bytes(16)
        self._standings = standings
        self._bodies = Bodies(db)
        self._held = Held(clock)
        self._lanes = Lanes(concurrency=config.concurrency, per_host=config.per_host)
        self._telling = False
        self._stopping = asyncio.Event()
        self._flights: dict[bytes, asyncio.Task[None]] = {}
        self._landed = asyncio.Event()
        self._errands: set[asyncio.Task[None]] = set()
        self._slots: dict[bytes, int] = {}
        self._settler = Settler(
            db=db,
            standings=standings,
            every_s=config.settle_every_s,
            batch=config.settle_batch,
            kept_s=config.keep_finished_s,
            telling=lambda: self._telling,
            on_stored=self._stored,
        )
        self._ownership = Ownership(
            db=db,
            owner=self.stamp,
            clock=clock,
            lease_s=config.shard_lease_s,
            about=f"{socket.gethostname()} pid {os.getpid()}",
            expected=expected,
            let_go=self._let_go,
        )
        self._claimer = Claimer(
            db=db,
            owner=self.stamp,
            ownership=self._ownership,
            lanes=self._lanes,
            held=self._held,
            standings=standings,
            bodies=self._bodies,
            clock=clock,
            lease_s=config.lease_s,
            max_age_s=config.max_age_s,
            ahead_s=config.lease_ahead_s,
            poll_every_s=config.poll_every_s,
            on_claimed=self._fill,
            may_claim=lambda: self._settler.pending < MAX_PENDING,
        )
        self._reaper = Reaper(
            db=db,
            clock=clock,
            every_s=config.reap_every_s,
            hold_off_s=config.lease_s * 3 / 8,
            max_deaths=config.max_deaths,
        )
        self._pace = Pace(lanes=self._lanes, clock=clock, most=config.concurrency_max, on_raised=self._fill)

    async def run(self) -> None:
        """Send what is queued until `stop` is called, then drain; cancelled, hand back at once what was not begun."""
        if self._board is not None:
            self._board.set_stamp(self.stamp)
        renewer = Renewer(
            db=self._db,
            owner=self.stamp,
            held=self._held,
            clock=self._clock,
            lease_s=self._config.lease_s,
            shard_lease_s=self._config.shard_lease_s,
            on_lost=self._lost,
            on_shards=self._renewed_shards,
        )
        await self._start()
        renewer.start()
        settling = asyncio.create_task(self._settler.run(), name="ojak-settle")
        loops = [asyncio.create_task(loop, name=f"ojak-{name}") for name, loop in self._loops().items()]
        stopping = asyncio.create_task(self._stopping.wait(), name="ojak-stopping")
        try:
            await asyncio.wait([stopping, settling, *loops], return_when=asyncio.FIRST_COMPLETED)
            # Nothing begins any more, also where a loop has failed.
            self._stopping.set()
            await _end(loops)
            await self._claimer.finish()
            await self._hand_back(self._lanes.take_all())
            await self._drain()
            for task in (settling, *loops):
                if task.done() and not task.cancelled() and (fault := task.exception()) is not None:
                    raise fault
        finally:
            # Also when cancelled: what was not begun goes back now, what is on the wire is cut off and counts as begun.
            self._stopping.set()
            await _end([*loops, stopping, *self._flights.values()])
            await asyncio.gather(*self._errands)
            await self._farewell(renewer, settling)

    async def _start(self) -> None:
        if self._teller.has_callbacks:
            await set_telling(self._db, on=True)
        self._telling = await wants_telling(self._db)
        await self._ownership.join()
        await self._ownership.gather()
        await self._ownership.tick()

    def _loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        steps = {
            "claim": self._claim_step,
            "listen": self._listen_step,
            "own": self._own_step,
            "reap": self._reaper.step,
            "sweep": self._sweep_step,
            "tell": self._teller.step,
            "telling": self._telling_step,
            "pace": self._pace.step,
            "beat": self._beat_step,
        }
        return {name: forever(name, step) for name, step in steps.items()}

    async def _farewell(self, renewer: Renewer, settling: asyncio.Task[None]) -> None:
        try:
            await self._claimer.finish()
            await self._hand_back(self._lanes.take_all())
            if not settling.done():
                async with asyncio.timeout(5.0):
                    await self._settler.drained()
            await self._ownership.leave()
        except (DatabaseTrouble, TimeoutError) as error:
            _log.warning("left without a farewell; leases end by themselves", extra={"error": type(error).__name__})
        finally:
            await _end([settling])
            await renewer.stop()

    def stop(self) -> None:
        """Begin to drain: claim nothing more, hand back what is not begun, wait for what is on the wire."""
        self._stopping.set()

    def wake(self) -> None:
        """Look for work now."""
        self._claimer.wake()

    # Starting and ending deliveries.

    def _fill(self) -> None:
        """Start jobs while slots are free."""
        while (job := self._begin_next()) is not None:
            self._flights[job.id] = asyncio.create_task(self._fly_on(job))

    def _begin_next(self) -> Job | None:
        """Begin the next job if a slot is free for one."""
        while not self._stopping.is_set() and self._settler.pending < MAX_PENDING:
            job = self._lanes.next()
            if job is None:
                return None
            if self._held.trust_left_s(job) >= self._config.request_s and self._ownership.trusted:
                if self._board is not None:
                    self._slots[job.id] = self._board.begin(job.id)
                return job
            # Begun now it could outlast its lease, and somebody else's request could stand beside ours.
            self._lanes.done(job, proven=None)
            self._return_soon([job])
        return None

    async def _fly_on(self, first: Job) -> None:
        """Make one delivery, then the next one that its slot is good for: a task for each would cost more."""
        job: Job | None = first
        task = asyncio.current_task()
        assert task is not None
        while job is not None:
            await self._fly(job)
            job = self._begin_next()
            if job is not None:
                self._flights[job.id] = task

    async def _fly(self, job: Job) -> None:
        attempted: Attempted | None = None
        try:
            attempted = await self._attempter.attempt(
                job, await self._bodies.get(job.body), allowance=lambda: self._held.trust_left_s(job)
            )
        finally:
            self._flights.pop(job.id, None)
            self._landed.set()
            tells = attempted is not None and attempted.tells
            self._lanes.done(job, proven=self._standings.proven(job.lane) if tells else None)
            if attempted is None:
                # Cut off: its lease was taken, or `run()` was cancelled. What it came to is not known.
                self._held.drop([job.id])
                self._clear(job.id)
        self._settler.add(attempted.outcome)
        if attempted.hold_s is not None:
            self._return_soon(self._lanes.take_host(job.lane))
        if self._on_attempt is not None:
            self._tell_attempt(self._on_attempt, attempted.as_told())
        self._claimer.finished()

    def _tell_attempt(self, callback: OnAttempt, attempt: DeliveryAttempt) -> None:
        try:
            answer = callback(attempt)
        except Exception:  # noqa: BLE001 - an application's callback may raise anything
            _log.exception("on_attempt raised", extra={"delivery": attempt.delivery_id})
        else:
            if inspect.isawaitable(answer):
                self._run_errand(_logged(answer, attempt.delivery_id))

    async def _stored(self, to_tell: Sequence[Ended], batch: Sequence[Ended | Retried]) -> None:
        for outcome in batch:
            self._clear(outcome.job.id)
        self._held.drop(outcome.job.id for outcome in batch)
        if to_tell:
            await self._teller.tell_stored(to_tell)

    def _clear(self, job_id: bytes) -> None:
        if self._board is not None and (slot := self._slots.pop(job_id, None)) is not None:
            self._board.clear(slot)

    def _return_soon(self, jobs: Sequence[Job]) -> None:
        if jobs:
            self._run_errand(self._hand_back(jobs))

    def _run_errand(self, errand: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _hand_back(self, jobs: Sequence[Job]) -> None:
        if not jobs:
            return
        leases: dict[bytes, list[bytes]] = {}
        for job in jobs:
            leases.setdefault(job.stamp, []).append(job.id)
        self._held.drop(job.id for job in jobs)
        try:
            await hand_back(self._db, leases)
        except DatabaseTrouble as error:
            # Nobody renews them any more: they end by themselves.
            _log.warning("leases not handed back", extra={"count": len(jobs), "error": type(error).__name__})

    def _lost(self, ids: set[bytes]) -> None:
        """Leases were taken: stop their requests, drop their outcomes."""
        # An outcome that is being stored is no longer leased either, and no loss.
        flying = [task for row_id, task in self._flights.items() if row_id in ids]
        dropped = self._lanes.drop(ids)
        self._held.drop(dropped)
        for task in flying:
            task.cancel()
        if flying or dropped:
            _log.warning("leases taken by others", extra={"running": len(flying), "waiting": len(dropped)})

    async def _drain(self) -> None:
        flights = list(self._flights.values())
        if flights:
            await asyncio.wait(flights, timeout=self._config.drain_s)

    # The loops.

    async def _claim_step(self) -> None:
        await self._claimer.step()
        if self._board is not None:
            self._board.mark_ready()

    async def _listen_step(self) -> None:
        async with aclosing(listen(self._db)) as wakeups:
            async for wake_up in wakeups:
                if not wake_up.shards:
                    self._ownership.look()
                elif not wake_up.shards.isdisjoint(self._ownership.epochs):
                    self._claimer.wake(small=wake_up.small)
        # The tail ended without an error: it fell behind, or the collection was made anew.
        await pause(0.2)

    async def _own_step(self) -> None:
        await self._ownership.tick()
        self._claimer.wake()
        await self._ownership.wait(self._config.shard_lease_s / 9)

    def _renewed_shards(self, epochs: dict[int, int], asked_at_s: float) -> None:
        self._ownership.renewed(epochs, asked_at_s=asked_at_s)
        self._held.forget_unused()

    async def _let_go(self, shards: frozenset[int]) -> None:
        """Hand back what waits for hosts of these shards and wait for what is open or not yet stored."""
        await self._hand_back(self._lanes.take_shards(shards))
        while self._lanes.open_in(shards):
            self._landed.clear()
            await self._landed.wait()
        await self._settler.drained()

    async def _sweep_step(self) -> None:
        await pause(self._config.sweep_every_s)
        # One of all the owners is enough, and shard 0 has at most one.
        if 0 in self._ownership.epochs and (count := await mend_dues(self._db)):
            _log.error("hosts had work and were not due; mended", extra={"count": count})
            self._claimer.wake()

    async def _telling_step(self) -> None:
        await pause(_TELLING_EVERY_S)
        self._telling = await wants_telling(self._db)

    async def _beat_step(self) -> None:
        if self._board is not None:
            self._board.beat()
        await asyncio.sleep(_BEAT_EVERY_S)


async def _logged(answer: Awaitable[None], delivery_id: str) -> None:
    try:
        await answer
    except Exception:  # noqa: BLE001 - an application's callback may raise anything
        _log.exception("on_attempt raised", extra={"delivery": delivery_id})


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
