# SPDX-License-Identifier: Apache-2.0
"""A worker that owns every shard, one statement at a time."""

import secrets
from collections.abc import Sequence

from ojak.model.job import Job, Priority
from ojak.model.outcome import FailureReason, SettledOutcome
from ojak.shard import SHARDS
from ojak.store.claim import claim, ready_hosts
from ojak.store.database import QueueDatabase
from ojak.store.met import Behind
from ojak.store.settle import Ended, Retried, write_ends, write_retries
from ojak.store.shards import owned, take


class Hand:
    """Claims, ends and retries by hand."""

    def __init__(self, db: QueueDatabase) -> None:
        self.db = db
        self.owner = secrets.token_bytes(16)

    async def claim(
        self,
        priority: Priority = Priority.FANOUT,
        *,
        lease_s: float = 120,
        share: int = 100,
        behind: Behind | None = None,
        probed: Sequence[str] = (),
    ) -> list[Job]:
        """Lease everything that can be leased now."""
        await take(self.db, self.owner, count=SHARDS, lease_s=45)
        hosts = await ready_hosts(self.db, shards=range(SHARDS), priority=priority, busy=[], quick=100, others=100)
        if not hosts:
            return []
        claimed = await claim(
            self.db,
            hosts,
            owner=self.owner,
            stamp=secrets.token_bytes(16),
            epochs=await owned(self.db, self.owner),
            priority=priority,
            share=lambda host, foreign: share,
            behind=behind,
            probed=probed,
            lease_s=lease_s,
            max_age_s=86_400,
        )
        return [job for item in claimed for job in item.jobs]

    async def end(self, *jobs: Job, outcome: SettledOutcome | FailureReason = SettledOutcome.DELIVERED) -> None:
        """End leased jobs."""
        ends = [Ended(job=job, outcome=outcome, spent=True, status=202, reason="", scheme="cavage") for job in jobs]
        assert len(await write_ends(self.db, ends, tell=False, kept_s=60)) == len(jobs)

    async def retry(self, *jobs: Job, delay_s: float = 60.0) -> None:
        """Put leased jobs back for later."""
        retries = [
            Retried(job=job, delay_s=delay_s, spent=True, status=503, reason="status-503", scheme="cavage")
            for job in jobs
        ]
        assert len(await write_retries(self.db, retries)) == len(jobs)

    async def states(self) -> dict[str, str]:
        """The state of each delivery, by the last part of its activity's id and its inbox."""
        return {
            f"{row['activity'].rpartition('/')[2]} {row['inbox'].rpartition('/')[2]}": row["state"]
            async for row in self.db.jobs.find()
        }
