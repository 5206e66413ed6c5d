# SPDX-License-Identifier: Apache-2.0
"""What a host has shown of itself outside of our deliveries: that it speaks RFC 9421 (SPEC section 4, "Scheme")."""

from collections import OrderedDict
from typing import Final

from ojak.clock import Clock
from ojak.store.database import QueueDatabase
from ojak.store.hosts import expiry, host_lowering
from ojak.store.now import EPOCH

_TOLD: Final = 8192
_TOLD_FOR_S: Final = 3600.0
_RECORDS_MAX: Final = 250_000
"""A hint makes a record of a host that nothing was sent to only while there are fewer: names cost a stranger little."""


class SchemeHints:
    """Writes hints down.

    Args:
        db: the queue.
        clock: for what was told lately.
        kept_s: how long a scheme is remembered.
    """

    def __init__(self, db: QueueDatabase, clock: Clock, *, kept_s: float) -> None:
        self._db = db
        self._clock = clock
        self._kept_s = kept_s
        self._told: OrderedDict[tuple[str, str], float] = OrderedDict()

    async def take(self, authority: str, scheme: str) -> None:
        """Remember a scheme of a host, unless a pair of knocks has shown another within a day.

        What was told within an hour costs nothing: every verified request may be told.
        """
        key = (authority, scheme)
        now_s = self._clock.boot_s()
        if now_s < self._told.get(key, -1.0):
            return
        await self._write(authority, scheme)
        self._told[key] = now_s + _TOLD_FOR_S
        self._told.move_to_end(key)
        if len(self._told) > _TOLD:
            self._told.popitem(last=False)

    async def _write(self, authority: str, scheme: str) -> None:
        now = self._db.now
        known = {
            "$and": [
                {"$eq": ["$scheme.name", scheme]},
                {"$gt": ["$scheme.until", now.plus(self._kept_s / 2)]},
            ]
        }
        kept = {"$or": [{"$gt": ["$scheme.firm_until", now.expr]}, known]}
        hinted = {"name": scheme, "until": now.plus(self._kept_s), "firm_until": EPOCH}
        stage = {"$set": {"scheme": {"$cond": [kept, "$scheme", hinted]}}}
        result = await self._db.hosts.update_one({"_id": authority}, [stage])
        if result.matched_count or await self._db.hosts.estimated_document_count() >= _RECORDS_MAX:
            return
        stages = [*host_lowering(self._db, authority, {}), stage, {"$set": {"expire_at": expiry(self._db)}}]
        await self._db.hosts.update_one({"_id": authority}, stages, upsert=True)
