# SPDX-License-Identifier: Apache-2.0
from collections.abc import Awaitable, Callable, Sequence

import pytest

from ojak.model.activity import activity_of
from ojak.model.inbox import canonical_inbox
from ojak.model.job import Priority
from ojak.store.bodies import put_body
from ojak.store.database import QueueDatabase
from ojak.store.enqueue import Enqueued, NewJob, enqueue

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
    ) -> list[Enqueued]:
        activity = activity_of({"id": activity_id, "type": "Like", "summary": note}, max_bytes=1 << 20)
        await put_body(db, activity, sender="https://a.test/u", kept_s=60)
        jobs = []
        for url in inboxes:
            inbox = canonical_inbox(url)
            jobs.append(NewJob(authority=inbox.authority, inbox=inbox.url, shared=False, ref=None))
        answers: list[Enqueued] = []
        async for _, chunk in enqueue(
            db,
            jobs,
            activity_identity=activity.identity,
            body=activity.key,
            sender="https://a.test/u",
            priority=priority,
        ):
            answers.extend(chunk)
        return answers

    return put
