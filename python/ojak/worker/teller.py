# SPDX-License-Identifier: Apache-2.0
"""The teller: calls `on_settled` and `on_failure`, at least once for each end (rule E)."""

import asyncio
import inspect
import logging
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from ojak.backoff import backoff_s
from ojak.clock import Clock
from ojak.model.outcome import DeliveryFailure, Settled, SettledOutcome
from ojak.store.database import QueueDatabase
from ojak.store.ends import End, UntoldEnd, mark_rows_told, mark_told, untold, untold_ids
from ojak.store.settle import Ended
from ojak.store.telling import catch_up
from ojak.store.turns import leave_turn, take_turn
from ojak.worker.foreign import CALLBACK_S, ForeignCall
from ojak.worker.loops import pause

_log = logging.getLogger("ojak.worker.tell")

WAITING: Final = 10_000
"""So many ends wait here at most to be told; the sweep finds the others."""
_AT_A_TIME: Final = 100
PAGE: Final = 200
FAILED_MAX: Final = 10_000
"""For so many ends it is kept in mind when their callback is called again; for others it is with the next sweep."""
GIVES_UP_AFTER: Final = 50
"""After so many callbacks in a row that raised, the others of a sweep are left for the next."""
SWEEPER: Final = "teller"
"""The turn of the one process that tells what was left untold."""

OnSettled = Callable[[Settled], Awaitable[None] | None]
OnFailure = Callable[[DeliveryFailure], Awaitable[None] | None]


