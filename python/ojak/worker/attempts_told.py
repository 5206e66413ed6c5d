# SPDX-License-Identifier: Apache-2.0
"""Telling the application of attempts: its callback may raise whatever it likes, at once or later."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ojak.model.outcome import DeliveryAttempt
from ojak.worker.foreign import is_own_end
from ojak.worker.teller import CALLBACK_S

_log = logging.getLogger("ojak.worker.attempt")

OnAttempt = Callable[[DeliveryAttempt], Awaitable[None] | None]


def tell_attempt(callback: OnAttempt, attempt: DeliveryAttempt) -> Coroutine[Any, Any, None] | None:
    """Tell of an attempt; gives what is still to be waited for, if the callback is asynchronous."""
    try:
        answer = callback(attempt)
    except BaseException:  # noqa: BLE001 - it is not awaited: only the callback can have raised it
        _log.exception("on_attempt raised", extra={"delivery": attempt.delivery_id})
        return None
    return _logged(answer, attempt.delivery_id) if inspect.isawaitable(answer) else None


async def _logged(answer: Awaitable[None], delivery_id: str) -> None:
    try:
        # A `run()` ends when the last of them has: one that hangs must not keep it.
        async with asyncio.timeout(CALLBACK_S):
            await answer
    except BaseException as error:
        if is_own_end(error):
            raise
        _log.exception("on_attempt raised", extra={"delivery": delivery_id})
