# SPDX-License-Identifier: Apache-2.0
"""Selected rows, in pages: by activity, object and sender through the bodies, by host and batch through an index.

What is read grows with what the selection names, not with the queue.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from ojak.model.job import UNFINISHED
from ojak.model.kind import DELIVERY, lanes_of
from ojak.model.selection import Selection
from ojak.store.batches import FAILED
from ojak.store.database import Document, QueueDatabase

_BODIES_AT_A_TIME: Final = 100
_FIELDS: Final = {"state": 1, "order": 1, "lane": 1, "body": 1, "priority": 1, "gateways": 1}

ENDED_INDEX: Final = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSelection:
    """Which jobs of other kinds: one, by the id of its row, or all of a kind."""

    job: bytes | None = None
    kind: str | None = None

    def rows(self) -> Document:
        """The filter that finds them; answered by an index beside a state."""
        if self.job is not None:
            return {"kind": {"$ne": DELIVERY}, "_id": self.job}
        return {"lane": {"$in": list(lanes_of(self.kind or ""))}}


async def selected(
    db: QueueDatabase, selection: Selection | JobSelection, where: Document, *, at_a_time: int
) -> AsyncIterator[list[Document]]:
    """The rows of a selection that match `where`, each once, in pages of at most so many.

    A row that moves into `where` while this is read may be missed: read again until nothing comes.
    """
    async for rows in _filters(db, selection, where):
        page: list[Document] = []
        async for row in db.jobs.find({**where, **rows}, _FIELDS):
            page.append(row)
            if len(page) == at_a_time:
                yield page
                page = []
        if page:
            yield page


async def _filters(db: QueueDatabase, selection: Selection | JobSelection, where: Document) -> AsyncIterator[Document]:
    """Filters over jobs that together are the selection, each answered by an index."""
    if isinstance(selection, JobSelection):
        yield selection.rows()
        return
    if selection.host is not None:
        rows: Document = {"lane": selection.host}
        if where["state"].get("$in") and not set(where["state"]["$in"]) & set(UNFINISHED):
            # The index is known to hold the rows only if its own filter stands in the query, word for word.
            rows["$and"] = [{"state": {"$in": list(FAILED)}}]
        yield rows
        return
    if selection.batch is not None:
        yield {"batch": selection.batch}
        return
    async for keys in _bodies(db, selection):
        rows = {"body": {"$in": keys}}
        if selection.sender is not None:
            rows["sender"] = selection.sender
        yield rows


async def _bodies(db: QueueDatabase, selection: Selection) -> AsyncIterator[Sequence[bytes]]:
    if selection.activity is not None:
        where: Document = {"activity": selection.activity}
    elif selection.object is not None:
        where = {"object": selection.object}
    else:
        where = {"senders": selection.sender}
    keys: list[bytes] = []
    async for row in db.bodies.find(where, {"_id": 1}):
        keys.append(row["_id"])
        if len(keys) == _BODIES_AT_A_TIME:
            yield keys
            keys = []
    if keys:
        yield keys
