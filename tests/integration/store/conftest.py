# SPDX-License-Identifier: Apache-2.0
from collections.abc import Awaitable, Callable, Sequence

import pytest

from ojak.model.activity import activity_of
from ojak.model.inbox import canonical_inbox
from ojak.model.job import Priority
from ojak.store.database import QueueDatabase
from ojak.store.enqueue import Enqueued, NewJob, enqueue
from ojak.store.handover import hand_over

Put = Callable[..., Awaitable[list[Enqueued]]]


@pytest.fixture
def put(db: QueueDatabase) -> Put:
    """Queue an activity to inboxes, as `send` does."""

    async def put(
        inboxes: Sequence[str],
        *,
        activity_id: str = "https://a.test/1",
        priority: Priority = Priority.FANOUT,
        note: str = "",
        kind: str = "Like",
        about: object = None,
        sender: str = "https://a.test/u",
        order_key: str | None = None,
    ) -> list[Enqueued]:
        content = {"id": activity_id, "type": kind, "summary": note} | ({} if about is None else {"object": about})
        activity = activity_of(content, max_bytes=1 << 20)
        handover = await hand_over(db, activity, sender=sender, priority=priority, kept_s=60, order_key=order_key)
        jobs = []
        for url in inboxes:
            inbox = canonical_inbox(url)
            jobs.append(NewJob(authority=inbox.authority, inbox=inbox.url, shared=False, ref=None))
        answers: list[Enqueued] = []
        async for _, chunk in enqueue(db, jobs, handover):
            answers.extend(chunk)
        return answers

    return put
