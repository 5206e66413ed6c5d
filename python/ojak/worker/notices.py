# SPDX-License-Identifier: Apache-2.0
"""What a `run()` learns and does when something leased was cancelled, or an operator paused or set something."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ojak.clock import Clock
from ojak.store import notices as store
from ojak.store.cancel import flagged_of
from ojak.store.database import QueueDatabase
from ojak.store.holds import count_paused_senders
from ojak.store.host_settings import count_paused, mend_settings, settings_of
from ojak.worker.flights import Flights
from ojak.worker.held import Held
from ojak.worker.lanes import Lanes
from ojak.worker.standings import Standings

_log = logging.getLogger("ojak.worker.notices")

_EVERY_S: Final = 1.0


class Notices:
    """Looks for notices each second, and at once when told to.

    Args:
        db: the queue.
        owner: the stamp of this `run()`.
        clock: for deadlines.
        lease_s: the length of a job's lease.
        place_s: for how long a place among the living is kept, unless renewed: so long a pause waits for us.
        held, lanes, standings, flights: what notices are about.
        on_cancelled: called with the ids of what is leased here, cancelled, and not known to have begun; each takes
            what it knows.
        claims_ended: waits for the claims of deliveries that are under way; gives whether they have ended.
        on_changed: called when there may be work that was held.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        owner: bytes,
        clock: Clock,
        lease_s: float,
        place_s: float,
        held: Held,
        lanes: Lanes,
        standings: Standings,
        flights: Flights,
        on_cancelled: Sequence[Callable[[set[bytes]], Awaitable[None]]],
        claims_ended: Callable[[], Awaitable[bool]],
        on_changed: Callable[[], None],
    ) -> None:
        self._db = db
        self._owner = owner
        self._clock = clock
        self._lease_s = lease_s
        self._trusted_s = place_s * 8 / 9
        self._held = held
        self._lanes = lanes
        self._standings = standings
        self._flights = flights
        self._on_cancelled = on_cancelled
        self._claims_ended = claims_ended
        self._on_changed = on_changed
        self._asked = asyncio.Event()
        self._cancels_seen = -1
        self._settings_done = -1
        self._look_until_s = 0.0
        self._waited_for_until_s = 0.0
        # How often our place lapsed, and the lapse after which what is paused was looked at.
        self._lapses = 0
        self._looked_after = -1
        self._paused = False

    @property
    def paused(self) -> bool:
        """Whether everything is paused, as far as is known here: nothing is claimed."""
        return self._paused

    @property
    def may_begin(self) -> bool:
        """Whether requests may begin: not everything is paused, and no pause was made that did not wait for us.

        A process that was stopped, or cut off from the database, loses its place among the living. Once it has it back,
        it has to look what was paused meanwhile before it begins anything.
        """
        return (
            not self._paused and self._looked_after == self._lapses and self._clock.boot_s() < self._waited_for_until_s
        )

    def renewed(self, *, asked_at_s: float) -> None:
        """Our place among the living was renewed."""
        if asked_at_s >= self._waited_for_until_s:
            self._lapses += 1
            self._asked.set()
        self._waited_for_until_s = asked_at_s + self._trusted_s

    def look(self) -> None:
        """There may be a notice."""
        self._asked.set()

    async def start(self, join: Callable[[], Awaitable[None]]) -> None:
        """Take our place among the living by `join`, and take note of what there is before anything is claimed."""
        await mend_settings(self._db)
        self._waited_for_until_s = self._clock.boot_s() + self._trusted_s
        await join()
        # From here on whoever pauses waits for us.
        seen = await store.read_notices(self._db)
        self._take_pause(seen)
        await self._flights.keep_to_holds()
        self._settings_done = seen.settings
        await store.say_known(self._db, self._owner, seen.settings)
        self._looked_after = self._lapses
        if count := await count_paused(self._db):
            _log.warning("hosts are paused", extra={"count": count})
        if count := await count_paused_senders(self._db):
            _log.warning("senders are paused", extra={"count": count})

    async def step(self) -> None:
        """Wait for a notice, a second at most, and do what it asks for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EVERY_S):
                await self._asked.wait()
        self._asked.clear()
        lapses = self._lapses
        seen = await store.read_notices(self._db)
        if await self._look_for_settings(seen, lapsed=lapses != self._looked_after):
            self._looked_after = lapses
        await self._look_for_cancelled(seen)

    def _take_pause(self, seen: store.Notices) -> None:
        if seen.paused is self._paused:
            return
        self._paused = seen.paused
        if self._paused:
            _log.warning("everything is paused; nothing is sent")
        else:
            _log.info("the pause of everything is over")
            self._on_changed()

    async def _look_for_settings(self, seen: store.Notices, *, lapsed: bool) -> bool:
        """Do what notices of settings ask for; gives whether that is done."""
        # First, so that no claim begins any more that would have to be waited for.
        self._take_pause(seen)
        if seen.settings == self._settings_done and not lapsed:
            return True
        await self._flights.keep_to_holds()
        # A claim that was under way read its hosts before the notice. Every later one finds what it is about.
        if not await self._claims_ended():
            self._asked.set()
            return False
        if self._paused:
            await self._flights.halt()
        found = await settings_of(self._db, self._lanes.names())
        for name, settings in found.items():
            self._standings.override(name, settings.overrides)
            self._lanes.set_slots(name, self._standings.slots(name))
        if paused := {name for name, settings in found.items() if settings.paused}:
            await self._flights.halt(paused)
        await store.say_known(self._db, self._owner, seen.settings)
        self._settings_done = seen.settings
        self._on_changed()
        return True

    async def _look_for_cancelled(self, seen: store.Notices) -> None:
        if seen.cancels != self._cancels_seen:
            # What is being claimed at this moment may be flagged and not be here yet: look for as long as a lease.
            self._cancels_seen, self._look_until_s = seen.cancels, self._clock.boot_s() + self._lease_s
        if self._clock.boot_s() < self._look_until_s and (held := self._held.ids()):
            flagged = await flagged_of(self._db, held)
            for cancel in self._on_cancelled:
                await cancel(flagged)
