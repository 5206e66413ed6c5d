# SPDX-License-Identifier: Apache-2.0
"""What a claim meets of held senders and inboxes: it is set aside from the queue, and more of it in the same lane."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ojak.model.job import Priority
from ojak.store.aside import set_aside_queued
from ojak.store.database import Document, QueueDatabase
from ojak.store.lane import LaneHead
from ojak.store.now import EPOCH

Behind = Callable[[str, str, bytes | None], bytes | None]
"""Tells for a sender, an inbox and the mark of a scout which hold a row is to be set aside behind, if any."""

_FURTHER: Final = 1000
"""So many rows of a lane are looked through where one was met: else a sender's backlog would be met a few at a time,
and what stands behind it would wait for all of it."""


def behind_of(row: Document, behind: Behind) -> bytes | None:
    """The hold that a row is to be set aside behind; None if there is none, or the row cannot be read."""
    sender, inbox, scout = row.get("sender"), row.get("inbox"), row.get("scout")
    if not isinstance(sender, str) or not isinstance(inbox, str):
        return None
    return behind(sender, inbox, scout if isinstance(scout, bytes) else None)


async def set_aside_met(
    db: QueueDatabase,
    lanes: Mapping[str, LaneHead],
    more: Iterable[Document],
    *,
    priority: Priority,
    behind: Behind,
) -> int:
    """Set aside what was read at the head of lanes and is held; gives how many rows.

    Args:
        db: the queue.
        lanes: their heads; what is held is taken out of them, and they are due again now.
        more: further rows that are held.
        priority: the line that the heads are of.
        behind: tells what is held.
    """
    rows: dict[bytes, list[bytes]] = {}
    for row in more:
        if (hold := behind_of(row, behind)) is not None:
            rows.setdefault(hold, []).append(row["_id"])
    for lane, head in lanes.items():
        met = [row for row in head.picked if behind_of(row, behind) is not None]
        if not met:
            continue
        met_ids = {row["_id"] for row in met}
        head.picked = [row for row in head.picked if row["_id"] not in met_ids]
        head.next_at = head.read_at = met[0]["read_at"]
        for row in await _front_of(db, lane, priority):
            if (hold := behind_of(row, behind)) is not None:
                rows.setdefault(hold, []).append(row["_id"])
    return await set_aside_queued(db, rows) if rows else 0


async def _front_of(db: QueueDatabase, lane: str, priority: Priority) -> list[Document]:
    line = {"state": "queued", "lane": lane, "priority": priority.value, "run_at": {"$gte": EPOCH}}
    fields = {"sender": 1, "inbox": 1, "scout": 1}
    return await db.jobs.find(line, fields).sort([("run_at", 1), ("seq", 1)]).limit(_FURTHER).to_list()
