# SPDX-License-Identifier: Apache-2.0
"""Renewing leases, in blocking calls for a thread with its own connection: a busy event loop cannot starve it."""

from collections.abc import Iterable, Mapping

from pymongo import MongoClient

from ojak.breaker.admission import BreakerScope, Probe
from ojak.store.breakers import RECOMPUTED, by_stamp, hold_stages, holding
from ojak.store.database import Document, QueueDatabase, twin
from ojak.store.shards import DEAD_KEPT_S


class Renewals:
    """The renewing half of a queue's database. Made in the thread that uses it."""

    def __init__(self, db: QueueDatabase) -> None:
        self._client: MongoClient[Document] = twin(db.client)
        database = self._client.get_database(
            db.name, codec_options=db.jobs.codec_options, write_concern=db.jobs.write_concern
        )
        self._jobs = database[db.jobs.name]
        self._hosts = database[db.hosts.name]
        self._breakers = database[db.breakers.name]
        self._shards = database[db.shards.name]
        self._workers = database[db.workers.name]
        self._now = db.now

    def renew_jobs(self, leases: Mapping[bytes, Iterable[bytes]], *, lease_s: float) -> set[bytes]:
        """Renew the leases of jobs, given by the stamp; gives the ids that are held no longer."""
        held: set[bytes] = set()
        asked: set[bytes] = set()
        for stamp, ids in leases.items():
            rows = list(ids)
            asked.update(bytes(row_id) for row_id in rows)
            mine = {"_id": {"$in": rows}, "state": "leased", "lease.stamp": stamp}
            result = self._jobs.update_many(mine, [{"$set": {"lease.until": self._now.plus(lease_s)}}])
            if result.matched_count == len(rows):
                held.update(bytes(row_id) for row_id in rows)
            else:
                # The set counts, not the number: whose lease was taken must be known by name.
                held.update(bytes(row["_id"]) for row in self._jobs.find(mine, {"_id": 1}))
        return asked - held

    def renew_probes(self, probes: Iterable[Probe], *, hold_s: float, scope: BreakerScope) -> set[str]:
        """Renew the probes of breakers in this database; gives the keys of those that are held still."""
        of_hosts = scope is BreakerScope.HOST
        rows = self._hosts if of_hosts else self._breakers
        held: set[str] = set()
        for stamp, keys in by_stamp(probes).items():
            stages = [*hold_stages(self._now, hold_s), *(RECOMPUTED if of_hosts else [])]
            rows.update_many(holding(keys, stamp), stages)
            held.update(row["_id"] for row in rows.find(holding(keys, stamp), {"_id": 1}))
        return held

    def renew_shards(self, owner: bytes, *, lease_s: float) -> dict[int, int]:
        """Renew every shard of `owner` and its place among the living; gives the epochs of what it still holds."""
        mine = {"owner": owner}
        self._shards.update_many(mine, [{"$set": {"until": self._now.plus(lease_s)}}])
        # A living `run()` that was reported dead keeps its place: it gave up nothing that it did not lose.
        self._workers.update_one(
            {"_id": owner, "dead": {"$ne": True}},
            [{"$set": {"until": self._now.plus(lease_s), "expire_at": self._now.plus(DEAD_KEPT_S)}}],
        )
        return {row["_id"]: row["epoch"] for row in self._shards.find(mine, {"epoch": 1})}

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()
