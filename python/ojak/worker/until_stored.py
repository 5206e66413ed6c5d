# SPDX-License-Identifier: Apache-2.0
"""Writing outcomes until they are stored: an outcome is worth more than the lease it was made under."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ojak.store.database import DatabaseTrouble

_log = logging.getLogger("ojak.worker.settle")

T = TypeVar("T")

_AGAIN_FIRST_S: Final = 0.1
_AGAIN_LONGEST_S: Final = 5.0

MAX_PENDING: Final = 2048
"""More outcomes than this are never gathered: starting waits, so that a database that is away costs bounded memory."""


async def until_stored(write: Callable[[], Awaitable[T]]) -> T:
    """Write, again and again if the database is away: every write is safe to repeat under its stamp."""
    pause_s = _AGAIN_FIRST_S
    while True:
        try:
            return await write()
        except DatabaseTrouble as error:
            _log.warning("outcomes not stored yet", extra={"error": type(error).__name__, "again_in_s": pause_s})
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, _AGAIN_LONGEST_S)
