# SPDX-License-Identifier: Apache-2.0
"""Settle: outcomes become ends or retries, in batches, each row matched by its id and its lease's stamp.

What no longer matches was taken by somebody else, and its outcome is dropped: a bulk answers only counts, so the rows
that do not show the write are read back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from pymongo import UpdateOne

from ojak.model.failover import Tried
from ojak.model.job import Job
from ojak.model.outcome import FailureReason, SettledOutcome
from ojak.store.database import Document, QueueDatabase
from ojak.store.ends import expiry_unless_owing
from ojak.store.gateways import tried_documents
from ojak.store.hosts import Due, lower_due
from ojak.store.leaving import to_queue
from ojak.store.order import promote


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A job that is done with.

    Attributes:
        job: as it was leased.
        outcome: how it ended.
        spent: whether its last attempt counts.
        status, reason, scheme: of the last attempt.
        detail: what the operator should see of a refusal: Location, the first bytes of the answer.
        maybe_delivered: the inbox may have it although the last attempt failed.
        tried: of a portable inbox: what its gateways came to in the last attempt, but the one that accepted.
    """

    job: Job
    outcome: SettledOutcome | FailureReason
    spent: bool
    status: int | None
    reason: str
    scheme: str | None
    detail: str = ""
    maybe_delivered: bool = False
    tried: tuple[Tried, ...] = ()

    @property
    def attempts(self) -> int:
        """Attempts spent on it in all."""
        return self.job.tries + self.spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """A job that goes back to the queue.

    Attributes:
        job: as it was leased.
        delay_s: when it may run again, from now.
        spent: whether the attempt counts.
        status, reason, scheme: of the attempt.
        maybe_delivered: the inbox may have it although the attempt failed.
        tried: of a portable inbox: what its gateways came to in the attempt, if that is over.
    """

    job: Job
    delay_s: float
    spent: bool
    status: int | None
    reason: str
    scheme: str | None
    maybe_delivered: bool = False
    tried: tuple[Tried, ...] = ()


def without_attempt(job: Job, outcome: SettledOutcome | FailureReason, reason: str) -> Ended:
    """An end that no attempt led to."""
    tried = job.route.tried if job.route is not None else ()
    return Ended(job=job, outcome=outcome, spent=job.has_begun, status=None, reason=reason, scheme=None, tried=tried)


async def write_ends(db: QueueDatabase, ends: Sequence[Ended], *, tell: bool, kept_s: float) -> set[bytes]:
    """Write ends; gives the ids of those that were stored.

    Args:
        db: the queue.
        ends: what ended.
        tell: whether somebody wants to be told; if not, the row expires from now on.
        kept_s: how long a finished row stays.
    """
    stored: set[bytes] = set()
    # Alike ends make one statement: most of a batch are deliveries with one status and scheme.
    for _, group in groupby(sorted(ends, key=_likeness), key=_likeness):
        alike = list(group)
        stored |= await _write_alike(db, alike, tell=tell, kept_s=kept_s)
    # After the ends stand: whoever is queued behind one of them from now on sees it ended.
    await promote(db, [end.job.order for end in ends if end.job.order is not None and end.job.id in stored])
    return stored


def _likeness(end: Ended) -> tuple[str, int, str, str, bool, bool, str, str]:
    return (
        end.outcome,
        end.status or 0,
        end.reason,
        end.scheme or "",
        end.spent,
        end.maybe_delivered,
        end.detail,
        repr(end.tried) if end.tried else "",
    )


async def _write_alike(db: QueueDatabase, ends: Sequence[Ended], *, tell: bool, kept_s: float) -> set[bytes]:
    first = ends[0]
    last: Document = {
        "status": first.status,
        "reason": {"$literal": first.reason},
        "scheme": first.scheme,
        # What shows later that it was this lease's outcome that was written.
        "stamp": "$lease.stamp",
    }
    if first.detail:
        last["detail"] = {"$literal": first.detail}
    if first.tried:
        last["tried"] = {"$literal": tried_documents(first.tried)}
    fields: Document = {
        "state": first.outcome.value,
        "end": {"$add": [{"$ifNull": ["$end", 0]}, 1]},
        "told": not tell,
        "finished_at": db.now.expr,
        "last": last,
    }
    if first.spent:
        fields["tries"] = {"$add": ["$tries", 1]}
    if first.maybe_delivered:
        fields["maybe"] = {"$add": [{"$ifNull": ["$maybe", 0]}, 1]}
    if not tell:
        fields["expire_at"] = expiry_unless_owing(db, kept_s=kept_s)
    by_stamp = _by_stamp(end.job for end in ends)
    branches = [_leased(ids, stamp) for stamp, ids in by_stamp.items()]
    result = await db.jobs.update_many(
        branches[0] if len(branches) == 1 else {"$or": branches}, [{"$set": fields}, {"$unset": ["lease", "tried"]}]
    )
    if result.matched_count == len(ends):
        return {end.job.id for end in ends}
    return await _showing(db, by_stamp, first.outcome.value)


async def write_retries(db: QueueDatabase, retries: Sequence[Retried]) -> set[bytes]:
    """Put jobs back for a later attempt, then say when their hosts are due; gives the ids of those that were stored.

    What was cancelled meanwhile ends instead.
    """
    updates = [
        UpdateOne(
            _leased([retry.job.id], retry.job.stamp),
            to_queue(
                db,
                {
                    "run_at": db.now.plus(retry.delay_s),
                    "tries": {"$add": ["$tries", int(retry.spent)]},
                    "maybe": {"$add": [{"$ifNull": ["$maybe", 0]}, int(retry.maybe_delivered)]},
                    "last": {
                        "$literal": {
                            "status": retry.status,
                            "reason": retry.reason,
                            "scheme": retry.scheme,
                            "stamp": retry.job.stamp,
                            **({"tried": tried_documents(retry.tried)} if retry.tried else {}),
                        }
                    },
                },
            ),
        )
        for retry in retries
    ]
    result = await db.jobs.bulk_write(updates, ordered=False)
    stored = {retry.job.id for retry in retries}
    if result.matched_count != len(stored):
        stored = await _showing(db, _by_stamp(retry.job for retry in retries), "queued", SettledOutcome.CANCELLED.value)
    await lower_due(
        db,
        [
            Due(authority=retry.job.lane, priority=retry.job.priority, delay_s=retry.delay_s)
            for retry in retries
            if retry.job.id in stored
        ],
    )
    # Of those that were cancelled while they were on the wire.
    await promote(db, [retry.job.order for retry in retries if retry.job.order is not None and retry.job.id in stored])
    return stored


def _by_stamp(jobs: Iterable[Job]) -> dict[bytes, list[bytes]]:
    by_stamp: dict[bytes, list[bytes]] = {}
    for job in jobs:
        by_stamp.setdefault(job.stamp, []).append(job.id)
    return by_stamp


def _leased(ids: Sequence[bytes], stamp: bytes) -> Document:
    return {"_id": {"$in": list(ids)}, "state": "leased", "lease.stamp": stamp}


async def _showing(db: QueueDatabase, by_stamp: Mapping[bytes, Sequence[bytes]], *states: str) -> set[bytes]:
    """Which rows show a write made under their stamp; the others were taken before it."""
    shows = {"state": {"$in": states}}
    branches = [{"_id": {"$in": list(ids)}, "last.stamp": stamp, **shows} for stamp, ids in by_stamp.items()]
    return {row["_id"] async for row in db.jobs.find({"$or": branches}, {"_id": 1})}
