# SPDX-License-Identifier: Apache-2.0
"""Telling the application of attempts: its callback may raise whatever it likes, at once or later."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ojak.model.outcome import DeliveryAttempt
from ojak.worker.foreign import CALLBACK_S, ForeignCall

_log = logging.getLogger("ojak.worker.attempt")

OnAttempt = Callable[[DeliveryAttempt], Awaitable[None] | None]


def tell_attempt(callback: OnAttempt, attempt: DeliveryAttempt) -> Coroutine[Any, Any, None] | None:
    """Tell of an attempt; gives what is still to be waited for, if the callback is asynchronous."""
    try:
        with ForeignCall():
            answer = callback(attempt)
    except Exception:  # noqa: BLE001 - an application may raise anything
        _log.exception("on_attempt raised", extra={"delivery": attempt.delivery_id})
        return None
    return _logged(answer, attempt.delivery_id) if inspect.isawaitable(answer) else None


async def _logged(answer: Awaitable[None], delivery_id: str) -> None:
    try:
        # A `run()` ends when the last of them has: one that hangs must not keep it.
        with ForeignCall():
            async with asyncio.timeout(CALLBACK_S):
                await answer
    except Exception:  # noqa: BLE001 - an application may raise anything
        _log.exception("on_attempt raised", extra={"delivery": delivery_id})
