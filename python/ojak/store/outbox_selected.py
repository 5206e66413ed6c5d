# SPDX-License-Identifier: Apache-2.0
"""What of a selection still waits in the outbox: queued before it is cancelled, since its end is to be told too."""

import re

from ojak.model.selection import Selection
from ojak.store.database import Document, QueueDatabase
from ojak.store.outbox import queue_head, queue_what_is_about, waiting_heads


async def queue_selected(db: QueueDatabase, selection: Selection, *, kept_s: float) -> None:
    """Queue every send of a selection that waits in the outbox, and what was handed over before it about the same.

    A worker that is in the middle of one goes on, and finds its rows standing: whatever became of them stays.

    Args:
        db: the queue.
        selection: what.
        kept_s: how long a delivery queued now can need its activity.

    Raises:
        StoreError: the database refused, or did not answer.
    """
    # What waits now, and not what comes meanwhile: that is a later send.
    for head in await waiting_heads(db, where=_rows_of(selection)):
        if head.about:
            await queue_what_is_about(db, head.about, kept_s=kept_s)
        else:
            await queue_head(db, head, kept_s=kept_s)


def _rows_of(selection: Selection) -> Document:
    if selection.activity is not None:
        return {"activity_id": selection.activity}
    if selection.object is not None:
        return {"object": selection.object}
    if selection.sender is not None:
        return {"sender": selection.sender}
    if selection.batch is not None:
        return {"batch.tag": selection.batch}
    # Canonical, so that the host stands there as it does in the selection.
    at_host = {"$regex": f"^https?://{re.escape(selection.host or '')}(/|$)"}
    return {"$or": [{"inboxes.url": at_host}, {"inboxes.gateways": at_host}]}
