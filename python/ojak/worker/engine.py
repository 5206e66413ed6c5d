# SPDX-License-Identifier: Apache-2.0
"""The engine: one `run()` put together. Claim → lanes → attempt → settle, and the loops that keep leases true."""

import asyncio
import logging
import os
import socket
from collections.abc import Coroutine, Sequence
from typing import Any

from ojak.breaker.store import BreakerStore
from ojak.clock import Clock
from ojak.config import DelivererConfig
from ojak.model.handler import Handler
from ojak.model.job import Priority
from ojak.store.database import DatabaseTrouble, QueueDatabase
from ojak.store.settle import Ended
from ojak.worker.attempt import Attempter
from ojak.worker.attempted import Outcome, taken_back
from ojak.worker.attempts_told import AttemptsTold
from ojak.worker.board import FlightBoard
from ojak.worker.bodies import Bodies
from ojak.worker.circuits import Circuits
from ojak.worker.claimer import Claimer
from ojak.worker.failover import Failover, given_up
from ojak.worker.flights import Flights
from ojak.worker.gates import Gates
from ojak.worker.held import Held
from ojak.worker.holding import Holding
from ojak.worker.kinds import Kinds
from ojak.worker.lanes import Lanes
from ojak.worker.listener import Listener
from ojak.worker.loops import end_tasks, forever
from ojak.worker.notices import Notices
from ojak.worker.outage import Outage
from ojak.worker.outbox import OutboxLoop
from ojak.worker.ownership import Ownership
from ojak.worker.pace import Pace
from ojak.worker.passing import Passing
from ojak.worker.probes import Probes
from ojak.worker.pulse import Pulse
from ojak.worker.reaper import Reaper
from ojak.worker.releaser import Releaser
from ojak.worker.renewer import Renewer
from ojak.worker.settler import Settler
from ojak.worker.standings import Standings
from ojak.worker.sweeper import Sweeper
from ojak.worker.teller import Teller
from ojak.worker.telling import Telling

_log = logging.getLogger("ojak.worker")

_FAREWELL_S = 5.0


