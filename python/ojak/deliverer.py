# SPDX-License-Identifier: Apache-2.0
"""`Deliverer`: queues activities and sends them. A facade over the store and the worker."""

import asyncio
import secrets
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from types import TracebackType
from typing import Any, Final, Literal, Self

from pymongo import AsyncMongoClient

from ojak.breaker.admission import BreakerScope
from ojak.breaker.rules import CircuitBreaker
from ojak.breaker.store import BreakerStore, MemoryBreakers
from ojak.clock import Clock, SystemClock
from ojak.config import DelivererConfig
from ojak.control import QueueControl, translated, url_of
from ojak.errors import ConfigError, InputError
from ojak.http.aiohttp_transport import AiohttpTransport
from ojak.http.knock import Knocker
from ojak.http.outbound import Outbound
from ojak.model.activity import activity_of, check_text
from ojak.model.batch import Batch
from ojak.model.inbox import Inbox, InvalidInbox, canonical_inbox
from ojak.model.job import Priority
from ojak.model.outcome import Sent, SentInbox, SentState
from ojak.shard import SHARDS, shard_of
from ojak.signing import SenderKeys
from ojak.store.breakers import MongoBreakers
from ojak.store.database import QueueDatabase, connect
from ojak.store.enqueue import NewJob, enqueue
from ojak.store.handover import Handover, hand_over
from ojak.store.mirror import MirroredBreakers
from ojak.store.reap import bury
from ojak.store.shards import bury_owner
from ojak.store.wakeups import wake
from ojak.worker.attempt import Attempter
from ojak.worker.board import FlightBoard
from ojak.worker.engine import Engine
from ojak.worker.flights import OnAttempt
from ojak.worker.standings import Standings
from ojak.worker.teller import OnFailure, OnSettled, Teller

_SHOWN_MAX: Final = 100


