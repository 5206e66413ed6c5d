# SPDX-License-Identifier: Apache-2.0
"""The teller: calls `on_settled` and `on_failure`, at least once for each end (rule E)."""

import inspect
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from ojak.backoff import backoff_s
from ojak.clock import Clock
from ojak.model.outcome import DeliveryFailure, Settled, SettledOutcome
from ojak.store.database import QueueDatabase
from ojak.store.ends import End, UntoldEnd, mark_rows_told, mark_told, untold
from ojak.store.settle import Ended
from ojak.worker.loops import pause

_log = logging.getLogger("ojak.worker.tell")

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

    @property
    def has_callbacks(self) -> bool:
        """Whether there is anybody to tell."""
        return self._on_settled is not None or self._on_failure is not None

    async def tell_stored(self, ends: Sequence[Ended]) -> None:
        """Tell ends that were just stored, and write that they were told."""
        if not self.has_callbacks:
            return
        now = datetime.now(UTC)
        told: dict[int, list[bytes]] = {}
        for end in ends:
            if await self._tell(_end_value(end, now)):
                told.setdefault(end.job.ends + 1, []).append(end.job.id)
        await mark_rows_told(self._db, told, kept_s=self._kept_s)

    async def step(self) -> None:
        """Wait for the next time; tell what is untold for a while, whoever ended it."""
        await pause(self._every_s)
        if not self.has_callbacks:
            return
        told = [
            item
            for item in await untold(self._db, older_s=self._every_s)
            if self._is_due(item) and await self._tell(item.end)
        ]
        await mark_told(self._db, told, kept_s=self._kept_s)

    def _is_due(self, item: UntoldEnd) -> bool:
        _, not_before_s = self._failed.get((item.end.delivery_id, item.end.end), (0, 0.0))
        return self._clock.boot_s() >= not_before_s

    async def _tell(self, end: End) -> bool:
        """Call the callback; False if it raised and is to be called again."""
        key = (end.delivery_id, end.end)
        try:
            callback = self._on_settled if isinstance(end, Settled) else self._on_failure
            if callback is not None:
                answer = callback(end)  # type: ignore[arg-type]
                if inspect.isawaitable(answer):
                    await answer
        except Exception:  # noqa: BLE001 - an application's callback may raise anything
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
