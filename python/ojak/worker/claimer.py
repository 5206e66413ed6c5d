# SPDX-License-Identifier: Apache-2.0
"""The claimer: leases about as much as will start within a second, and looks again when woken or when work runs low."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from ojak.clock import Clock
from ojak.model.job import Priority
from ojak.store.claim import ClaimedHost, ReadyHost, claim, ready_hosts
from ojak.store.database import QueueDatabase
from ojak.store.hand_back import hand_back_strays
from ojak.worker.bodies import Bodies
from ojak.worker.held import Held
from ojak.worker.lanes import SLOW_MS, Lanes
from ojak.worker.loops import pause
from ojak.worker.ownership import Ownership
from ojak.worker.standings import Standings

_log = logging.getLogger("ojak.worker.claim")

_APART_S: Final = 0.02
"""Claims are at least so far apart: ten thousand wake-ups must not make ten thousand claims."""
_HOSTS: Final = 128
_PER_LANE: Final = 64
_UNPROVEN: Final = 16
_SMALL_ROOM: Final = 16
_FINISH_S: Final = 5.0
_RATE_WEIGHT: Final = 0.3


class Claimer:
    """Keeps the lanes filled.

    Args:
        db: the queue.
        owner: the stamp of this `run()`.
        ownership: which shards may be claimed.
        lanes, held, standings, bodies: what claimed jobs go into.
        clock: for trust and rates.
        lease_s: the length of a lease.
        max_age_s: how long a delivery may wait before it is given up on.
        ahead_s: how much work is leased ahead.
        poll_every_s: how often to look when nothing wakes it.
        on_claimed: called when jobs were added to the lanes.
        may_claim: whether there is room for outcomes.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        owner: bytes,
        ownership: Ownership,
        lanes: Lanes,
        held: Held,
        standings: Standings,
        bodies: Bodies,
        clock: Clock,
        lease_s: float,
        max_age_s: float,
        ahead_s: float,
        poll_every_s: float,
        on_claimed: Callable[[], None],
        may_claim: Callable[[], bool],
    ) -> None:
        self._db = db
        self._owner = owner
        self._ownership = ownership
        self._lanes = lanes
        self._held = held
        self._standings = standings
        self._bodies = bodies
        self._clock = clock
        self._lease_s = lease_s
        self._max_age_s = max_age_s
        self._ahead_s = ahead_s
        self._poll_every_s = poll_every_s
        self._on_claimed = on_claimed
        self._may_claim = may_claim
        self._woken = asyncio.Event()
        self._woken_fanout = asyncio.Event()
        self._low = asyncio.Event()
        self._finished = 0
        self._rate_per_s = 0.0
        self._measured_at_s = clock.boot_s()
        self._more = False
        self._claiming: asyncio.Future[int] | None = None
        self._unclear: Sequence[ReadyHost] = []

    def wake(self, *, small: bool = True) -> None:
        """Look now: there may be work. What is no small send waits until there is room for it."""
        (self._woken if small else self._woken_fanout).set()

    def finished(self) -> None:
        """A job left its slot; when few wait, claim more."""
        self._finished += 1
        if self._more and self._is_low():
            self._low.set()

    def _is_low(self) -> bool:
        return self._lanes.backlog_of(proven=True) <= self._target() // 2

    def _target(self) -> int:
        """How many jobs of proven hosts to hold that have not begun: a second of work, and enough to fill the slots."""
        return max(2 * self._lanes.concurrency, int(self._rate_per_s * self._ahead_s))

    def _wants(self, *, proven: bool) -> int:
        """How many jobs to claim. Unproven hosts have a room of their own, or the dead would fill the living's."""
        target = self._target() if proven else max(_UNPROVEN, self._lanes.concurrency)
        return target - self._lanes.backlog_of(proven=proven)

    def _measure(self) -> None:
        now_s = self._clock.boot_s()
        passed_s = now_s - self._measured_at_s
        if passed_s >= 0.25:
            rate = self._finished / passed_s
            # Up at once, down slowly: a pause of the source is no reason to forget how fast this machine is.
            self._rate_per_s = max(rate, self._rate_per_s + _RATE_WEIGHT * (rate - self._rate_per_s))
            self._finished, self._measured_at_s = 0, now_s

    async def step(self) -> None:
        """Claim once; then wait until there is reason to look again."""
        self._woken.clear()
        self._low.clear()
        self._measure()
        # Hosts that are left out because enough of them waits here may have more.
        self._more = bool(self._lanes.full())
        claimed = 0
        if self._may_claim():
            claimed = await self._uncut(Priority.SMALL)
            if self._is_low():
                self._woken_fanout.clear()
                claimed += await self._uncut(Priority.FANOUT)
        self._more |= claimed > 0
        await asyncio.sleep(_APART_S)
        if claimed and self._is_low():
            return
        await self._until(self._woken, self._low, *([self._woken_fanout] if self._is_low() else []))

    async def _uncut(self, priority: Priority) -> int:
        """Claim, to the end also when the loop is cancelled: half a claim would hide its hosts for a whole lease."""
        self._claiming = asyncio.ensure_future(self._claim(priority))
        return await asyncio.shield(self._claiming)

    async def finish(self) -> None:
        """After the loop was cancelled: wait for the claim that was under way, whose jobs are then in the lanes."""
        if self._claiming is not None:
            await asyncio.wait([self._claiming], timeout=_FINISH_S)

    async def _until(self, *events: asyncio.Event) -> None:
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(event.wait()) for event in events]
        waits.append(asyncio.ensure_future(pause(self._poll_every_s)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _claim(self, priority: Priority) -> int:
        # A small send finds room also when fan-outs have filled the target.
        want = max(self._wants(proven=True), _SMALL_ROOM if priority is Priority.SMALL else 0)
        wants_unproven = self._wants(proven=False) > 0
        epochs = self._ownership.epochs
        if self._unclear:
            await self._mend()
        if not epochs:
            return 0
        hosts = await ready_hosts(
            self._db,
            shards=list(epochs),
            priority=priority,
            busy=self._lanes.full(),
            only_quicker_ms=None if wants_unproven else SLOW_MS,
            limit=min(max(want, self._lanes.per_host), _HOSTS),
        )
        if not hosts:
            return 0
        for host in hosts:
            self._standings.learn(host)
        each = -(-want // len(hosts))
        asked_at_s = self._clock.boot_s()
        self._unclear = hosts
        claimed = await claim(
            self._db,
            hosts,
            owner=self._owner,
            epochs=epochs,
            priority=priority,
            share=lambda host, foreign: self._share(host, foreign, each),
            lease_s=self._lease_s,
            max_age_s=self._max_age_s,
        )
        count = await self._take(claimed, until_s=asked_at_s + self._lease_s)
        self._unclear = []
        return count

    async def _mend(self) -> None:
        """Undo a claim that an error cut off."""
        count = await hand_back_strays(
            self._db,
            [host.authority for host in self._unclear],
            owner=self._owner,
            held=self._held.ids(),
            lease_s=self._lease_s,
        )
        _log.warning("a claim was cut off; handed back", extra={"hosts": len(self._unclear), "jobs": count})
        self._unclear = []

    def _share(self, host: ReadyHost, foreign: int, each: int) -> int:
        """How many jobs of a host to lease: what it can answer within the time ahead, at least its free slots."""
        slots = self._lanes.per_host - foreign
        if slots <= 0:
            return 0
        waiting = self._lanes.waiting_of(host.authority)
        if not self._standings.proven(host.authority):
            return max(0, slots - waiting)
        answer_s = max(0.001, (self._standings.answer_ms(host.authority) or 0.0) / 1000)
        can = int(slots * self._ahead_s / answer_s)
        return max(0, min(max(slots, each), max(slots, can), _PER_LANE) - waiting)

    async def _take(self, claimed: Sequence[ClaimedHost], *, until_s: float) -> int:
        jobs = [job for item in claimed for job in item.jobs]
        # Bodies first: if they cannot be read now, nothing is held, and the claim is undone.
        await self._bodies.load(job.body for job in jobs)
        self._held.take(jobs, until_s=until_s)
        for item in claimed:
            self._lanes.add(
                item.host.authority,
                item.host.shard,
                item.jobs,
                proven=self._standings.proven(item.host.authority),
                foreign=item.foreign,
            )
        if jobs:
            self._on_claimed()
        return len(jobs)
