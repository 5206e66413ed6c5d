# SPDX-License-Identifier: Apache-2.0
"""`QueueControl`: following, explaining, cancelling and replaying what is queued. What `Deliverer` adds is sending."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from os import PathLike

from ojak.config import DelivererConfig
from ojak.errors import ConfigError, InputError, OjakError, shown
from ojak.model.activity import check_text
from ojak.model.batch import BatchProgress
from ojak.model.explanation import DeliveryState, Explanation
from ojak.model.given import check_limit, check_words
from ojak.model.outcome import FailureReason, SettledOutcome
from ojak.model.queue_settings import QueueSettings
from ojak.model.selection import ENDS, REPLAYED, Cancelled, Replayed, Selection
from ojak.shard import SHARDS
from ojak.store.batches import progress_of
from ojak.store.cancel import cancel
from ojak.store.counts import count_by_state, count_waiting_of
from ojak.store.database import QueueDatabase
from ojak.store.embedded import embedded_url
from ojak.store.explain import ALL_STATES, explain, list_deliveries
from ojak.store.migrations.runner import schema_of
from ojak.store.outbox import outbox_used
from ojak.store.outbox_rows import count_outbox
from ojak.store.outbox_selected import cancel_with_outbox
from ojak.store.replay import replay_selected
from ojak.store.setup import set_up
from ojak.store.telling import set_telling, telling_state
from ojak.store.trouble import DRIVER_ERRORS, explained
from ojak.store.wakeups import wake


class QueueControl:
    """What an application or an operator asks of a queue beside sending.

    Args:
        db: the queue.
        config: how long deliveries are kept.
    """

    def __init__(self, db: QueueDatabase, config: DelivererConfig) -> None:
        self._db = db
        self._config = config
        self._ready: asyncio.Future[None] | None = None

    async def follow(self, tag: str, *, failures: int = 100) -> BatchProgress:
        """How far a batch is: counts by state, an estimate of its end, and what failed, with its reasons.

        Args:
            tag: the batch's tag.
            failures: how many failures to list at most, the latest first.

        Raises:
            InputError: an argument is not usable.
            UnknownBatch: no batch with this tag is kept.
        """
        check_text("tag", tag)
        check_limit("failures", failures, least=0)
        await self.set_up()
        async with translated():
            return await progress_of(self._db, tag, failures=failures)

    async def cancel(
        self,
        *,
        activity: str | None = None,
        object: str | None = None,  # noqa: A002 - the name that ActivityStreams has
        sender: str | None = None,
        host: str | None = None,
        batch: str | None = None,
        on_waiting: Callable[[int], None] | None = None,
    ) -> Cancelled:
        """End what is queued of an activity, an object, a sender, a host or a batch. Give exactly one.

        When this returns, no request of it begins any more. One that was on the wire ends as what it comes to. What a
        `send` queues that has not returned yet, or in a transaction that is not committed, is not covered: call again.
        Repeating it is safe.

        Args:
            activity: the id of an activity; of one without an id, what `Sent.activity_id` said.
            object: the id of the object of activities.
            sender: the id of a sender.
            host: a host's name, with its port if it has one.
            batch: the tag of a batch.
            on_waiting: told now and then of how many deliveries are waited for because a worker holds them. If that
                worker is dead and nobody says so, this waits until its leases have run out.

        Raises:
            InputError: not exactly one is given, or it is not usable.
            StoreError: some of what was handed over in a transaction is not ended and may be sent, since the database
                refused to queue it or a later version wrote it. Everything else is cancelled.
            QueueUnavailable: the database did not answer; what was cancelled so far is. Call again.
        """
        which = Selection(activity=activity, object=object, sender=sender, host=host, batch=batch).canonical()
        return await self._cancel(which, on_waiting=on_waiting)

    async def _cancel(
        self,
        which: Selection,
        *,
        on_waiting: Callable[[int], None] | None,
        on_progress: Callable[[int], None] | None = None,
    ) -> Cancelled:
        """Cancel what is queued, and what an application's transactions committed and is not queued yet."""
        await self.set_up()
        async with translated():
            if await outbox_used(self._db):
                return await cancel_with_outbox(
                    self._db, which, kept_s=self._kept_s, on_waiting=on_waiting, on_progress=on_progress
                )
            return await cancel(self._db, which, on_waiting=on_waiting, on_progress=on_progress)

    async def replay(
        self,
        *,
        activity: str | None = None,
        object: str | None = None,  # noqa: A002 - the name that ActivityStreams has
        sender: str | None = None,
        host: str | None = None,
        batch: str | None = None,
        outcomes: Iterable[SettledOutcome | FailureReason] | None = None,
    ) -> Replayed:
        """Queue ended deliveries again, as a new send would. Give exactly one of the first five, as for `cancel`.

        Args:
            activity: the id of an activity; of one without an id, what `Sent.activity_id` said.
            object: the id of the object of activities.
            sender: the id of a sender.
            host: a host's name, with its port if it has one.
            batch: the tag of a batch.
            outcomes: only what ended so; by default whatever was not delivered, superseded or cancelled.

        Raises:
            InputError: not exactly one is given, it is not usable, or delivered ones are asked for by host.
            QueueUnavailable: the database did not answer. Call again.
        """
        which = Selection(activity=activity, object=object, sender=sender, host=host, batch=batch).canonical()
        wanted = check_words("outcome", REPLAYED if outcomes is None else outcomes, ENDS)
        if which.host is not None and SettledOutcome.DELIVERED in wanted:
            raise InputError("outcomes holds 'delivered'; allowed by host is what was not delivered")
        await self.set_up()
        async with translated():
            replayed = await replay_selected(self._db, which, outcomes=wanted, kept_s=self._kept_s)
            await wake(self._db, range(SHARDS))
            return replayed

    async def explain(self, activity: str, *, limit: int = 1000) -> Explanation:
        """Where an activity went: each delivery with its state, its last answer, and what it waits for.

        Args:
            activity: its id; of one without an id, what `Sent.activity_id` said.
            limit: how many deliveries to list at most, unfinished ones first. The counts are of all.

        Raises:
            InputError: an argument is not usable.
            UnknownActivity: no delivery of it is kept.
        """
        check_text("activity", activity)
        check_limit("limit", limit, least=0)
        await self.set_up()
        async with translated():
            return await explain(self._db, activity, limit=limit)

    async def counts(self) -> dict[str, int]:
        """How many deliveries are in each state, ended ones by outcome. Reads the whole queue."""
        await self.set_up()
        async with translated():
            return await count_by_state(self._db)

    async def deliveries(
        self, selection: Selection | None = None, *, states: Iterable[str] | None = None, limit: int = 100
    ) -> Sequence[DeliveryState]:
        """Some deliveries, as the queue has them.

        Args:
            selection: of what; None: of the whole queue.
            states: in these states only; None: in any.
            limit: how many at most.

        Raises:
            InputError: an argument is not usable.
        """
        if selection is not None and not isinstance(selection, Selection):
            raise InputError(f"selection is {shown(selection)}; allowed is a Selection, or None")
        wanted = check_words("state", ALL_STATES if states is None else states, ALL_STATES)
        check_limit("limit", limit)
        await self.set_up()
        async with translated():
            which = selection.canonical() if selection is not None else None
            return await list_deliveries(self._db, which, states=wanted, limit=limit)

    async def waiting_of(self, sender: str) -> int:
        """How many deliveries of a sender have not ended, and how many of its sends are still in the outbox."""
        which = Selection(sender=sender)
        await self.set_up()
        async with translated():
            return await count_waiting_of(self._db, which)

    async def queue_settings(self) -> QueueSettings:
        """What the queue itself has set, in its database, for all processes."""
        await self.set_up()
        async with translated():
            telling = await telling_state(self._db)
            outbox = await count_outbox(self._db)
            return QueueSettings(
                callbacks=telling.on,
                callbacks_since=telling.since,
                outbox=await outbox_used(self._db),
                outbox_waiting=outbox.waiting,
                outbox_newer=outbox.newer,
                outbox_parked=outbox.parked,
                schema=await schema_of(self._db),
            )

    async def clear_callbacks(self) -> bool:
        """Say that nobody wants to be told of ends any more: they expire untold. Whether anybody had wanted to.

        As long as a `run()` with callbacks goes on it says so anew.
        """
        await self.set_up()
        async with translated():
            return await set_telling(self._db, on=False)

    @property
    def _kept_s(self) -> float:
        """How long a delivery queued now can need its activity."""
        return self._config.max_age_s + self._config.keep_finished_s

    async def set_up(self) -> None:
        """Set the database up once, however many calls come first; a failed one is tried again by the next."""
        if self._ready is None or (self._ready.done() and not _succeeded(self._ready)):
            self._ready = asyncio.ensure_future(set_up(self._db))
        await asyncio.shield(self._ready)


def _succeeded(task: asyncio.Future[None]) -> bool:
    return not task.cancelled() and task.exception() is None


def url_of(queue: str | PathLike[str]) -> str:
    """The address of a queue: a URL as it is, else that of the server that a supervisor runs on a data folder.

    Raises:
        ConfigError: it is empty, or no server runs on the folder.
    """
    if not isinstance(queue, str | PathLike):
        raise ConfigError(f"queue is {shown(queue)}; allowed is a MongoDB URL, a client, or a supervisor's data folder")
    if isinstance(queue, str) and not queue.strip():
        # As a path it would be the working folder.
        raise ConfigError("queue is empty; allowed is a MongoDB URL, a client, or a supervisor's data folder")
    if isinstance(queue, str) and "://" in queue:
        return queue
    return embedded_url(str(queue))


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except OjakError:
        raise
    except DRIVER_ERRORS as error:
        raise explained(error) from error
