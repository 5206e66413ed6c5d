# SPDX-License-Identifier: Apache-2.0
"""Enqueue: one activity's deliveries become rows, each once, and their hosts become due."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pymongo import UpdateOne

from ojak.model.failover import start_at
from ojak.model.job import UNFINISHED, Priority, job_id
from ojak.model.kind import DELIVERY
from ojak.model.order import order_of
from ojak.model.outcome import SentState, SettledOutcome
from ojak.model.portable import Gateway
from ojak.store.bodies import NEW_SEQ
from ojak.store.database import Document, QueueDatabase
from ojak.store.gateways import holds_of
from ojak.store.handover import Handover
from ojak.store.hosts import Due, lower_due
from ojak.store.insert import insert_new
from ojak.store.order import orders_in_use, promote
from ojak.store.outbox_state import WAITING
from ojak.store.revival import revival
from ojak.store.supersede import drop_taken_back

FIRST_CHUNK: Final = 50
"""The first rows go in alone, so that sending starts while the rest is still being written."""
CHUNK: Final = 1000

_UNCONFIRMED: Final = (
    "MongoDB did not confirm the deliveries by a majority; what was queued is unknown: send again, which queues nothing"
    " twice"
)
_ENDS_THAT_STAND: Final = frozenset({SettledOutcome.DELIVERED, SettledOutcome.REFUSED})
"""Ends after which a new send queues nothing: the inbox has it, or refused it for good (SPEC section 2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A delivery to queue: a canonical inbox and what the application said of it.

    Attributes:
        authority: the host whose lane it goes to; of a portable inbox that of the gateway which is tried first.
        inbox: the canonical URL, or of a portable inbox its id.
        shared: whether it is a shared inbox.
        ref: the application's reference for it.
        gateways: of a portable inbox: who takes deliveries to it, in order.
        place: which of them is tried first.
    """

    authority: str
    inbox: str
    shared: bool
    ref: str | None
    gateways: tuple[Gateway, ...] = ()
    place: int = 0

    def row_fields(self) -> Document:
        """The fields that are its row's own."""
        fields: Document = {
            "dest": self.authority,
            "lane": self.authority,
            "inbox": self.inbox,
            "shared": self.shared,
            "ref": self.ref,
        }
        if self.gateways:
            fields["dest"] = self.inbox
            fields["gateways"] = [gateway.origin for gateway in self.gateways]
            fields["at"] = self.place
            if len(self.gateways) > 1:
                fields["portable"] = True
        return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """What became of one delivery: its state, and how it had ended if it had."""

    state: SentState
    outcome: SettledOutcome | None = None


async def enqueue(
    db: QueueDatabase, jobs: Sequence[NewJob], handover: Handover
) -> AsyncIterator[tuple[Sequence[NewJob], Sequence[Enqueued]]]:
    """Queue deliveries in chunks; after each yield the chunk's rows stand and their hosts are due.

    A repetition after an error is safe: every row's id comes from activity and inbox.

    Raises:
        QueueUnavailable: the majority did not confirm. What was written is unknown; repeat the call.
    """
    start = 0
    while start < len(jobs):
        chunk = jobs[start : start + (CHUNK if start else FIRST_CHUNK)]
        start += len(chunk)
        if any(job.gateways for job in chunk):
            chunk = await _placed(db, chunk)
        rows = await _rows(db, chunk, handover)
        answers, blocked = await _insert(db, rows)
        freed: list[bytes] = []
        if handover.takes_back:
            # Only by what this call queued: a Delete that stood already is older than a post published again since.
            inboxes = [job.inbox for job, answer in zip(chunk, answers, strict=True) if answer.state is SentState.NEW]
            freed = await drop_taken_back(db, handover.takes_back, sender=handover.sender, inboxes=inboxes)
        # After the rows, and also for those that stood already: whoever queued them may have died before this step.
        await lower_due(
            db,
            [
                # What stood already may be in another line, and if it is portable in the lane of another gateway.
                Due(authority=rows[place]["lane"], priority=Priority(rows[place]["priority"]))
                for place, answer in enumerate(answers)
                if answer.state is not SentState.ENDED and place not in blocked
            ],
        )
        await promote(db, [*freed, *(rows[place]["order"] for place in blocked)])
        yield chunk, answers


async def _placed(db: QueueDatabase, chunk: Sequence[NewJob]) -> list[NewJob]:
    """Put portable deliveries into the lanes of their first gateways that are not held."""
    holds = await holds_of(db, {gateway.authority for job in chunk for gateway in job.gateways})
    placed: list[NewJob] = []
    for job in chunk:
        if job.gateways:
            place = start_at([holds[gateway.authority] for gateway in job.gateways])
            placed.append(replace(job, place=place, authority=job.gateways[place].authority))
        else:
            placed.append(job)
    return placed


async def _rows(db: QueueDatabase, chunk: Sequence[NewJob], handover: Handover) -> list[Document]:
    now = await db.server_time()
    shared = handover.row_fields()
    rows: list[Document] = [
        {
            "_id": job_id(handover.activity_identity, job.inbox),
            "seq": NEW_SEQ,
            "kind": DELIVERY,
            "run_at": now,
            "queued_at": now,
            "state": "queued",
            "tries": 0,
            "deaths": 0,
            "leases": 0,
            **job.row_fields(),
            **shared,
        }
        for job in chunk
    ]
    if handover.order_key is None:
        return rows
    for row in rows:
        row["order"] = order_of(handover.order_key, row["inbox"])
    if not handover.alone:
        in_use = await orders_in_use(db, [row["order"] for row in rows])
        for row in rows:
            if row["order"] in in_use:
                row["state"] = "blocked"
    return rows


async def _insert(db: QueueDatabase, rows: Sequence[Document]) -> tuple[list[Enqueued], set[int]]:
    """Insert rows; gives what became of each, and the places of those that are blocked.

    Of those whose id was taken it says what they are a duplicate of, or queues them again.
    """
    answers = [Enqueued(state=SentState.NEW)] * len(rows)
    taken = await _insert_all(db, rows, range(len(rows)))
    blocked = {place for place, row in enumerate(rows) if row["state"] == "blocked"} - taken
    while taken:
        missing: list[int] = []
        ids = [rows[place]["_id"] for place in taken]
        fields = {"state": 1, "end": 1, "order": 1, "lane": 1, "priority": 1, "outbox_row": 1}
        found = {row["_id"]: row async for row in db.jobs.find({"_id": {"$in": ids}}, fields)}
        states = {row_id: row["state"] for row_id, row in found.items()}
        anew = [rows[place] for place in taken if not _is_same_send(rows[place], found.get(rows[place]["_id"]))]
        revived = await _revive(db, anew, found)
        for place in taken:
            row_id = rows[place]["_id"]
            state = states.get(row_id)
            if state is None:
                # It had ended and expired between the two statements: there is nothing to be a duplicate of.
                missing.append(place)
            elif state in _ENDS_THAT_STAND:
                answers[place] = Enqueued(state=SentState.ENDED, outcome=SettledOutcome(state))
            elif row_id in revived:
                if "order" in rows[place]:
                    blocked.add(place)
            else:
                answers[place] = Enqueued(state=SentState.DUPLICATE)
                rows[place]["lane"] = found[row_id].get("lane", rows[place]["lane"])
                priority = found[row_id].get("priority")
                if isinstance(priority, int) and priority in set(Priority):
                    rows[place]["priority"] = priority
                if state == "blocked" and "order" in found[row_id]:
                    # Whoever queued it may have died before he looked what it waits for, under the key it has.
                    rows[place]["order"] = found[row_id]["order"]
                    blocked.add(place)
        taken = await _insert_all(db, rows, missing)
        blocked |= {place for place in missing if rows[place]["state"] == "blocked"} - taken
    return answers, blocked


def _is_same_send(row: Document, found: Document | None) -> bool:
    """Whether the row that stands is of the very send that is being repeated: then its end stands too."""
    return found is not None and "outbox_row" in row and row["outbox_row"] == found.get("outbox_row")


async def _insert_all(db: QueueDatabase, rows: Sequence[Document], places: Sequence[int]) -> set[int]:
    """Insert rows, blocked where another of their order is queued or leased; gives the places whose id was taken."""
    taken, behind = await _insert_new(db, rows, places)
    for place in behind:
        rows[place]["state"] = "blocked"
    return taken | (await _insert_new(db, rows, behind))[0]


async def _insert_new(db: QueueDatabase, rows: Sequence[Document], places: Sequence[int]) -> tuple[set[int], list[int]]:
    """Insert some rows; gives the places whose id was taken, and those that stand behind another of their order."""
    taken, behind = await insert_new(db, [rows[place] for place in places], unconfirmed=_UNCONFIRMED)
    return {places[at] for at in taken}, [places[at] for at in behind]


async def _revive(db: QueueDatabase, rows: Sequence[Document], found: Mapping[bytes, Document]) -> set[bytes]:
    """Queue rows again that ended in a way after which a new send counts; gives the ids that this call revived.

    They become what the new send says of them, blocked at first where they have an order, like what is new and has
    others before it. An end that was not told yet moves to `owed`, so that it is told all the same (rule E).

    Args:
        db: the queue.
        rows: as the new send would have inserted them.
        found: what stands under their ids.
    """
    ended = {
        row["_id"]: row
        for row in rows
        if (before := found.get(row["_id"])) is not None
        and before["state"] not in UNFINISHED
        and before["state"] not in _ENDS_THAT_STAND
    }
    if not ended or not await _still_waits(db, rows[0]):
        return set()
    updates = [
        # The number of the end too: it may have been revived and have ended in the same way since it was read.
        UpdateOne({"_id": row_id, "state": found[row_id]["state"], "end": found[row_id].get("end")}, revival(db, row))
        for row_id, row in ended.items()
    ]
    await db.jobs.bulk_write(updates, ordered=False)
    # A bulk answers only counts: whoever finds the row waiting reads it as a duplicate, which is as true.
    return {
        bytes(row["_id"])
        async for row in db.jobs.find({"_id": {"$in": list(ended)}, "state": {"$in": UNFINISHED}}, {"_id": 1})
    }


async def _still_waits(db: QueueDatabase, row: Document) -> bool:
    """Whether the send that a row is of is still to be queued.

    One from the outbox may have been queued by somebody else meanwhile, and have ended. Where it found its deliveries
    standing, those keep no mark of it. Asked after they were read: so what is revived had ended before that.
    """
    if "outbox_row" not in row:
        return True
    return await db.outbox.find_one({"_id": row["outbox_row"], "state": WAITING}, {"_id": 1}) is not None
