# SPDX-License-Identifier: Apache-2.0
"""Gates: hosts that asked for no more requests for a while (Retry-After), until that stands in their records."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from ojak.clock import Clock
from ojak.model.job import Job
from ojak.store.database import DatabaseTrouble, QueueDatabase
from ojak.store.hosts import hold_host
from ojak.worker.lanes import Lanes

_log = logging.getLogger("ojak.worker.gates")

_KNOWN: Final = 65_536


class Gates:
    """Which hosts are gated here and not yet in their records, and when those of the others were written.

    A claim goes by the records. So a host is kept out of it only until its record says so: whoever owns a domain has
    names without end, and each may ask for a day.

    Args:
        db: the queue.
        clock: for when a gate was written.
        lanes: where nothing of a gated host is started.
        on_opened: called when a host is free here again.
    """

    def __init__(self, *, db: QueueDatabase, clock: Clock, lanes: Lanes, on_opened: Callable[[], None]) -> None:
        self._db = db
        self._clock = clock
        self._lanes = lanes
        self._on_opened = on_opened
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._written_at_s: OrderedDict[str, float] = OrderedDict()

    def shut(self, authority: str, hold_s: float) -> list[Job]:
        """Start nothing of a host from now on; gives what waits for it, to be handed back after `write`."""
        self._forget_timer(authority)
        self._timers[authority] = asyncio.get_running_loop().call_later(hold_s, self._open, authority)
        return self._lanes.hold(authority)

    async def write(self, authority: str, hold_s: float) -> None:
        """Have the host's record say so. If that is not possible now, it stays held here until its time is over."""
        try:
            await hold_host(self._db, authority, hold_s)
        except DatabaseTrouble as error:
            # It goes with the next outcomes.
            _log.warning("a gate is not written yet", extra={"error": type(error).__name__})
            return
        self._written_at_s[authority] = self._clock.boot_s()
        self._written_at_s.move_to_end(authority)
        if len(self._written_at_s) > _KNOWN:
            self._written_at_s.popitem(last=False)
        self._open(authority)

    def shut_since(self, authority: str, boot_s: float) -> bool:
        """Whether what was read of a host at that time may not show that it is held."""
        return self._lanes.is_held(authority) or self._written_at_s.get(authority, -1.0) >= boot_s

    def close(self) -> None:
        """Forget what was still to be released."""
        for authority in list(self._timers):
            self._forget_timer(authority)

    def _forget_timer(self, authority: str) -> None:
        timer = self._timers.pop(authority, None)
        if timer is not None:
            timer.cancel()

    def _open(self, authority: str) -> None:
        self._forget_timer(authority)
        self._lanes.release(authority)
        self._on_opened()
