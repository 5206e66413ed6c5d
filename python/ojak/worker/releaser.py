# SPDX-License-Identifier: Apache-2.0
"""The releaser: lets go what was set aside when what it waits for has ended, and has held inboxes tried again.

One of all owners is enough: that of shard 0, of which there is at most one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from ojak.clock import Clock, SystemClock
from ojak.config import DelivererConfig
from ojak.model.hold import HoldKind
from ojak.model.outcome import SettledOutcome
from ojak.store.aside import end_behind, let_go, let_go_all, stray_holds, waits_behind
from ojak.store.database import QueueDatabase
from ojak.store.holds import (
    GONE_FIRST_S,
    HoldRow,
    end_hold,
    forget_hold,
    holds_of,
    holds_to_look_at,
    look_at_its_end,
    look_later,
    take_turn,
)
from ojak.store.notices import announce_settings
from ojak.worker.ownership import Ownership

_log = logging.getLogger("ojak.worker.holds")

_EVERY_S: Final = 1.0
_AT_A_TIME: Final = 16


class Releaser:
    """Looks after holds whose time has come.

    Args:
        db: the queue.
        config: how often keys are asked for, and strays looked for.
        ownership: tells whether shard 0 is ours.
        can_sign: asks for the key of a sender.
        on_let_go: called when something can be sent again.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        config: DelivererConfig,
        ownership: Ownership,
        can_sign: Callable[[str], Awaitable[bool]],
        on_let_go: Callable[[], None],
        clock: Clock | None = None,
    ) -> None:
        self._db = db
        self._config = config
        self._ownership = ownership
        self._can_sign = can_sign
        self._on_let_go = on_let_go
        self._clock = clock or SystemClock()
        self._looking = asyncio.Event()
        self._strays_at_s = 0.0

    def look(self) -> None:
        """Look now: a hold may have ended."""
        self._looking.set()

    async def step(self) -> None:
        """Wait for a reason or a second, then see to every hold whose time has come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EVERY_S):
                await self._looking.wait()
        self._looking.clear()
        if 0 not in self._ownership.epochs:
            return
        await self.see_to_all()
        if self._clock.boot_s() >= self._strays_at_s:
            self._strays_at_s = self._clock.boot_s() + self._config.sweep_every_s
            await self.mend_strays()

    async def see_to_all(self) -> None:
        """See to every hold whose time has come."""
        while holds := await holds_to_look_at(self._db, limit=_AT_A_TIME):
            # Together: a source of keys that hangs does so for each of them.
            done = await asyncio.gather(*(self._see_to(hold) for hold in holds), return_exceptions=True)
            for fault in done:
                if isinstance(fault, BaseException):
                    raise fault
            if len(holds) < _AT_A_TIME:
                return

    async def mend_strays(self) -> None:
        """Let go what waits for what has ended: only a crash between two statements leaves any."""
        strays = await stray_holds(self._db)
        standing = await holds_of(self._db, strays)
        for stray in strays:
            row = standing.get(stray)
            if row is not None and row.gone and not row.over:
                await end_behind(self._db, stray, SettledOutcome.HOST_GONE)
            else:
                await let_go_all(self._db, stray)
        if strays:
            _log.warning("deliveries were set aside for nothing; mended", extra={"holds": len(strays)})
            self._on_let_go()

    async def _see_to(self, hold: HoldRow) -> None:
        if hold.over:
            if hold.kind.of_sender:
                # Whoever ended it may have died before he said so, and workers would set aside what they meet for ever.
                await announce_settings(self._db)
            await self._release(hold)
        elif hold.kind is HoldKind.PAUSE:
            await self._end(hold)
        elif hold.kind is HoldKind.KEY:
            await self._ask_for_key(hold)
        elif hold.kind is HoldKind.GONE and hold.gone:
            if count := await end_behind(self._db, hold.id, SettledOutcome.HOST_GONE):
                _log.info("an inbox is gone; what waited for it ended", extra={"inbox": hold.of, "count": count})
            await look_later(self._db, hold, for_s=None)
        else:
            await self._have_tried(hold)

    async def _end(self, hold: HoldRow) -> None:
        await end_hold(self._db, hold.id)
        await self._release(replace(hold, over=True))

    async def _release(self, hold: HoldRow) -> None:
        count = await let_go_all(self._db, hold.id)
        await forget_hold(self._db, hold)
        _log.info("a hold has ended", extra={"kind": hold.kind.value, "of": hold.of, "let_go": count})
        if count:
            self._on_let_go()

    async def _ask_for_key(self, hold: HoldRow) -> None:
        if not await waits_behind(self._db, hold.id):
            # Nobody wants to send: the next who does asks for himself.
            await forget_hold(self._db, hold)
        elif await self._can_sign(hold.of):
            await self._end(hold)
        else:
            await look_later(self._db, hold, for_s=self._config.key_retry_s)

    async def _have_tried(self, hold: HoldRow) -> None:
        """One delivery tries a held inbox; the rest waits for what comes of it."""
        if not await waits_behind(self._db, hold.id):
            if hold.kind is HoldKind.GONE:
                # It is remembered: the next delivery is the one that tries it.
                await look_later(self._db, hold, for_s=None)
            else:
                await forget_hold(self._db, hold)
            return
        again_s = GONE_FIRST_S if hold.kind is HoldKind.GONE else self._config.lease_s
        if await take_turn(self._db, hold, for_s=again_s):
            await let_go(self._db, hold.id, limit=1, scout=hold.mark)
            self._on_let_go()
        else:
            await look_at_its_end(self._db, hold)
