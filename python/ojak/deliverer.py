# SPDX-License-Identifier: Apache-2.0
"""`Deliverer`: queues activities and sends them. A facade over the store and the worker."""

import asyncio
import logging
import secrets
from collections.abc import Coroutine, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self

from pymongo import AsyncMongoClient

from ojak.breaker.admission import BreakerScope
from ojak.breaker.bounded import BoundedBreakers
from ojak.breaker.rules import CircuitBreaker
from ojak.breaker.store import BreakerStore, MemoryBreakers
from ojak.clock import Clock, SystemClock
from ojak.config import DelivererConfig
from ojak.control import translated, url_of
from ojak.errors import ConfigError, InputError, shown
from ojak.host_control import HostControl
from ojak.http.aiohttp_transport import AiohttpTransport
from ojak.http.knock import Knocker
from ojak.http.outbound import Outbound
from ojak.jobs import JobQueue
from ojak.model.handler import Handler, check_handlers
from ojak.model.host import canonical_host
from ojak.sender_control import SenderControl
from ojak.shard import SHARDS, shard_of
from ojak.signing import Scheme, SenderKeys
from ojak.store.breakers import MongoBreakers
from ojak.store.database import DatabaseTrouble, QueueDatabase, connect
from ojak.store.mirror import MirroredBreakers
from ojak.store.reap import bury
from ojak.store.scheme_hints import SchemeHints
from ojak.store.shards import bury_owner
from ojak.store.turns import leave_turn
from ojak.store.wakeups import wake
from ojak.worker.attempt import Attempter
from ojak.worker.attempts_told import AttemptsTold, OnAttempt
from ojak.worker.board import FlightBoard
from ojak.worker.engine import Engine
from ojak.worker.foreign import ForeignCall
from ojak.worker.headers import HeadersFor, RequestHeaders
from ojak.worker.host_limit import LimitRules
from ojak.worker.outage import Outage
from ojak.worker.standings import Standings
from ojak.worker.teller import SWEEPER, OnFailure, OnSettled, Teller

_log = logging.getLogger("ojak.deliverer")