class Engine:
    """One `run()`: an owner of shards with a stamp of its own.

    Args:
        db: the queue, set up.
        config: how the loop behaves.
        clock: for deadlines and dates.
        attempter: makes one attempt.
        teller: calls the application back.
        attempts: told of each attempt.
        board: what the supervisor reads after a death, or None without one.
        handlers: what runs other kinds of job, one a kind.
        breakers: keeps the breakers; one that is of hosts and not in the queue's database is mirrored there.
        outage: what is known of the network.
        stamp: names this `run()`: random, 16 bytes.
        expected: how many `run()`s are being started together.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        config: DelivererConfig,
        clock: Clock,
        attempter: Attempter,
        standings: Standings,
        teller: Teller,
        attempts: AttemptsTold,
        board: FlightBoard | None,
        handlers: Sequence[Handler],
        breakers: BreakerStore,
        outage: Outage,
        stamp: bytes,
        expected: int,
    ) -> None:
        self._db = db
        self._config = config
        self._clock = clock
        self._teller = teller
        self._outage = outage
        self._attempts = attempts
        self._pulse = Pulse(board, stamp=stamp)
        self.stamp = stamp
        bodies = Bodies(db)
        self._held = Held(clock)
        self._holding = Holding(db=db, clock=clock)
        self._lanes = Lanes(concurrency=config.concurrency, per_host=config.per_host)
        gates = Gates(db=db, clock=clock, lanes=self._lanes, on_opened=lambda: self._flights.fill())  # noqa: PLW0108
        self._probes = Probes(store=breakers, clock=clock)
        self._circuits = Circuits(
            store=breakers,
            db=db,
            clock=clock,
            hold_s=config.lease_s,
            probes=self._probes,
            on_held=lambda authority: self._flights.stop_host(authority),  # noqa: PLW0108 - made later
            on_sent=self._lanes.set_limit,
            on_reopened=self._look,
        )
        self._telling = Telling(db=db, wanted=teller.has_callbacks, kept_s=config.keep_finished_s)
        self._stopping = asyncio.Event()
        self._kinds = Kinds(
            db=db, handlers=handlers, owner=stamp, held=self._held, clock=clock, config=config, board=board
        )
        failover = Failover(db=db, config=config)
        self._settler = Settler(
            db=db,
            standings=standings,
            failover=failover,
            lease_s=config.lease_s,
            every_s=config.settle_every_s,
            batch=config.settle_batch,
            kept_s=config.keep_finished_s,
            telling=lambda: self._telling.on,
            on_stored=self._stored,
        )
        self._ownership = Ownership(
            db=db,
            owner=self.stamp,
            clock=clock,
            lease_s=config.shard_lease_s,
            about=f"{socket.gethostname()} pid {os.getpid()}",
            expected=expected,
            kinds=self._kinds.names,
            let_go=self._let_go,
        )
        # One for each line, so that no small send waits until a fan-out has been claimed.
        self._claimers = {
            priority: Claimer(
                db=db,
                owner=self.stamp,
                priority=priority,
                ownership=self._ownership,
                lanes=self._lanes,
                held=self._held,
                holding=self._holding,
                gates=gates,
                standings=standings,
                bodies=bodies,
                circuits=self._circuits,
                probes=self._probes,
                clock=clock,
                config=config,
                on_claimed=lambda: self._flights.fill(),  # noqa: PLW0108 - made later
                on_given_up=lambda jobs: self._settler.add_all(map(given_up, jobs)),
                on_held=lambda jobs: self._flights.return_soon(jobs),  # noqa: PLW0108 - made later
                on_superseded=lambda jobs: self._settler.add_all(map(taken_back, jobs)),
                may_claim=lambda: self._settler.has_room() and not (self._notices.paused or outage.frozen),
            )
            for priority in Priority
        }
        self._passing = Passing(
            db=db,
            owner=self.stamp,
            ownership=self._ownership,
            failover=failover,
            held=self._held,
            on_passed=self._settler.add,
            has_room=self._settler.has_room,
            clock=clock,
            lease_s=config.lease_s,
            every_s=config.poll_every_s,
        )
        self._flights = Flights(
            db=db,
            attempter=attempter,
            bodies=bodies,
            held=self._held,
            holding=self._holding,
            gates=gates,
            probes=self._probes,
            circuits=self._circuits,
            lanes=self._lanes,
            standings=standings,
            settler=self._settler,
            board=board,
            attempts=attempts,
            on_landed=self._one_landed,
            on_held=self._passing.look,
            may_begin=lambda: self._ownership.trusted and self._notices.may_begin and not outage.frozen,
            lease_s=config.lease_s,
            trust_needed_s=config.request_s,
        )
        self._notices = Notices(
            db=db,
            owner=self.stamp,
            clock=clock,
            lease_s=config.lease_s,
            place_s=config.shard_lease_s,
            held=self._held,
            lanes=self._lanes,
            standings=standings,
            flights=self._flights,
            on_cancelled=(self._flights.cancel, self._kinds.cancel),
            claims_ended=self._claims_ended,
            on_changed=self._look,
        )
        self._reaper = Reaper(
            db=db,
            clock=clock,
            every_s=config.reap_every_s,
            hold_off_s=config.lease_s * 3 / 8,
            max_deaths=config.max_deaths,
        )
        self._sweeper = Sweeper(
            db=db, config=config, ownership=self._ownership, telling=self._telling, on_mended=self._look
        )
        self._outbox = OutboxLoop(
            db=db,
            clock=clock,
            poll_s=config.poll_every_s,
            kept_s=config.max_age_s + config.keep_finished_s,
            # One of all the owners is enough, and shard 0 has at most one.
            is_ours=lambda: 0 in self._ownership.epochs,
        )
        self._listener = Listener(
            db=db,
            ownership=self._ownership,
            claimers=self._claimers,
            kinds=self._kinds,
            outbox=self._outbox,
            telling=self._telling,
            on_notice=self._notices.look,
        )
        self._releaser = Releaser(
            db=db, config=config, ownership=self._ownership, can_sign=attempter.can_sign, on_let_go=self._look
        )
        self._pace = Pace(lanes=self._lanes, clock=clock, most=config.concurrency_max, on_raised=self._flights.fill)

    async def run(self) -> None:
        """Send what is queued until `stop` is called, then drain; cancelled, hand back at once what was not begun."""
        self._pulse.begin()
        renewer = Renewer(
            db=self._db,
            owner=self.stamp,
            held=self._held,
            probes=self._probes,
            clock=self._clock,
            lease_s=self._config.lease_s,
            shard_lease_s=self._config.shard_lease_s,
            on_renewed=self._renewed_jobs,
            on_shards=self._renewed_shards,
            on_probes=self._flights.renew_probes_soon,
        )
        # These outlive the others: what still comes in during a drain is stored, and told.
        last = [
            asyncio.create_task(self._settler.run(), name="ojak-settle"),
            asyncio.create_task(forever("tell", self._teller.tell_step), name="ojak-tell"),
            asyncio.create_task(forever("notices", self._notices.step), name="ojak-notices"),
            asyncio.create_task(forever("breakers", self._circuits.step), name="ojak-breakers"),
            *(asyncio.create_task(forever(name, step)) for name, step in self._kinds.settles().items()),
        ]
        loops: list[asyncio.Task[None]] = []
        stopping = asyncio.create_task(self._stopping.wait(), name="ojak-stopping")
        try:
            await self._start()
            renewer.start()
            loops += [asyncio.create_task(loop, name=f"ojak-{name}") for name, loop in self._loops().items()]
            await asyncio.wait([stopping, *last, *loops], return_when=asyncio.FIRST_COMPLETED)
            # Nothing begins any more, also where a loop has failed.
            self._close()
            await end_tasks(loops)
            await self._finish_claims()
            drain_s = self._config.drain_s
            await asyncio.gather(self._flights.drain(drain_s), self._kinds.drain(drain_s))
            for task in (*last, *loops):
                if task.done() and not task.cancelled() and (fault := task.exception()) is not None:
                    raise fault
        finally:
            # Also when cancelled: what was not begun goes back now, what is on the wire is cut off and counts as begun.
            self._close()
            await end_tasks([*loops, stopping])
            await asyncio.gather(self._flights.cut_off(), self._kinds.cut_off())
            await self._farewell(renewer, last)

    async def _start(self) -> None:
        await self._telling.start()
        await self._notices.start(self._ownership.join)
        await self._ownership.gather()
        await self._ownership.tick()

    def _loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        steps = {
            "claim-small": self._claim_step,
            "claim-fanout": self._claimers[Priority.FANOUT].step,
            "listen": self._listener.step,
            "own": self._own_step,
            "pass-on": self._passing.step,
            "reap": self._reaper.step,
            "sweep": self._sweeper.step,
            "release": self._releaser.step,
            "deadlines": self._sweeper.deadline_step,
            "tell-sweep": self._teller.sweep_step,
            "telling": self._telling.step,
            "pace": self._pace.step,
            "outage": lambda: self._outage.step(self._look),
            "beat": self._pulse.step,
            **self._kinds.claims(),
        }
        return {"outbox": self._outbox.run(), **{name: forever(name, step) for name, step in steps.items()}}

    async def _farewell(self, renewer: Renewer, last: Sequence[asyncio.Task[None]]) -> None:
        try:
            await self._finish_claims()
            if not any(task.done() for task in last):
                async with asyncio.timeout(_FAREWELL_S):
                    await self._circuits.recorded()
                    await self._settler.drained()
                    await self._kinds.settled()
            # Before anything is told: a callback that takes its time must not keep hosts from being served.
            await self._ownership.leave()
            async with asyncio.timeout(_FAREWELL_S):
                stores = not any(task.done() for task in last)
                await asyncio.gather(self._attempts.told(), *([self._teller.leave()] if stores else []))
        except (DatabaseTrouble, TimeoutError) as error:
            _log.warning("left without a farewell; leases end by themselves", extra={"error": type(error).__name__})
        finally:
            await end_tasks(last)
            await self._attempts.cut_off()
            await renewer.stop()

    def stop(self) -> None:
        """Begin to drain: claim nothing more, hand back what is not begun, wait for what is on the wire."""
        self._stopping.set()

    def _close(self) -> None:
        self._flights.close()
        self._kinds.close()

    async def _claims_ended(self) -> bool:
        """Wait for the claims that are under way; gives whether they have ended."""
        return all([await claimer.finish() for claimer in self._claimers.values()])

    async def _finish_claims(self) -> None:
        """Wait for claims that are under way, and hand back what was not begun."""
        await self._claims_ended()
        await self._passing.finish()
        await self._flights.hand_back(self._lanes.take_all())
        await self._kinds.finish()

    def _look(self) -> None:
        """Look for work of every sort now."""
        self._releaser.look()
        for claimer in self._claimers.values():
            claimer.wake()

    def _one_landed(self) -> None:
        for claimer in self._claimers.values():
            claimer.finished()

    def _stored(self, to_tell: Sequence[Ended], batch: Sequence[Outcome]) -> None:
        self._flights.stored(batch)
        self._teller.tell_soon(to_tell)

    # The loops.

    async def _claim_step(self) -> None:
        await self._claimers[Priority.SMALL].step()
        self._pulse.ready()

    async def _own_step(self) -> None:
        await self._ownership.tick()
        self._look()
        await self._ownership.wait(self._config.shard_lease_s / 9)

    def _renewed_jobs(self, stamps: Sequence[bytes], lost: set[bytes], until_s: float) -> None:
        # What was lost first: trust must not come back to it for a moment.
        if lost:
            self._flights.lost(lost)
            self._kinds.lost(lost)
        self._held.renewed(stamps, until_s=until_s)

    def _renewed_shards(self, epochs: dict[int, int], asked_at_s: float) -> None:
        self._notices.renewed(asked_at_s=asked_at_s)
        self._ownership.renewed(epochs, asked_at_s=asked_at_s)
        self._held.forget_unused()

    async def _let_go(self, shards: frozenset[int]) -> None:
        """Hand back what waits for hosts of these shards and wait for what is open or not yet stored."""
        await self._flights.hand_back(self._lanes.take_shards(shards))
        await self._flights.landed_in(shards)
        await self._settler.drained()
