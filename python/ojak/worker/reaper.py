# SPDX-License-Identifier: Apache-2.0
"""The reaper: returns leases that ran out, and holds off while nobody could have renewed (SPEC section 2)."""

import logging

from ojak.clock import Clock
from ojak.store.database import QueueDatabase
from ojak.store.reap import reap_expired
from ojak.worker.loops import pause

_log = logging.getLogger("ojak.worker.reap")

_AWAY_S = 10.0
_JUMP_S = 5.0


class Reaper:
    """Reaps every 30 s, but not for a renewal and a half after the database was away or its clock jumped.

    Args:
        db: the queue.
        clock: to notice a jump by.
        every_s: how often.
        hold_off_s: for how long it does not reap after an outage, so that living owners renew first.
        max_deaths: after how many deaths a job is parked.
    """

    def __init__(self, *, db: QueueDatabase, clock: Clock, every_s: float, hold_off_s: float, max_deaths: int) -> None:
        self._db = db
        self._clock = clock
        self._every_s = every_s
        self._hold_off_s = hold_off_s
        self._max_deaths = max_deaths
        self._not_before_s = 0.0
        self._offset_s: float | None = None
        self._election: str | None = None
        self._seen_at_s = clock.boot_s()

    async def step(self) -> None:
        """Wait for the next time, look whether the clock can be believed, reap."""
        await pause(self._every_s)
        asked_at_s = self._clock.boot_s()
        moment, election = await self._db.primary()
        offset_s = moment.timestamp() - asked_at_s
        answered_at_s = self._clock.boot_s()
        away = answered_at_s - asked_at_s > _AWAY_S or asked_at_s - self._seen_at_s > self._every_s * 1.5 + _AWAY_S
        jumped = self._offset_s is not None and abs(offset_s - self._offset_s) > _JUMP_S
        elected = self._election not in (None, election)
        self._offset_s, self._seen_at_s, self._election = offset_s, answered_at_s, election
        if away or jumped or elected:
            self._not_before_s = answered_at_s + self._hold_off_s
            _log.warning(
                "reaping held off",
                extra={"hold_off_s": self._hold_off_s, "away": away, "jumped": jumped, "elected": elected},
            )
        if answered_at_s < self._not_before_s:
            return
        count = await reap_expired(self._db, max_deaths=self._max_deaths)
        if count:
            _log.warning("expired leases returned", extra={"count": count})
