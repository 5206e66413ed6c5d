# SPDX-License-Identifier: Apache-2.0
"""What can never be queued of the outbox: set aside with its reason, and each of its deliveries ended and told.

The application was answered `pending` and nobody is there to be told of a refusal when its row is queued. So each
inbox gets a row that has ended, by the same road as every end (rule E). Their ids come from the outbox row and the
inbox: whoever does it again after a crash writes nothing twice.
"""

import logging
from typing import Any, Final

from pymongo import InsertOne
from pymongo.errors import BulkWriteError

from ojak.errors import QueueUnavailable
from ojak.model.job import job_id
from ojak.model.kind import DELIVERY
from ojak.model.outcome import FailureReason
from ojak.store.bodies import NEW_SEQ
from ojak.store.database import Document, QueueDatabase
from ojak.store.enqueue import NewJob
from ojak.store.outbox import Pending
from ojak.store.outbox_rows import Unreadable
from ojak.store.outbox_state import PARKED, WAITING

_log = logging.getLogger("ojak.store.outbox_parked")

_KEPT_S: Final = 30 * 86_400.0
_AT_A_TIME: Final = 1000
_REASON_MAX: Final = 200
_DUPLICATE_KEY: Final = 11000


async def park_send(db: QueueDatabase, send: Pending, *, reason: str, detail: str) -> None:
    """Park a send that can never be queued: its deliveries end as `parked`, which is told, and then its row is.

    Args:
        db: the queue.
        send: what.
        reason: the word that its ends are told with.
        detail: the sentence for people.
    """
    if await db.outbox.find_one({"_id": send.row_id, "state": WAITING}, {"_id": 1}) is None:
        # Somebody else queued or parked it meanwhile.
        return
    for start in range(0, len(send.jobs), _AT_A_TIME):
        await _end(db, send, send.jobs[start : start + _AT_A_TIME], {"reason": reason, "detail": detail[:_REASON_MAX]})
    await park(db, Unreadable(row_id=send.row_id, reason=detail))


async def _end(db: QueueDatabase, send: Pending, jobs: tuple[NewJob, ...], last: Document) -> None:
    ids = [job_id(send.activity.identity, job.inbox) for job in jobs]
    # What was queued before it went wrong ends by itself.
    queued = {row["_id"] async for row in db.jobs.find({"_id": {"$in": ids}, "outbox_row": send.row_id}, {"_id": 1})}
    now = await db.server_time()
    rows = [_row(send, job, last, now) for row_id, job in zip(ids, jobs, strict=True) if row_id not in queued]
    if not rows:
        return
    try:
        await db.jobs.bulk_write([InsertOne(row) for row in rows], ordered=False)
    except BulkWriteError as error:
        details: Any = error.details or {}
        # What stands already is of an earlier try.
        if details.get("writeConcernErrors") or any(
            failure.get("code") != _DUPLICATE_KEY for failure in details.get("writeErrors", [])
        ):
            raise QueueUnavailable(
                "MongoDB did not confirm by a majority that deliveries have ended; they are ended again later"
            ) from error


def _row(send: Pending, job: NewJob, last: Document, now: object) -> Document:
    row: Document = {
        "_id": job_id(f"outbox:{send.row_id.hex()}", job.inbox),
        "seq": NEW_SEQ,
        "kind": DELIVERY,
        "activity": send.activity.identity,
        # Its own bytes are in the outbox only. By this it is found, and nothing of the activity's other bytes is.
        "body": send.row_id,
        "sender": send.sender,
        "priority": send.priority.value,
        "run_at": now,
        "queued_at": now,
        "tries": 0,
        "deaths": 0,
        "leases": 0,
        **job.row_fields(),
        "state": FailureReason.PARKED.value,
        "end": 1,
        "told": False,
        "finished_at": now,
        "last": last,
    }
    if send.batch is not None:
        row["batch"] = send.batch.tag
    return row


async def park(db: QueueDatabase, row: Unreadable) -> None:
    """Set a row aside that cannot be queued, with its reason."""
    reason = row.reason[:_REASON_MAX]
    _log.error("a row of the outbox is parked", extra={"row": str(row.row_id)[:80], "reason": reason})
    await db.outbox.update_one(
        {"_id": {"$eq": row.row_id}, "state": WAITING},
        [
            {
                "$set": {
                    "state": PARKED,
                    "reason": {"$literal": reason},
                    "parked_at": db.now.expr,
                    "expire_at": db.now.plus(_KEPT_S),
                }
            }
        ],
    )
