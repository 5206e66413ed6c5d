# SPDX-License-Identifier: Apache-2.0
"""Other kinds of job in a `run()`: leased, run by the application's handlers, settled (SPEC section 2).

Beside the deliveries and apart from them: a `run()` without handlers does nothing here, and no claim of deliveries
looks here.
"""

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from ojak.clock import Clock
from ojak.config import DelivererConfig
from ojak.model.handler import Handler
from ojak.model.kind_job import JobOutcome, KindJob
from ojak.store.cancel import mark_begun
from ojak.store.database import DatabaseTrouble, QueueDatabase
from ojak.store.hand_back import hand_back
from ojak.store.kind_claim import claim_jobs, undo_kind_claim
from ojak.store.kind_settle import KindEnded, KindRetried
from ojak.worker.board import FlightBoard
from ojak.worker.held import Held
from ojak.worker.kind_line import KindLine
from ojak.worker.kind_runs import KindRuns
from ojak.worker.kind_settler import KindOutcome, KindSettler
from ojak.worker.loops import pause

_log = logging.getLogger("ojak.worker.kinds")

_APART_S: Final = 0.05
"""Claims are at least so far apart: what ends meanwhile makes room for more than one job."""
_SUSPECT_AGAIN_S: Final = 5.0
_FINISH_S: Final = 5.0