class Teller:
    """Tells ends as they are stored, and sweeps those that a crash or a raising callback left untold.

    Args:
        db: the queue.
        clock: for the back-off.
        on_settled, on_failure: the application's callbacks; None where it has none.
        every_s: how often untold ends are looked for, and how old they must be.
        kept_s: how long a finished row stays.
        give_up_s: a callback that still raises after so long is counted as told.
        holder: names this `run()`.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        clock: Clock,
        on_settled: OnSettled | None,
        on_failure: OnFailure | None,
        every_s: float,
        kept_s: float,
        give_up_s: float,
        holder: bytes = b"",
    ) -> None:
        self._db = db
        self._clock = clock
        self._on_settled = on_settled
        self._on_failure = on_failure
        self._every_s = every_s
        self._kept_s = kept_s
        self._give_up_s = give_up_s
        self._holder = holder
        # A sweep may wait for a slow callback between two looks at its turn.
        self._turn_s = max(every_s * 3, CALLBACK_S * 2)
        self._turn_until_s = 0.0
        self._failed: OrderedDict[tuple[str, int], tuple[int, float]] = OrderedDict()
        self._raised_in_a_row = 0
        self._waiting: dict[tuple[str, int], tuple[End, bytes]] = {}
        self._unmarked: dict[tuple[str, int], bytes] = {}
        self._come = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def has_callbacks(self) -> bool:
        """Whether there is anybody to tell."""
        return self._on_settled is not None or self._on_failure is not None

    def tell_soon(self, ends: Sequence[Ended]) -> None:
        """Have ends told that were just stored. What finds no room is told by the sweep."""
        if not self.has_callbacks:
            return
        now = datetime.now(UTC)
        for end in ends:
            value = _end_value(end, now)
            key = (value.delivery_id, value.end)
            if len(self._waiting) < WAITING:
                self._waiting[key] = (value, end.job.id)
        self._come.set()
        self._idle.clear()

    async def tell_step(self) -> None:
        """Wait for ends that were just stored; call back for each, and write that it was told.

        In a loop of its own: a callback that takes its time holds up neither deliveries nor the storing of outcomes.
        """
        if not self._waiting and not self._unmarked:
            self._idle.set()
            await self._come.wait()
        self._come.clear()
        for key, (value, row_id) in list(self._waiting.items())[:_AT_A_TIME]:
            if await self._tell(value):
                # Told and not yet marked: kept until the mark stands, so that it is not told again meanwhile.
                self._unmarked[key] = row_id
            del self._waiting[key]
        by_end: dict[int, list[bytes]] = {}
        for (_, number), row_id in self._unmarked.items():
            by_end.setdefault(number, []).append(row_id)
        await mark_rows_told(self._db, by_end, kept_s=self._kept_s)
        self._unmarked.clear()

    async def idle(self) -> None:
        """Wait until nothing that was just stored waits to be told."""
        await self._idle.wait()

    async def leave(self) -> None:
        """Wait until nothing that was just stored waits to be told, and let others sweep."""
        await self.idle()
        if self._turn_until_s:
            await leave_turn(self._db, SWEEPER, holder=self._holder)

    async def sweep_step(self) -> None:
        """Wait for the next time; tell what is untold for a while, whoever ended it. One process at a time does."""
        await pause(self._every_s)
        if not self.has_callbacks or not await self._has_turn():
            return
        if count := await catch_up(self._db, kept_s=self._kept_s):
            _log.info("ends were written before everybody knew that they are to be told", extra={"count": count})
        now_s = self._clock.boot_s()
        later = {bytes.fromhex(key[0]) for key, (_, not_before_s) in self._failed.items() if not_before_s > now_s}
        ids = await untold_ids(self._db, older_s=self._every_s, without=later, limit=WAITING)
        self._raised_in_a_row = 0
        for start in range(0, len(ids), PAGE):
            if not await self._sweep_page(ids[start : start + PAGE]):
                return

    async def _sweep_page(self, ids: Sequence[bytes]) -> bool:
        """Tell the ends of some rows; whether the sweep is to go on."""
        told: list[UntoldEnd] = []
        goes_on = True
        for item in await untold(self._db, older_s=self._every_s, ids=ids):
            goes_on = self._raised_in_a_row < GIVES_UP_AFTER and await self._has_turn()
            if not goes_on:
                break
            if self._is_ours(item) and self._is_due(item):
                if await self._tell(item.end):
                    told.append(item)
                    self._raised_in_a_row = 0
                else:
                    self._raised_in_a_row += 1
        await mark_told(self._db, told, kept_s=self._kept_s)
        return goes_on

    async def _has_turn(self) -> bool:
        """Whether this is the one to sweep. Asked before each callback; the database is, when a third has passed."""
        now_s = self._clock.boot_s()
        if now_s < self._turn_until_s - self._turn_s * 2 / 3:
            return True
        if not await take_turn(self._db, SWEEPER, holder=self._holder, lease_s=self._turn_s):
            self._turn_until_s = 0.0
            return False
        self._turn_until_s = now_s + self._turn_s
        return True

    def _is_due(self, item: UntoldEnd) -> bool:
        """Whether its callback did not raise a moment ago: a row may owe several ends, and one of them waits."""
        _, not_before_s = self._failed.get((item.end.delivery_id, item.end.end), (0, 0.0))
        return not_before_s <= self._clock.boot_s()

    def _is_ours(self, item: UntoldEnd) -> bool:
        """Whether an end does not wait here already, to be told or to be marked."""
        key = (item.end.delivery_id, item.end.end)
        return key not in self._waiting and key not in self._unmarked

    async def _tell(self, end: End) -> bool:
        """Call the callback; False if it raised and is to be called again."""
        key = (end.delivery_id, end.end)
        try:
            callback = self._on_settled if isinstance(end, Settled) else self._on_failure
            if callback is not None:
                with ForeignCall():
                    answer = callback(end)  # type: ignore[arg-type]
                    if inspect.isawaitable(answer):
                        async with asyncio.timeout(CALLBACK_S):
                            await answer
        except Exception:  # noqa: BLE001 - an application may raise anything
            count = self._failed.get(key, (0, 0.0))[0] + 1
            if (datetime.now(UTC) - end.finished_at).total_seconds() > self._give_up_s:
                _log.exception("callback still raises; counted as told", extra={"delivery": end.delivery_id})
                self._failed.pop(key, None)
                return True
            delay_s = backoff_s(min(count, 16), random.Random())  # noqa: S311 - jitter
            self._failed[key] = (count, self._clock.boot_s() + delay_s)
            self._failed.move_to_end(key)
            if len(self._failed) > FAILED_MAX:
                self._failed.popitem(last=False)
            _log.exception("callback raised; called again later", extra={"delivery": end.delivery_id, "in_s": delay_s})
            return False
        self._failed.pop(key, None)
        return True


def _end_value(end: Ended, finished_at: datetime) -> End:
    told = {
        "delivery_id": end.job.id.hex(),
        "end": end.job.ends + 1,
        "activity_id": end.job.activity_id,
        "inbox": end.job.inbox,
        "ref": end.job.ref,
        "sender": end.job.sender,
        "attempts": end.attempts,
        "status": end.status,
        "reason": end.reason,
        "finished_at": finished_at,
    }
    if isinstance(end.outcome, SettledOutcome):
        return Settled(outcome=end.outcome, **told)  # type: ignore[arg-type]
    return DeliveryFailure(outcome=end.outcome, **told)  # type: ignore[arg-type]
