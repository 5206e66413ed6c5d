# SPDX-License-Identifier: Apache-2.0
"""Passing on: what waits for a held gateway of a portable inbox goes to another, without a request (SPEC section 3)."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Final

from ojak.clock import Clock
from ojak.shard import shard_of
from ojak.store.database import QueueDatabase
from ojak.store.gateways import holds_of
from ojak.store.hand_back import hand_back
from ojak.store.move import Moved, write_moves
from ojak.store.waiting import Waiting, hold_waiting, waiting_in, waiting_lanes
from ojak.worker.failover import Failover, Passed
from ojak.worker.held import Held
from ojak.worker.loops import pause
from ojak.worker.ownership import Ownership

_log = logging.getLogger("ojak.worker.passing")

_AT_A_TIME: Final = 200
_APART_S: Final = 0.1
"""Hosts that are held one after the other are looked at together."""
_FINISH_S: Final = 5.0
_SHARE: Final = 20
"""A lane, and all of them together, are left alone for so many times as long as a look took: what can go nowhere costs
little, however many gateways strangers name."""


class Passing:
    """Looks at held lanes of own shards, and passes on what can go elsewhere.

    When a host here is held, at once; and now and then, since a hold may be made or ended elsewhere.

    Args:
        db: the queue.
        owner: the stamp of this `run()`.
        ownership: whose lanes to look at.
        failover: says where deliveries go.
        held: takes the leases of what `on_passed` is called with: they are renewed until its outcome is stored.
        on_passed: called with what had been tried before and has no gateway left that is open: its attempt is over.
        has_room: whether there is room for more of those.
        clock: for pauses.
        lease_s: for how long what is moved is held.
        every_s: how often to look without a reason.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        owner: bytes,
        ownership: Ownership,
        failover: Failover,
        held: Held,
        on_passed: Callable[[Passed], None],
        has_room: Callable[[], bool],
        clock: Clock,
        lease_s: float,
        every_s: float,
    ) -> None:
        self._db = db
        self._owner = owner
        self._ownership = ownership
        self._failover = failover
        self._held = held
        self._on_passed = on_passed
        self._has_room = has_room
        self._clock = clock
        self._lease_s = lease_s
        self._every_s = every_s
        self._asked = asyncio.Event()
        self._not_before_s: dict[str, float] = {}
        self._unclear: dict[bytes, list[bytes]] = {}
        self._rest_until_s = 0.0
        self._passing: asyncio.Future[int] | None = None

    def look(self) -> None:
        """A host is held, and something may wait for it."""
        self._asked.set()

    async def step(self) -> None:
        """Wait until there is reason to look, then look once."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._every_s):
                await self._asked.wait()
        await pause(max(min(_APART_S, self._every_s), self._rest_until_s - self._clock.boot_s()))
        self._asked.clear()
        await self._return_unclear()
        if not (epochs := self._ownership.epochs):
            return
        began_s = self._clock.boot_s()
        waiting = [lane for lane in await waiting_lanes(self._db) if shard_of(lane) in epochs]
        ended_s = self._clock.boot_s()
        self._rest_until_s = ended_s + _SHARE * (ended_s - began_s)
        self._not_before_s = {lane: at_s for lane, at_s in self._not_before_s.items() if lane in set(waiting)}
        now_s = self._clock.boot_s()
        lanes = [lane for lane in waiting if self._not_before_s.get(lane, now_s) <= now_s]
        holds = await holds_of(self._db, lanes) if lanes else {}
        for lane in lanes:
            if holds[lane].left_s > 0:
                await self._pass_on(lane)

    async def _pass_on(self, lane: str) -> None:
        began_s = self._clock.boot_s()
        stamp = secrets.token_bytes(16)
        count = 0
        async with contextlib.aclosing(waiting_in(self._db, lane, stamp=stamp, at_a_time=_AT_A_TIME)) as pages:
            async for page in pages:
                if not self._has_room():
                    # Outcomes cannot be stored now. The next look goes on from here.
                    return
                # To the end also when the loop is cancelled: what is left leased would wait for the reaper.
                self._passing = asyncio.ensure_future(self._pass_page(lane, page, stamp))
                count += await asyncio.shield(self._passing)
        if count:
            _log.info("passed on to other gateways", extra={"host": lane, "count": count})
        ended_s = self._clock.boot_s()
        self._not_before_s[lane] = ended_s + _SHARE * (ended_s - began_s)

    async def _pass_page(self, lane: str, page: Sequence[Waiting], stamp: bytes) -> int:
        decided = await self._failover.pass_on(page)
        if not decided:
            return 0
        self._unclear[stamp] = [one.job.id for one in decided]
        asked_at_s = self._clock.boot_s()
        held = await hold_waiting(
            self._db,
            [one.job for one in decided],
            lane=lane,
            owner=self._owner,
            stamp=stamp,
            lease_s=self._lease_s,
        )
        mine = {job.id for job in held}
        moves = [one for one in decided if isinstance(one, Moved) and one.job.id in mine]
        if moves:
            await write_moves(self._db, moves, lease_s=self._lease_s)
        for one in decided:
            if isinstance(one, Passed) and one.job.id in mine:
                self._held.take([one.job], until_s=asked_at_s + self._lease_s)
                self._on_passed(one)
        del self._unclear[stamp]
        return len(mine)

    async def finish(self) -> None:
        """After the loop was cancelled: wait for what was being passed on."""
        if self._passing is not None:
            await asyncio.wait([self._passing], timeout=_FINISH_S)

    async def _return_unclear(self) -> None:
        """Give back what an error cut off: nobody renews it, and its lease would count as one that somebody died in."""
        if self._unclear:
            await hand_back(self._db, self._unclear)
            self._unclear.clear()
