# SPDX-License-Identifier: Apache-2.0
"""The sweeper: what is to be done once for the whole queue, by the owner of shard 0, of whom there is at most one."""

import logging
from collections.abc import Callable
from typing import Final

from ojak.config import DelivererConfig
from ojak.store.age import end_too_old
from ojak.store.batches import end_past_deadlines
from ojak.store.database import QueueDatabase
from ojak.store.host_settings import mend_settings
from ojak.store.kind_settle import let_ends_expire
from ojak.store.order import mend_order
from ojak.store.sweep import mend_dues
from ojak.worker.loops import pause
from ojak.worker.ownership import Ownership
from ojak.worker.telling import Telling

_log = logging.getLogger("ojak.worker.sweep")

_DEADLINES_EVERY_S: Final = 1.0


class Sweeper:
    """Gives up on what is past its deadline or too old, and mends what crashes left.

    Args:
        db: the queue.
        config: how often, and what is too old.
        ownership: tells whether shard 0 is ours.
        telling: knows whether ends are kept until somebody was told.
        on_mended: called when there is work that nobody was told of.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        config: DelivererConfig,
        ownership: Ownership,
        telling: Telling,
        on_mended: Callable[[], None],
    ) -> None:
        self._db = db
        self._config = config
        self._ownership = ownership
        self._telling = telling
        self._on_mended = on_mended

    @property
    def _is_ours(self) -> bool:
        return 0 in self._ownership.epochs

    async def deadline_step(self) -> None:
        """Give up on what is past its batch's deadline."""
        await pause(_DEADLINES_EVERY_S)
        if self._is_ours and (count := await end_past_deadlines(self._db)):
            _log.info("given up on at their batch's deadline", extra={"count": count})

    async def step(self) -> None:
        """Give up on what is too old, and mend what crashes left."""
        await pause(self._config.sweep_every_s)
        if not self._is_ours:
            return
        if count := await end_too_old(self._db, max_age_s=self._config.max_age_s):
            _log.info("given up on for their age", extra={"count": count})
        if count := await mend_order(self._db):
            _log.warning("deliveries waited behind nothing; mended", extra={"count": count})
            self._on_mended()
        if count := await mend_dues(self._db, lease_s=self._config.lease_s):
            _log.error("hosts had work and were not due; mended", extra={"count": count})
            self._on_mended()
        await let_ends_expire(self._db, kept_s=self._config.keep_finished_s)
        if count := await mend_settings(self._db):
            _log.error("hosts lacked what is set for them; mended", extra={"count": count})
        await self._telling.sweep()