class Deliverer(QueueControl):
    """Queues activities and sends them (SPEC section 1). Belongs to one event loop.

    Args:
        queue: where the queue is: the URL of a MongoDB, an `AsyncMongoClient`, or the data folder of a running
            supervisor, whose embedded server is used.
        keys: gives the senders' signing keys. Without them `send` queues for any sender, and `run` is not possible.
        database: the name of the queue's database.
        config: how the delivery loop behaves.
        outbound: how requests go out: allowed networks, resolver map, CA, proxy, User-Agent.
        on_settled: called with each delivery that is done with, at least once; may be async.
        on_failure: called with each delivery that is given up on, at least once; may be async.
        on_attempt: called with each attempt as it came out; may be async.
        breakers: where circuit breakers are kept: a `BreakerStore` of your own, `"shared"` for the queue's database,
            where all processes share them and restarts leave them, or None for `MemoryBreakers`, those of this process.
            The two of Ojak's take their rules from `config`.
        board: the supervisor's: where to note what is begun.
        expected: how many `run()`s the supervisor starts together.

    Raises:
        ConfigError: the URL, the database's name or the folder cannot be used.
    """

    def __init__(
        self,
        queue: str | PathLike[str] | AsyncMongoClient[dict[str, Any]],
        *,
        keys: SenderKeys | None = None,
        database: str = "ojak",
        config: DelivererConfig | None = None,
        outbound: Outbound | None = None,
        on_settled: OnSettled | None = None,
        on_failure: OnFailure | None = None,
        on_attempt: OnAttempt | None = None,
        breakers: BreakerStore | Literal["shared"] | None = None,
        board: FlightBoard | None = None,
        expected: int = 1,
        clock: Clock | None = None,
    ) -> None:
        self._owns_client = not isinstance(queue, AsyncMongoClient)
        client = queue if isinstance(queue, AsyncMongoClient) else connect(url_of(queue))
        super().__init__(QueueDatabase(client, database), config or DelivererConfig())
        self._keys = keys
        self._outbound = outbound or Outbound()
        self._on_settled = on_settled
        self._on_failure = on_failure
        self._on_attempt = on_attempt
        self._board = board
        self._expected = expected
        self._clock = clock or SystemClock()
        self._rules = CircuitBreaker.configured(self._config)
        if isinstance(breakers, str) and breakers != "shared":
            raise ConfigError(f"breakers is {breakers!r}; allowed is a BreakerStore, 'shared' or None")
        self._breakers = MemoryBreakers(self._rules, clock=self._clock) if breakers is None else breakers
        self._running: dict[Engine, asyncio.Event] = {}

    async def __aenter__(self) -> Self:
        try:
            await self.set_up()
        except BaseException:
            # Nobody calls `__aexit__` of what was not entered.
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Drain what runs and let go of the connection, if it is our own."""
        await self.stop()
        if self._ready is not None and not self._ready.done():
            # Whoever wanted it was cancelled; it must not go on over a closed connection.
            self._ready.cancel()
            await asyncio.wait({self._ready})
        if self._owns_client:
            await self._db.client.close()

    async def send(
        self,
        activity: bytes | str | Mapping[str, Any],
        sender: str,
        inboxes: Iterable[str | Inbox],
        *,
        priority: Priority | None = None,
        order_key: str | None = None,
    ) -> Sent:
        """Queue one activity for a set of inboxes, and return.

        When this returns, every delivery that the answer calls new is held by a majority of the database.

        Args:
            activity: a JSON object: bytes or text go out byte for byte, a mapping is serialised once.
            sender: the id of the actor whose key signs.
            inboxes: inbox URLs, or `Inbox`es.
            priority: which line to stand in; a send to few inboxes (`small_send`) goes before others unless told.
            order_key: deliveries with the same key to the same inbox go one after another in the order they were
                queued, also across retries. Without one, what the activity is about (docs/queue.md, "Order").

        Returns:
            What became of each inbox. A bad one is reported in it, and the others are queued.

        Raises:
            InputError: the sender or the order key is none, or the inboxes are no iterable of them. Nothing was queued.
            InvalidActivity: the activity is no JSON object or too large. Nothing was queued.
            ConflictingActivity: its id is being delivered with other bytes. Nothing was queued.
            UnknownSender: the sender has no key. Nothing was queued.
            StoreError: the database refused, or holds what this version cannot use.
            QueueUnavailable: the database did not confirm. What was queued is unknown: send again, which queues
                nothing twice.
        """
        if order_key is not None:
            check_text("order_key", order_key)
        return await self._send(activity, sender, inboxes, priority=priority, order_key=order_key, batch=None)

    async def _send(
        self,
        activity: bytes | str | Mapping[str, Any],
        sender: str,
        inboxes: Iterable[str | Inbox],
        *,
        priority: Priority | None,
        order_key: str | None,
        batch: Batch | None,
    ) -> Sent:
        checked = activity_of(activity, max_bytes=self._config.max_body_bytes)
        await self._check_sender(sender)
        jobs, answers, canonical = _sort_out(inboxes)
        if priority is None:
            priority = Priority.SMALL if len(jobs) <= self._config.small_send else Priority.FANOUT
        if jobs:
            await self.set_up()
            async with translated():
                handover = await hand_over(
                    self._db,
                    checked,
                    sender=sender,
                    priority=priority,
                    kept_s=self._config.max_age_s + self._config.keep_finished_s,
                    order_key=order_key,
                    batch=batch,
                )
                answers |= await self._enqueue(handover, jobs, canonical)
        return Sent(activity_id=checked.identity, inboxes=answers)

    async def send_batch(
        self,
        activity: bytes | str | Mapping[str, Any],
        sender: str,
        inboxes: Iterable[str | Inbox],
        batch: Batch,
        *,
        priority: Priority | None = None,
    ) -> Sent:
        """Queue one activity as part of a batch: as `send`, and its deliveries can be followed by the batch's tag.

        Args:
            activity: as for `send`.
            sender: likewise.
            inboxes: likewise.
            batch: its tag, and the deadline and order key that its deliveries share.
            priority: as for `send`.
        """
        return await self._send(activity, sender, inboxes, priority=priority, order_key=batch.order_key, batch=batch)

    async def _check_sender(self, sender: str) -> None:
        check_text("sender", sender, what="an actor's id")
        if self._keys is not None:
            await self._keys.keys_of(sender)

    async def _enqueue(
        self, handover: Handover, jobs: Sequence[NewJob], canonical: Mapping[str, Sequence[str]]
    ) -> dict[str, SentInbox]:
        answers: dict[str, SentInbox] = {}
        async for chunk, enqueued in enqueue(self._db, jobs, handover):
            for job, answer in zip(chunk, enqueued, strict=True):
                told = SentInbox(state=answer.state, url=job.inbox, outcome=answer.outcome)
                answers |= dict.fromkeys(canonical[job.inbox], told)
            shards = {shard_of(job.authority) for job in chunk}
            await wake(self._db, shards, small=handover.priority is Priority.SMALL)
        return answers

    async def run(self) -> None:
        """Send what is queued, until `stop`. Any number may run over one queue, here and elsewhere.

        Starts tasks only inside itself and leaves none behind. Cancelled, it hands back at once what was not begun.

        Raises:
            ConfigError: there are no sender keys, or the outbound settings cannot be used.
            StoreError: the database cannot be used as it is.
        """
        if self._keys is None:
            raise ConfigError("keys is None; run() needs the senders' keys: give Deliverer(…, keys=SenderKeys)")
        transport = AiohttpTransport(
            **self._outbound.transport_options(),
            connect_s=self._config.connect_s,
            read_s=self._config.read_s,
            request_s=self._config.request_s,
        )
        standings = Standings(self._clock)
        stamp = secrets.token_bytes(16)
        engine = Engine(
            db=self._db,
            config=self._config,
            clock=self._clock,
            attempter=Attempter(
                knocker=Knocker(transport, agent=self._outbound.agent, clock=self._clock),
                keys=self._keys,
                standings=standings,
                config=self._config,
                clock=self._clock,
            ),
            standings=standings,
            teller=Teller(
                db=self._db,
                clock=self._clock,
                on_settled=self._on_settled,
                on_failure=self._on_failure,
                every_s=self._config.sweep_every_s,
                kept_s=self._config.keep_finished_s,
                give_up_s=self._config.keep_finished_s,
            ),
            on_attempt=self._on_attempt,
            board=self._board,
            breakers=self._store_of_breakers(stamp),
            stamp=stamp,
            expected=self._expected,
        )
        ended = self._running[engine] = asyncio.Event()
        try:
            await self.set_up()
            async with translated():
                await engine.run()
        finally:
            del self._running[engine]
            ended.set()
            await transport.close()

    async def stop(self) -> None:
        """Drain every `run()` of this object: claim nothing more, hand back what is not begun, wait for the rest."""
        ends = []
        for engine, ended in self._running.items():
            engine.stop()
            ends.append(ended.wait())
        await asyncio.gather(*ends)

    async def heard_from(self, authority: str) -> bool:
        """Tell that a verified request came from a host: if it is quarantined, its probe goes at once.

        Once in each quarantine, and it closes nothing: only our own deliveries show that the host takes them
        (SPEC section 4). Does nothing where breakers are kept for inboxes.

        Args:
            authority: the host, as in the URL: `example.org`, or `example.org:8443` with a port that is not its
                scheme's own.

        Returns:
            Whether a probe was brought forward.

        Raises:
            InvalidInbox: that is no host.
            QueueUnavailable: the database did not answer.
        """
        host = canonical_inbox(f"https://{authority}/").authority
        await self.set_up()
        async with translated():
            store = self._store_of_breakers(b"")
            if store.scope is not BreakerScope.HOST or not await store.heard_from(host):
                return False
            await wake(self._db, [shard_of(host)])
        return True

    def _store_of_breakers(self, holder: bytes) -> BreakerStore:
        """Where breakers are kept, as the worker needs it: the host records show what is held."""
        if self._breakers == "shared":
            return MongoBreakers(self._db, self._rules, holder=holder)
        if self._breakers.scope is BreakerScope.HOST:
            return MirroredBreakers(self._breakers, self._db)
        return self._breakers

    async def bury(self, stamp: bytes, begun: Sequence[bytes]) -> None:
        """End the leases and shards of a `run()` that is known to be dead (the supervisor's obituary).

        Args:
            stamp: its stamp, 16 bytes.
            begun: the ids of the deliveries that it had begun and not yet stored; each counts as a death.

        Raises:
            QueueUnavailable: the database did not answer; call again.
        """
        await self.set_up()
        async with translated():
            await bury(self._db, stamp, begun, max_deaths=self._config.max_deaths)
            await bury_owner(self._db, stamp, begun=len(begun), lease_s=self._config.lease_s)
            await wake(self._db, ())
            await wake(self._db, range(SHARDS))


def _sort_out(
    inboxes: Iterable[str | Inbox],
) -> tuple[list[NewJob], dict[str, SentInbox], dict[str, list[str]]]:
    """Split inboxes into jobs, one for each canonical URL, and refusals; with the given texts of each canonical URL."""
    jobs: dict[str, NewJob] = {}
    refused: dict[str, SentInbox] = {}
    given: dict[str, list[str]] = {}
    for item in _listed(inboxes):
        inbox = item if isinstance(item, Inbox) else Inbox(item)
        try:
            found = canonical_inbox(inbox.url)
        except InvalidInbox as error:
            text = inbox.url if isinstance(inbox.url, str) else ascii(inbox.url)[:_SHOWN_MAX]  # type: ignore[redundant-expr]
            refused[text] = SentInbox(state=SentState.REFUSED, url=text, reason=str(error))
            continue
        jobs.setdefault(
            found.url, NewJob(authority=found.authority, inbox=found.url, shared=inbox.shared, ref=inbox.ref)
        )
        given.setdefault(found.url, []).append(inbox.url)
    return list(jobs.values()), refused, given


def _listed(inboxes: Iterable[str | Inbox]) -> Iterator[str | Inbox]:
    """Go through what was handed over as inboxes, unless it is one inbox, of which each character would be refused."""
    if isinstance(inboxes, AsyncIterable):
        raise InputError("inboxes is an async iterable; allowed is a list of inboxes: collect it first")
    if not isinstance(inboxes, str | bytes | bytearray | memoryview):
        with suppress(TypeError):
            return iter(inboxes)
    raise InputError(f"inboxes is a {type(inboxes).__name__}; allowed is a list of inboxes, also for one")
