# SPDX-License-Identifier: Apache-2.0
"""Whether ends are kept until they were told, as one `run()` knows it."""

import asyncio
import logging
from typing import Final

from ojak.store.database import QueueDatabase
from ojak.store.telling import set_telling, tell_nobody, wants_telling
from ojak.store.wakeups import wake_to_telling

_log = logging.getLogger("ojak.worker.telling")

_LOOK_EVERY_S: Final = 5.0


class Telling:
    """The queue's setting, looked at every 5 s and when it is turned on.

    Args:
        db: the queue.
        wanted: whether this `run()` has callbacks: then the setting is on as long as it runs.
        kept_s: how long a finished row stays.
    """

    def __init__(self, *, db: QueueDatabase, wanted: bool, kept_s: float) -> None:
        self._db = db
        self._wanted = wanted
        self._kept_s = kept_s
        self._look = asyncio.Event()
        self.on = wanted

    async def start(self) -> None:
        """Turn it on if it is wanted here, and tell the others; else see how it stands."""
        wants = await wants_telling(self._db)
        if not self._wanted:
            self.on = wants
        elif not wants and await set_telling(self._db, on=True):
            _log.info("ends are kept until they were told")
            await wake_to_telling(self._db)

    def look(self) -> None:
        """Look now: somebody turned it on."""
        self._look.set()

    async def step(self) -> None:
        """Wait for the next look, and take it."""
        try:
            async with asyncio.timeout(_LOOK_EVERY_S):
                await self._look.wait()
        except TimeoutError:
            pass
        self._look.clear()
        # Also where somebody cleared it meanwhile: this one wants to be told.
        await self.start()

    async def sweep(self) -> None:
        """Let ends expire that wait to be told, if nobody wants to be."""
        if not await wants_telling(self._db):
            await tell_nobody(self._db, kept_s=self._kept_s)
