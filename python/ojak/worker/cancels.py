# SPDX-License-Identifier: Apache-2.0
"""Cancels: how a `run()` learns that something it has leased was cancelled (rule C)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ojak.clock import Clock
from ojak.store.cancel import announced, flagged_of
from ojak.store.database import QueueDatabase
from ojak.worker.held import Held

_EVERY_S: Final = 1.0


class Cancels:
    """Looks each second, and when asked, whether anything was cancelled, and if so, whether it is leased here.

    Args:
        db: the queue.
        held: what is leased here.
        clock: for how long to look.
        lease_s: the length of a lease.
        on_cancelled: called with the ids of what is leased here, cancelled, and not known to have begun; each takes
            what it knows.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        held: Held,
        clock: Clock,
        lease_s: float,
        on_cancelled: Sequence[Callable[[set[bytes]], Awaitable[None]]],
    ) -> None:
        self._db = db
        self._held = held
        self._clock = clock
        self._lease_s = lease_s
        self._on_cancelled = on_cancelled
        self._asked = asyncio.Event()
        self._seen = -1
        self._until_s = 0.0

    def ask(self) -> None:
        """Look now."""
        self._asked.set()

    async def step(self) -> None:
        """Wait for the next time; look."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EVERY_S):
                await self._asked.wait()
        self._asked.clear()
        count = await announced(self._db)
        if count != self._seen:
            # What is being claimed at this moment may be flagged and not be here yet: look for as long as a lease.
            self._seen, self._until_s = count, self._clock.boot_s() + self._lease_s
        if self._clock.boot_s() < self._until_s and (held := self._held.ids()):
            flagged = await flagged_of(self._db, held)
            for cancel in self._on_cancelled:
                await cancel(flagged)
