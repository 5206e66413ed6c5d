# SPDX-License-Identifier: Apache-2.0
"""Telling the application of attempts: its callback may raise whatever it likes, at once or later."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable

from ojak.model.outcome import DeliveryAttempt
from ojak.worker.attempted import Attempted
from ojak.worker.foreign import CALLBACK_S, ForeignCall
from ojak.worker.loops import end_tasks

_log = logging.getLogger("ojak.worker.attempt")

OnAttempt = Callable[[DeliveryAttempt], Awaitable[None] | None]


class AttemptsTold:
    """Calls `on_attempt`, and knows what of it is still under way.

    Nothing else waits for that: a callback that takes its time must keep neither a slot nor, at the end of a `run()`,
    its shards.

    Args:
        callback: the application's, or None.
    """

    def __init__(self, callback: OnAttempt | None) -> None:
        self._callback = callback
        self._telling: set[asyncio.Task[None]] = set()

    def tell(self, attempted: Attempted) -> None:
        """Tell of an attempt, unless nothing was attempted."""
        if self._callback is None or attempted.quiet:
            return
        attempt = attempted.as_told()
        try:
            with ForeignCall():
                answer = self._callback(attempt)
        except Exception:  # noqa: BLE001 - an application may raise anything
            _log.exception("on_attempt raised", extra={"delivery": attempt.delivery_id})
            return
        if inspect.isawaitable(answer):
            task = asyncio.create_task(_logged(answer, attempt.delivery_id))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def told(self) -> None:
        """Wait until nothing is under way."""
        if self._telling:
            await asyncio.wait(set(self._telling))

    async def cut_off(self) -> None:
        """End what is still under way."""
        await end_tasks(set(self._telling))


async def _logged(answer: Awaitable[None], delivery_id: str) -> None:
    try:
        with ForeignCall():
            async with asyncio.timeout(CALLBACK_S):
                await answer
    except Exception:  # noqa: BLE001 - an application may raise anything
        _log.exception("on_attempt raised", extra={"delivery": delivery_id})
