# SPDX-License-Identifier: Apache-2.0
"""Background loops: sleep, work, log and go on. A database that is away is weather, not an end."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from ojak.store.database import DatabaseTrouble

_log = logging.getLogger("ojak.worker.loops")

_BACKOFF_FIRST_S: Final = 0.2
_BACKOFF_LONGEST_S: Final = 5.0


async def forever(name: str, step: Callable[[], Awaitable[None]]) -> None:
    """Take one step after another. A step that finds the database away is tried again after a growing pause.

    Anything else that a step raises is a fault of the program and ends the `run()`, so that it is seen.
    """
    pause_s = 0.0
    while True:
        try:
            await step()
            pause_s = 0.0
        except DatabaseTrouble as error:
            pause_s = min(max(pause_s * 2, _BACKOFF_FIRST_S), _BACKOFF_LONGEST_S)
            _log.warning(
                "a loop found the database away",
                extra={"loop": name, "error": type(error).__name__, "again_in_s": pause_s},
            )
            await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))  # noqa: S311 - jitter


async def pause(seconds: float) -> None:
    """Wait, a fifth more or less, so that processes started together do not stay in step."""
    await asyncio.sleep(seconds * random.uniform(0.8, 1.2))  # noqa: S311 - jitter


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*ending, return_exceptions=True)
