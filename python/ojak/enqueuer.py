# SPDX-License-Identifier: Apache-2.0
"""`Enqueuer`: the half of a `Deliverer` that queues. What `Deliverer` adds is sending what is queued."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.client_session import AsyncClientSession

from ojak.clock import Clock
from ojak.config import DelivererConfig
from ojak.control import QueueControl, translated
from ojak.errors import InputError, shown
from ojak.model.activity import Activity, activity_of, check_text
from ojak.model.batch import Batch
from ojak.model.domains import BlockedDomains
from ojak.model.flood import ANSWERS, SendFlood
from ojak.model.inbox import Inbox
from ojak.model.job import Priority
from ojak.model.outcome import Sent, SentInbox, SentState
from ojak.model.portable import PortableInbox
from ojak.shard import shard_of
from ojak.signing import SenderKeys
from ojak.store.bodies import check_conflict
from ojak.store.database import QueueDatabase
from ojak.store.enqueue import NewJob, enqueue
from ojak.store.fill import QueueFill
from ojak.store.handover import Handover, hand_over
from ojak.store.outbox import Pending, absolute, keys_of, pending, write_in
from ojak.store.outbox_queue import queue_what_is_about
from ojak.store.outbox_use import OutboxUse
from ojak.store.recipients import list_portable, sort_out
from ojak.store.trouble import DRIVER_ERRORS
from ojak.store.wakeups import wake, wake_to_outbox

_SENDS_AT_A_TIME: Final = 8
"""More at once would only wait for connections, until the driver's patience ends; a running loop needs some too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A send with a session, all but written: its answer, and what to write, if anything."""

    sent: Sent
    pending: Pending | None