class Kinds:
    """The other kinds of job of one `run()`.

    Args:
        db: the queue.
        handlers: what runs them, one a kind.
        owner: the stamp of this `run()`.
        held: the leases, renewed with those of deliveries.
        clock: for trust and rates.
        config: leases, and how far ahead.
        board: what the supervisor reads after a death, or None without one.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        handlers: Sequence[Handler],
        owner: bytes,
        held: Held,
        clock: Clock,
        config: DelivererConfig,
        board: FlightBoard | None,
    ) -> None:
        self._db = db
        self._owner = owner
        self._held = held
        self._clock = clock
        self._config = config
        self._lines = {
            handler.kind: KindLine(handler, ahead_s=config.lease_ahead_s, now_s=clock.boot_s()) for handler in handlers
        }
        self._settler = KindSettler(
            db=db,
            every_s=config.settle_every_s,
            batch=config.settle_batch,
            kept_s=config.keep_finished_s,
            on_stored=self._stored,
        )
        self._runs = KindRuns(
            max_attempts=config.max_attempts,
            lease_s=config.lease_s,
            board=board,
            on_outcome=self._settler.add,
            on_over=self._over,
        )
        self._woken = asyncio.Event()
        self._closed = False
        self._claiming: asyncio.Future[bool] | None = None
        self._unclear: tuple[bytes, Sequence[str]] | None = None

    @property
    def names(self) -> Sequence[str]:
        """The kinds that have a handler here."""
        return list(self._lines)

    def claims(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """The loop that leases jobs; none without handlers."""
        return {"claim-kinds": self._claim_step} if self._lines else {}

    def settles(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """The loop that stores outcomes, and outlives the other; none without handlers."""
        return {"settle-kinds": self._settler.step} if self._lines else {}

    def wake(self, kinds: Iterable[str]) -> None:
        """Look: there may be work of these kinds."""
        if any(kind in self._lines for kind in kinds):
            self._woken.set()

    # Claiming.

    async def _claim_step(self) -> None:
        """Wait until there is reason to look, then lease what there is room for."""
        self._woken.clear()
        began_s = self._clock.boot_s()
        for line in self._lines.values():
            line.measure(began_s)
        # To the end also when the loop is cancelled: half a claim would hide its lanes for a whole lease.
        self._claiming = asyncio.ensure_future(self._claim())
        again = await asyncio.shield(self._claiming)
        await asyncio.sleep(max(0.0, began_s + _APART_S * random.uniform(1, 2) - self._clock.boot_s()))  # noqa: S311
        if again and any(line.is_low() for line in self._lines.values()):
            return
        looking = asyncio.ensure_future(self._woken.wait())
        resting = asyncio.ensure_future(pause(self._config.poll_every_s))
        try:
            await asyncio.wait({looking, resting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            looking.cancel()
            resting.cancel()

    async def _claim(self) -> bool:
        """Claim once; gives whether there may be more."""
        if self._unclear is not None:
            stamp, kinds = self._unclear
            count = await undo_kind_claim(self._db, kinds, stamp=stamp, lease_s=self._config.lease_s)
            _log.warning("a claim of other kinds was cut off; undone", extra={"jobs": count})
            self._unclear = None
        want = {kind: line.want() for kind, line in self._lines.items()} if self._settler.has_room() else {}
        for kind, line in self._lines.items():
            # Not looked at: whether there are more is not known.
            line.more |= not want.get(kind)
        want = {kind: count for kind, count in want.items() if count}
        if not want:
            self._return_suspects()
            return False
        stamp = secrets.token_bytes(16)
        asked_at_s = self._clock.boot_s()
        self._unclear = (stamp, list(want))
        claim = await claim_jobs(self._db, want, owner=self._owner, stamp=stamp, lease_s=self._config.lease_s)
        self._unclear = None
        # The lease renews itself by the third: what is held here is renewed from now on.
        self._held.take(claim.jobs, until_s=asked_at_s + self._config.lease_s)
        leased = dict.fromkeys(want, 0)
        for job in claim.jobs:
            self._lines[job.kind].add([job])
            leased[job.kind] += 1
        for kind, count in want.items():
            # As much as was wanted: there may be more than there was room for.
            self._lines[kind].more = leased[kind] >= count
        self._fill()
        self._return_suspects()
        return bool(claim.jobs) or claim.missed

    async def finish(self) -> None:
        """After the loop was cancelled: wait for the claim that was under way, and hand back what was not begun."""
        if self._claiming is not None:
            await asyncio.wait([self._claiming], timeout=_FINISH_S)
        await self._hand_back()

    # Running.

    def _fill(self) -> None:
        """Begin jobs while slots are free."""
        for line in self._lines.values():
            while not self._closed and self._settler.has_room():
                job = line.next(now_s=self._clock.boot_s(), suspect_runs=self._runs.has_suspect)
                if job is None:
                    break
                if self._runs.is_running(job.id):
                    # Its lease was taken, and it has come back before the thread that had it has ended.
                    line.unused()
                    self._settler.add(
                        KindRetried(job=job, delay_s=_SUSPECT_AGAIN_S, spent=False, reason="still-running")
                    )
                elif self._held.trust_left_s(job) <= 0:
                    # Begun now it could be somebody else's already.
                    line.unused()
                    self._settler.add(KindRetried(job=job, delay_s=0.0, spent=False, reason="not-begun"))
                else:
                    self._runs.begin(line.handler, job)

    def _return_suspects(self) -> None:
        """Hand back suspects that have waited here for another, which takes its time."""
        for line in self._lines.values():
            for job in line.stale_suspects(self._clock.boot_s()):
                delay_s = _SUSPECT_AGAIN_S * random.uniform(0.5, 1.5)  # noqa: S311 - so that they do not come together
                self._settler.add(KindRetried(job=job, delay_s=delay_s, spent=False, reason="suspect"))

    def _over(self, kind: str, job_id: bytes, dropped: bool) -> None:  # noqa: FBT001 - a callback's
        line = self._lines[kind]
        line.finished()
        if dropped:
            self._held.drop([job_id])
        self._fill()
        if line.more and line.is_low():
            self._woken.set()

    def _stored(self, batch: Sequence[KindOutcome]) -> None:
        ids = [outcome.job.id for outcome in batch]
        self._runs.clear(ids)
        self._held.drop(ids)
        self._fill()

    def lost(self, ids: set[bytes]) -> None:
        """Leases were taken: stop their handlers, drop their outcomes."""
        if not self._lines:
            return
        waiting = [job.id for line in self._lines.values() for job in line.take(ids)]
        running = self._runs.stop(ids, lost=True)
        self._held.drop([*waiting, *running])
        if waiting or running:
            _log.warning("leases of other kinds taken", extra={"running": len(running), "waiting": len(waiting)})

    async def cancel(self, ids: set[bytes]) -> None:
        """Jobs were cancelled: end what has not begun, stop what runs, and say of it that it has begun."""
        if not ids or not self._lines:
            return
        for line in self._lines.values():
            for job in line.take(ids):
                self._settler.add(KindEnded(job=job, outcome=JobOutcome.CANCELLED, spent=False, reason="cancelled"))
        self._runs.stop(ids, lost=False)
        if begun := self._runs.stamps(ids):
            await mark_begun(self._db, begun)

    # The end.

    def close(self) -> None:
        """Begin nothing any more."""
        self._closed = True

    async def _hand_back(self) -> None:
        """Give back what was not begun, unspent."""
        jobs: list[KindJob] = [job for line in self._lines.values() for job in line.take_all()]
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

    async def drain(self, within_s: float) -> None:
        """Wait for what runs, at most so long."""
        await self._runs.drain(within_s)

    async def cut_off(self) -> None:
        """End what runs."""
        await self._runs.cut_off()

    async def settled(self) -> None:
        """Wait until every outcome is stored."""
        if self._lines:
            await self._settler.drained()