class Deliverer(JobQueue, HostControl, SenderControl):
    """Queues activities and sends them (SPEC section 1). Belongs to one event loop.

    Args:
        queue: where the queue is: the URL of a MongoDB, an `AsyncMongoClient`, or the data folder of a running
            supervisor, whose embedded server is used.
        keys: gives the senders' signing keys. Without them `send` queues for any sender, and `run` is not possible.
        database: the name of the queue's database.
        config: how the delivery loop behaves.
        outbound: how requests go out: allowed networks, resolver map, CA, proxy, User-Agent; and where none go to.
        on_settled: called with each delivery that is done with, at least once; may be async.
        on_failure: called with each delivery that is given up on, at least once; may be async.
        on_attempt: called with each attempt as it came out; may be async.
        handlers: what runs other kinds of job than deliveries, one a kind (docs/jobs.md).
        headers: asked for further headers of each attempt before it is made, such as Collection-Synchronization
            (FEP-8fcf); they are signed. May be async. Where it fails, the delivery goes without them.
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
        handlers: Sequence[Handler] = (),
        headers: HeadersFor | None = None,
        breakers: BreakerStore | Literal["shared"] | None = None,
        board: FlightBoard | None = None,
        expected: int = 1,
        clock: Clock | None = None,
    ) -> None:
        self._handlers = check_handlers(handlers)
        if keys is not None and not isinstance(keys, SenderKeys):
            raise ConfigError(f"keys is {shown(keys)}; allowed is a SenderKeys, or None")
        if not isinstance(config, DelivererConfig | None):
            raise ConfigError(f"config is {shown(config)}; allowed is a DelivererConfig, or None")
        if not isinstance(outbound, Outbound | None):
            raise ConfigError(f"outbound is {shown(outbound)}; allowed is an Outbound, or None")
        for name, function in (
            ("on_settled", on_settled),
            ("on_failure", on_failure),
            ("on_attempt", on_attempt),
            ("headers", headers),
        ):
            if function is not None and not callable(function):
                raise ConfigError(f"{name} is {shown(function)}; allowed is a function, or None")
        self._owns_client = not isinstance(queue, AsyncMongoClient)
        client = queue if isinstance(queue, AsyncMongoClient) else connect(url_of(queue))
        self._clock = clock or SystemClock()
        self._outbound = outbound or Outbound()
        super().__init__(
            QueueDatabase(client, database),
            config or DelivererConfig(),
            keys=keys,
            clock=self._clock,
            blocked=self._outbound.blocked,
        )
        self._on_settled = on_settled
        self._on_failure = on_failure
        self._on_attempt = on_attempt
        self._headers = RequestHeaders(headers, clock=self._clock) if headers is not None else None
        self._board = board
        self._expected = expected
        self._rules = CircuitBreaker.configured(self._config)
        if isinstance(breakers, str) and breakers != "shared":
            raise ConfigError(f"breakers is {breakers!r}; allowed is a BreakerStore, 'shared' or None")
        if breakers is None:
            breakers = MemoryBreakers(self._rules, clock=self._clock)
        elif not isinstance(breakers, str) and type(breakers) not in (MemoryBreakers, MongoBreakers):
            # One that is derived from those of Ojak may wait for something of its own.
            breakers = BoundedBreakers(breakers)
        self._breakers: BreakerStore | Literal["shared"] = breakers
        self._running: dict[Engine, asyncio.Event] = {}
        self._hints = SchemeHints(self._db, self._clock, kept_s=self._config.scheme_memory_s)
        self._stops = 0

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

    def run(self) -> Coroutine[Any, Any, None]:
        """Send what is queued, until `stop`. Any number may run over one queue, here and elsewhere.

        Starts tasks only inside itself and leaves none behind. Cancelled, it hands back at once what was not begun.
        One that `stop` was called after, and that had not taken its first step by then, ends in it.

        Raises:
            ConfigError: there are no sender keys, or the outbound settings cannot be used.
            StoreError: the database cannot be used as it is.
        """
        return self._run(self._stops)

    async def _run(self, stops: int) -> None:
        if stops != self._stops:
            return
        if self._keys is None:
            raise ConfigError("keys is None; run() needs the senders' keys: give Deliverer(…, keys=SenderKeys)")
        transport = AiohttpTransport(
            **self._outbound.transport_options(),
            connect_s=self._config.connect_s,
            read_s=self._config.read_s,
            request_s=self._config.request_s,
        )
        rules = LimitRules(slow_ms=self._config.slow_answer_s * 1000, quick_answers=self._config.quick_answers)
        standings = Standings(self._clock, per_host=self._config.per_host, rules=rules)
        outage = Outage(
            clock=self._clock,
            config=self._config,
            reach=transport.reach,
            tallies=self._board.tallies if self._board is not None else None,
        )
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
                blocked=self._blocked,
                headers=self._headers,
                outage=outage,
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
                holder=stamp,
            ),
            attempts=AttemptsTold(self._on_attempt),
            board=self._board,
            handlers=self._handlers,
            breakers=self._store_of_breakers(stamp),
            outage=outage,
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
        self._stops += 1
        ends = []
        for engine, ended in self._running.items():
            engine.stop()
            ends.append(ended.wait())
        await asyncio.gather(*ends)

    async def heard_from(self, authority: str, scheme: Scheme | str | None = None) -> bool:
        """Tell that a verified request came from a host: if it is quarantined, its probe goes at once.

        Once in each quarantine, and it closes nothing: only our own deliveries show that the host takes them
        (SPEC section 4). No probe where breakers are kept for inboxes.

        Args:
            authority: the host, as in the URL: `example.org`, or `example.org:8443` with a port that is not its
                scheme's own.
            scheme: how the request was signed, or what the host says of itself that it takes (FEP-844e). RFC 9421 is
                remembered: what goes there is signed so first, unless an operator pinned another, or the host refused
                it within a day. That it signs in the old way says nothing of what it takes.

        Returns:
            Whether a probe was brought forward. False also where a store of breakers of your own failed, which is
            logged.

        Raises:
            InputError: that is no host, or no scheme.
            QueueUnavailable: the database did not answer.
        """
        host = canonical_host(authority)
        if scheme is not None and scheme not in list(Scheme):
            raise InputError(f"scheme is {shown(scheme)}; allowed is {', '.join(Scheme)}, or None")
        await self.set_up()
        async with translated():
            if scheme == Scheme.RFC9421:
                await self._hints.take(host, Scheme.RFC9421.value)
            store = self._store_of_breakers(b"")
            if store.scope is not BreakerScope.HOST:
                return False
            forward = await _brought_forward(store, host)
            if not forward and isinstance(self._breakers, MemoryBreakers) and not self._running:
                # A process that only queues has no breakers of its own. Those of the supervisor's workers are here.
                forward = await MongoBreakers(self._db, self._rules).heard_from(host)
            if not forward:
                return False
            # One line is enough: a probe is the oldest of both.
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
            await leave_turn(self._db, SWEEPER, holder=stamp)
            await bury_owner(self._db, stamp, begun=len(begun), lease_s=self._config.lease_s)
            await wake(self._db, ())
            await wake(self._db, range(SHARDS))


async def _brought_forward(store: BreakerStore, host: str) -> bool:
    """Whether a store brought a probe forward. What one of the application's raises is not its caller's to handle."""
    try:
        with ForeignCall():
            return await store.heard_from(host)
    except DatabaseTrouble:
        raise
    except Exception:  # noqa: BLE001 - an application's store may raise anything
        _log.exception("a probe could not be brought forward", extra={"host": host})
        return False
