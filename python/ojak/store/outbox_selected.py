# SPDX-License-Identifier: Apache-2.0
"""What of a selection still waits in the outbox: queued before it is cancelled, since its end is to be told too."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from ojak.errors import QueueUnavailable, StoreError
from ojak.model.selection import Cancelled, Selection
from ojak.store.cancel import Cancelling, cancel, cancel_selected
from ojak.store.database import Document, QueueDatabase
from ojak.store.outbox_queue import queue_row, queue_what_is_about
from ojak.store.outbox_rows import Head, count_newer, waiting_heads
from ojak.store.trouble import DRIVER_ERRORS

_AT_A_TIME: Final = 100


async def cancel_with_outbox(
    db: QueueDatabase,
    selection: Selection,
    *,
    kept_s: float,
    on_waiting: Callable[[int], None] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Cancelled:
    """Do as `cancel`, also for every send of a selection that waits in the outbox.

    Each is queued, with what was handed over before it about the same, and ends like everything else: after every
    page, so that workers do not come to the first while the last is being queued. A worker that is in the middle of one
    goes on, and finds its rows standing: whatever became of them stays.

    Args:
        db: the queue.
        selection: what.
        kept_s: how long a delivery queued now can need its activity.
        on_waiting: as for `cancel`.
        on_progress: likewise.

    Raises:
        StoreError: the database refused to queue something, or did not answer, or a later version wrote something of
            it. The rest is cancelled.
    """
    done = Cancelling()
    # What waits now, and not what comes meanwhile: that is a later send.
    heads = [head async for head in waiting_heads(db, where=_rows_of(selection))]
    refused: Exception | None = None
    for start in range(0, len(heads), _AT_A_TIME):
        if start:
            await cancel_selected(db, selection, on_progress=on_progress, done=done)
        try:
            refused = await _queue_page(db, heads[start : start + _AT_A_TIME], kept_s=kept_s) or refused
        except (QueueUnavailable, *DRIVER_ERRORS) as error:
            refused = error
            break
    cancelled = await cancel(db, selection, on_waiting=on_waiting, on_progress=on_progress, done=done)
    if refused is not None:
        raise refused
    if newer := await count_newer(db, where=_rows_of(selection)):
        raise StoreError(
            f"{newer} of the sends that wait in the outbox were written by a later version and are not cancelled;"
            " everything else is: cancel them with that version"
        )
    return cancelled


async def _queue_page(db: QueueDatabase, heads: Sequence[Head], *, kept_s: float) -> StoreError | None:
    """Queue what can be; gives what the database refused something else with."""
    refused: StoreError | None = None
    for head in heads:
        try:
            if head.about:
                await queue_what_is_about(db, head.about, kept_s=kept_s)
            else:
                await queue_row(db, head.row_id, kept_s=kept_s)
        except QueueUnavailable:
            raise
        except StoreError as error:
            refused = error
    return refused


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