class Enqueuer(QueueControl):
    """Queues activities (SPEC section 1).

    Args:
        db: the queue.
        config: limits, and how long deliveries are kept.
        keys: asked for a sender's key before anything of it is queued; None: any sender is queued.
        clock: for what is counted by the minute.
        blocked: domains that nothing is sent to; None: none.
    """

    def __init__(
        self,
        db: QueueDatabase,
        config: DelivererConfig,
        *,
        keys: SenderKeys | None,
        clock: Clock,
        blocked: BlockedDomains | None = None,
    ) -> None:
        super().__init__(db, config)
        self._blocked = blocked or BlockedDomains()
        self._keys = keys
        self._flood = SendFlood(clock, allowed=config.small_sends_a_minute)
        self._fill = QueueFill(db, clock, most=config.max_queued)
        self._outbox = OutboxUse(db, clock)
        self._sending = asyncio.Semaphore(_SENDS_AT_A_TIME)

    async def send(
        self,
        activity: bytes | str | Mapping[str, Any],
        sender: str,
        inboxes: Iterable[str | Inbox],
        *,
        priority: Priority | None = None,
        order_key: str | None = None,
        session: AsyncClientSession | None = None,
    ) -> Sent:
        """Queue one activity for a set of inboxes, and return.

        When this returns, every delivery that the answer calls new is held by a majority of the database.

        Args:
            activity: a JSON object: bytes or text go out byte for byte, a mapping is serialised once.
            sender: the id of the actor whose key signs.
            inboxes: inbox URLs, or `Inbox`es.
            priority: which line to stand in; unless told, a send to few inboxes (`small_send`) goes before others,
                but not one of a sender that has handed over many of those within a minute (`small_sends_a_minute`).
            order_key: deliveries with the same key to the same inbox go one after another in the order they were
                queued, also across retries. Without one, what the activity is about (docs/queue.md, "Order").
            session: of an `AsyncMongoClient` of yours on the same MongoDB, with a transaction: then this only writes a
                row in it, and a worker queues it after the commit.

        Returns:
            What became of each inbox. A bad one is reported in it, and the others are queued; with a session, pending.

        Raises:
            InputError: the sender, the priority or the order key is none, or the inboxes are no iterable of them.
                Nothing was queued.
            InvalidActivity: the activity is no JSON object or too large. Nothing was queued.
            ConflictingActivity: its id is being delivered with other bytes. Nothing was queued.
            UnknownSender: the sender has no key. Nothing was queued.
            QueueFull: so many deliveries wait that no more are taken (`max_queued`). Nothing was queued.
            StoreError: the database refused, or holds what this version cannot use.
            QueueUnavailable: the database did not confirm. What was queued is unknown: send again, which queues
                nothing twice.

        With a session, what the driver raises comes as it is, so that its `with_transaction` can repeat it.
        """
        if order_key is not None:
            check_text("order_key", order_key)
        return await self._send(
            activity, sender, inboxes, priority=priority, order_key=order_key, batch=None, session=session
        )

    async def send_batch(
        self,
        activity: bytes | str | Mapping[str, Any],
        sender: str,
        inboxes: Iterable[str | Inbox],
        batch: Batch,
        *,
        priority: Priority | None = None,
        session: AsyncClientSession | None = None,
    ) -> Sent:
        """Queue one activity as part of a batch: as `send`, and its deliveries can be followed by the batch's tag.

        Args:
            activity: as for `send`.
            sender: likewise.
            inboxes: likewise.
            batch: its tag, and the deadline and order key that its deliveries share.
            priority: as for `send`.
            session: likewise. A deadline that is a time from the send counts from this call.
        """
        if not isinstance(batch, Batch):
            raise InputError(f"batch is a {type(batch).__name__}; allowed is a Batch")
        return await self._send(
            activity, sender, inboxes, priority=priority, order_key=batch.order_key, batch=batch, session=session
        )

    async def send_portable(
        self,
        activity: bytes | str | Mapping[str, Any],
        sender: str,
        inboxes: Iterable[PortableInbox],
        *,
        priority: Priority | None = None,
        order_key: str | None = None,
        batch: Batch | None = None,
        session: AsyncClientSession | None = None,
    ) -> Sent:
        """Queue one activity for inboxes of portable actors (FEP-ef61): as `send`, and each goes to one gateway.

        An attempt asks an inbox's gateways in their order until one accepts (docs/portable.md). The same inbox in
        another form, or with other gateways, is the same delivery: what waits or went through already is left as it is.

        Args:
            activity: as for `send`.
            sender: likewise.
            inboxes: the inboxes, each with its gateways.
            priority: as for `send`.
            order_key: likewise; not beside `batch`, which has its own.
            batch: what the deliveries belong to, if to anything.
            session: as for `send`.

        Returns:
            What became of each inbox, by the text it was given as; `url` is its canonical id.

        Raises:
            InputError: also if something else than a `PortableInbox` is among the inboxes; otherwise as `send`.
        """
        key = check_key(order_key, batch)
        listed = list_portable(inboxes)
        return await self._send(
            activity, sender, listed, priority=priority, order_key=key, batch=batch, session=session
        )

    async def _send(
        self,
        activity: bytes | str | Mapping[str, Any],
        sender: str,
        inboxes: Iterable[str | Inbox | PortableInbox],
        *,
        priority: Priority | None,
        order_key: str | None,
        batch: Batch | None,
        session: AsyncClientSession | None,
    ) -> Sent:
        if session is not None:
            if not isinstance(session, AsyncClientSession):
                raise InputError(f"session is a {type(session).__name__}; allowed is one of an AsyncMongoClient")
            prepared = await self.prepare(
                activity, sender, inboxes, priority=priority, order_key=order_key, batch=batch, client=session.client
            )
            if prepared.pending is not None:
                await write_in(session, self._db.name, prepared.pending)
                await self.announce()
            return prepared.sent
        checked, jobs, answers, given = await self._checked(activity, sender, inboxes, priority)
        if jobs:
            async with self._sending, translated():
                await self._fill.check_room(len(jobs))
                about = keys_of(checked, order_key)
                if about and await self._outbox.in_use():
                    # What is sent now must not overtake what was committed before it and is not queued yet.
                    await queue_what_is_about(self._db, about, kept_s=self._kept_s)
                handover = await hand_over(
                    self._db,
                    checked,
                    sender=sender,
                    priority=priority if priority is not None else self._priority_of(checked, sender, len(jobs)),
                    kept_s=self._kept_s,
                    order_key=order_key,
                    batch=batch,
                )
                answers |= await self._enqueue(handover, jobs, given)
        return Sent(activity_id=checked.identity, inboxes=answers)

    async def prepare(
        self,
        activity: bytes | str | Mapping[str, Any],
        sender: str,
        inboxes: Iterable[str | Inbox | PortableInbox],
        *,
        priority: Priority | None,
        order_key: str | None,
        batch: Batch | None,
        client: AsyncMongoClient[Any] | MongoClient[Any],
    ) -> Prepared:
        """Do all of a send with a session of `client` but the write, the business of whoever has the session.

        Raises what `send` raises, and ConfigError if the client does not reach this queue.
        """
        checked, jobs, answers, given = await self._checked(activity, sender, inboxes, priority)
        if not jobs:
            return Prepared(sent=Sent(activity_id=checked.identity, inboxes=answers), pending=None)
        async with self._sending, translated():
            await self._fill.check_room(len(jobs))
            await self._outbox.check_client(client)
            # Now and not only when it is queued, when nobody is there to be told.
            await check_conflict(self._db, checked)
            now = await self._db.server_time()
        send = pending(
            checked,
            sender=sender,
            jobs=jobs,
            priority=priority if priority is not None else self._priority_of(checked, sender, len(jobs)),
            order_key=order_key,
            batch=absolute(batch, now),
        )
        for job in jobs:
            answers |= dict.fromkeys(given[job.inbox], SentInbox(state=SentState.PENDING, url=job.inbox))
        self._fill.queued(len(jobs))
        return Prepared(sent=Sent(activity_id=checked.identity, inboxes=answers), pending=send)

    async def announce(self) -> None:
        """Have workers look into the outbox, now and for some seconds, in which the transaction will be committed."""
        # A hint: one that is lost costs a poll, and must not fail a transaction.
        with suppress(*DRIVER_ERRORS):
            await wake_to_outbox(self._db)

    async def _checked(
        self,
        activity: bytes | str | Mapping[str, Any],
        sender: str,
        inboxes: Iterable[str | Inbox | PortableInbox],
        priority: Priority | None,
    ) -> tuple[Activity, list[NewJob], dict[str, SentInbox], dict[str, list[str]]]:
        """Refuse what cannot be sent; for the rest, the database is set up."""
        checked = activity_of(activity, max_bytes=self._config.max_body_bytes)
        _check_priority(priority)
        await self._check_sender(sender)
        jobs, answers, given = sort_out(inboxes, self._blocked)
        if jobs:
            await self.set_up()
        return checked, jobs, answers, given

    async def _check_sender(self, sender: str) -> None:
        check_text("sender", sender, what="an actor's id")
        if self._keys is not None:
            await self._keys.keys_of(sender)

    def _priority_of(self, activity: Activity, sender: str, inboxes: int) -> Priority:
        """The line of a send that names none."""
        if inboxes > self._config.small_send:
            return Priority.FANOUT
        if activity.type not in ANSWERS and self._flood.is_one_of_many(sender):
            # A fan-out that is handed over inbox by inbox.
            return Priority.FANOUT
        return Priority.SMALL

    async def _enqueue(
        self, handover: Handover, jobs: Sequence[NewJob], canonical: Mapping[str, Sequence[str]]
    ) -> dict[str, SentInbox]:
        answers: dict[str, SentInbox] = {}
        async for chunk, enqueued in enqueue(self._db, jobs, handover):
            for job, answer in zip(chunk, enqueued, strict=True):
                told = SentInbox(state=answer.state, url=job.inbox, outcome=answer.outcome)
                answers |= dict.fromkeys(canonical[job.inbox], told)
            self._fill.queued(sum(answer.state is SentState.NEW for answer in enqueued))
            shards = {shard_of(job.authority) for job in chunk}
            await wake(self._db, shards, small=handover.priority is Priority.SMALL)
        return answers


def check_key(order_key: str | None, batch: Batch | None) -> str | None:
    """The key of a send that may belong to a batch.

    Raises:
        InputError: both have one, or one is none.
    """
    if batch is None:
        if order_key is not None:
            check_text("order_key", order_key)
        return order_key
    if not isinstance(batch, Batch):
        raise InputError(f"batch is a {type(batch).__name__}; allowed is a Batch, or None")
    if order_key is not None:
        raise InputError("order_key is given beside batch; allowed is one of them: a batch has its own")
    return batch.order_key


def _check_priority(priority: object) -> None:
    if priority is not None and not isinstance(priority, Priority):
        allowed = " or ".join(f"Priority.{line.name}" for line in Priority)
        raise InputError(f"priority is {shown(priority)}; allowed is {allowed}, or None")
