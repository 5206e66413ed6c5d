# SPDX-License-Identifier: Apache-2.0
"""The teller: calls `on_settled` and `on_failure`, at least once for each end (rule E)."""

import asyncio
import inspect
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from ojak.backoff import backoff_s
from ojak.clock import Clock
from ojak.model.outcome import DeliveryFailure, Settled, SettledOutcome
from ojak.store.database import QueueDatabase
from ojak.store.ends import End, UntoldEnd, mark_rows_told, mark_told, untold
from ojak.store.settle import Ended
from ojak.worker.loops import pause

_log = logging.getLogger("ojak.worker.tell")

WAITING: Final = 10_000
"""So many ends wait here at most to be told; the sweep finds the others."""
CALLBACK_S: Final = 30.0
"""An asynchronous callback that takes longer counts as one that raised."""
_AT_A_TIME: Final = 100
PAGE: Final = 200
_LEFT_OUT: Final = 1000

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
    ) -> None:
        self._db = db
        self._clock = clock
        self._on_settled = on_settled
        self._on_failure = on_failure
        self._every_s = every_s
        self._kept_s = kept_s
        self._give_up_s = give_up_s
        self._failed: dict[tuple[str, int], tuple[int, float]] = {}
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

    async def sweep_step(self) -> None:
        """Wait for the next time; tell what is untold for a while, whoever ended it."""
        await pause(self._every_s)
        if not self.has_callbacks:
            return
        now_s = self._clock.boot_s()
        later = [bytes.fromhex(key[0]) for key, (_, not_before_s) in self._failed.items() if not_before_s > now_s]
        page = PAGE
        while page == PAGE:
            found = await untold(self._db, older_s=self._every_s, without=later[:_LEFT_OUT], limit=PAGE)
            page = len(found)
            told = [item for item in found if self._is_ours(item) and await self._tell(item.end)]
            await mark_told(self._db, told, kept_s=self._kept_s)
            if not told:
                break

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
                answer = callback(end)  # type: ignore[arg-type]
                if inspect.isawaitable(answer):
                    async with asyncio.timeout(CALLBACK_S):
                        await answer
        except (Exception, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # It is this loop that is being ended, not something that the callback waited for.
                raise
            count = self._failed.get(key, (0, 0.0))[0] + 1
            if (datetime.now(UTC) - end.finished_at).total_seconds() > self._give_up_s:
                _log.exception("callback still raises; counted as told", extra={"delivery": end.delivery_id})
                self._failed.pop(key, None)
                return True
            delay_s = backoff_s(min(count, 16), random.Random())  # noqa: S311 - jitter
            self._failed[key] = (count, self._clock.boot_s() + delay_s)
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
