# SPDX-License-Identifier: Apache-2.0
"""Ownership: this `run()`'s fair share of the shards, taken, given back and fenced (SPEC section 5, rule D)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from ojak.clock import Clock
from ojak.shard import SHARDS
from ojak.store import shards as store
from ojak.store.database import QueueDatabase
from ojak.store.wakeups import wake

_log = logging.getLogger("ojak.worker.ownership")

_GATHER_S = 2.0
_GATHER_CHECK_S = 0.1
_FINISH_S = 5.0


class Ownership:
    """The shards that one `run()` owns.

    Args:
        db: the queue.
        owner: the stamp of this `run()`.
        clock: for trust.
        lease_s: how long a shard is its owner's.
        about: names machine and process for people.
        kinds: the other kinds of job that are handled here.
        expected: how many `run()`s are being started together. Shares are taken when all have joined, or after two
            seconds, so that the first does not take everything only to give it back.
        let_go: called with shards that are to be given back; returns when nothing of theirs is open here any more.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        owner: bytes,
        clock: Clock,
        lease_s: float,
        about: str,
        expected: int,
        kinds: Sequence[str] = (),
        let_go: Callable[[frozenset[int]], Awaitable[None]],
    ) -> None:
        self._db = db
        self._owner = owner
        self._clock = clock
        self._lease_s = lease_s
        self._about = about
        self._expected = expected
        self._kinds = kinds
        self._let_go = let_go
        self._epochs: dict[int, int] = {}
        self._leaving: frozenset[int] = frozenset()
        self._trust_until_s = 0.0
        self._look = asyncio.Event()
        self._taking: asyncio.Future[bool] | None = None

    @property
    def epochs(self) -> dict[int, int]:
        """The epochs of the shards that may be claimed from now: owned, trusted and not being given back."""
        if self._clock.boot_s() >= self._trust_until_s:
            return {}
        return {shard: epoch for shard, epoch in self._epochs.items() if shard not in self._leaving}

    @property
    def trusted(self) -> bool:
        """Whether the shards may still be believed to be owned."""
        return self._clock.boot_s() < self._trust_until_s

    def renewed(self, epochs: dict[int, int], *, asked_at_s: float) -> None:
        """Take note of a renewal: what is still held, and from when it was asked for."""
        self._epochs = {shard: epoch for shard, epoch in epochs.items() if self._epochs.get(shard) == epoch}
        self._trust_until_s = asked_at_s + self._lease_s * 8 / 9

    def look(self) -> None:
        """Look at who shares the queue now: somebody joined, left or died."""
        self._look.set()

    async def join(self) -> None:
        """Take a place among those that share the queue, and tell the others."""
        await store.join(self._db, self._owner, kept_s=self._lease_s, about=self._about, kinds=self._kinds)
        await wake(self._db, ())

    async def leave(self) -> None:
        """Give everything back and tell the others."""
        self._epochs = {}
        if self._taking is not None:
            # The loop that took them may have been cancelled meanwhile, and what comes after this would stay with us.
            await asyncio.wait([self._taking], timeout=_FINISH_S)
        await store.leave(self._db, self._owner)
        await wake(self._db, ())

    async def gather(self) -> None:
        """Wait until those that start together have all joined, two seconds at most."""
        deadline_s = self._clock.boot_s() + _GATHER_S
        while self._clock.boot_s() < deadline_s and await store.count_living(self._db) < self._expected:
            await self.wait(_GATHER_CHECK_S)
            self._look.clear()

    async def tick(self) -> None:
        """Take what is missing from the fair share if it is free; give back what is beyond it."""
        self._look.clear()
        living = max(1, await store.count_living(self._db))
        share = -(-SHARDS // living)
        if len(self._epochs) < share:
            asked_at_s = self._clock.boot_s()
            count = share - len(self._epochs)
            self._taking = asyncio.ensure_future(store.take(self._db, self._owner, count=count, lease_s=self._lease_s))
            any_free = await asyncio.shield(self._taking)
            owned = await store.owned(self._db, self._owner)
            if len(owned) > len(self._epochs):
                _log.info("shards taken", extra={"owned": len(owned), "living": living})
            if not self._epochs:
                # All of them are fresh. Otherwise the older ones keep their earlier trust until the next renewal.
                self._trust_until_s = asked_at_s + self._lease_s * 8 / 9
            self._epochs = owned
            if any_free and len(owned) < share:
                # Somebody else was faster with some of them; others may be left.
                self._look.set()
        elif len(self._epochs) > share:
            await self._give_back(len(self._epochs) - share, living)

    async def _give_back(self, count: int, living: int) -> None:
        # Which ones does not matter, only that two that give back at once do not pick by the same rule for long:
        # each owns its own.
        self._leaving = frozenset(list(self._epochs)[:count])
        try:
            await self._let_go(self._leaving)
            await store.release(self._db, self._owner, self._leaving)
            self._epochs = {shard: epoch for shard, epoch in self._epochs.items() if shard not in self._leaving}
            _log.info("shards given back", extra={"owned": len(self._epochs), "living": living})
        finally:
            self._leaving = frozenset()
        await wake(self._db, ())

    async def wait(self, seconds: float) -> None:
        """Wait for the next look: until somebody asks for it, at most so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._look.wait()
        except TimeoutError:
            pass
