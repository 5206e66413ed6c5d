# SPDX-License-Identifier: Apache-2.0
"""Flights: deliveries from the moment they begin until their outcome is gathered, and what ends them early."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, Final

from ojak.breaker.admission import BreakerScope
from ojak.model.job import Job
from ojak.model.outcome import SettledOutcome
from ojak.store.cancel import mark_begun
from ojak.store.database import DatabaseTrouble, QueueDatabase
from ojak.store.hand_back import hand_back
from ojak.store.settle import Retried, without_attempt
from ojak.worker.attempt import Attempter
from ojak.worker.attempted import Attempted, Outcome, put_off
from ojak.worker.attempts_told import AttemptsTold
from ojak.worker.board import FlightBoard
from ojak.worker.bodies import Bodies
from ojak.worker.circuits import Circuits
from ojak.worker.gates import Gates
from ojak.worker.held import Held
from ojak.worker.holding import Holding
from ojak.worker.lanes import Lanes
from ojak.worker.loops import end_tasks
from ojak.worker.probes import Probes
from ojak.worker.settler import Settler
from ojak.worker.standings import Standings

_log = logging.getLogger("ojak.worker.flights")

_STARTS_A_TURN: Final = 4


class _Halted(Exception):
    """A delivery may not begin now, and was not begun."""


class Flights:
    """Starts deliveries while slots are free, and sees each to its end.

    Args:
        db: the queue, to hand back to.
        attempter: makes one attempt.
        bodies, held, holding, gates, probes, circuits, lanes, standings: what deliveries are made from, and what they
            change.
        settler: takes the outcomes.
        board: what the supervisor reads after a death, or None without one.
        attempts: told of each attempt.
        on_landed: called when a slot was freed.
        on_held: called when a host is held, and what waited for it here was handed back.
        may_begin: whether anything may begin: the shards are still believed to be owned, and not everything is paused.
        lease_s: for how long probes are held.
        trust_needed_s: how much longer than now a lease must be believed for a request to begin under it.
    """

    def __init__(
        self,
        *,
        db: QueueDatabase,
        attempter: Attempter,
        bodies: Bodies,
        held: Held,
        holding: Holding,
        gates: Gates,
        probes: Probes,
        circuits: Circuits,
        lanes: Lanes,
        standings: Standings,
        settler: Settler,
        board: FlightBoard | None,
        attempts: AttemptsTold,
        on_landed: Callable[[], None],
        on_held: Callable[[], None],
        may_begin: Callable[[], bool],
        lease_s: float,
        trust_needed_s: float,
    ) -> None:
        self._db = db
        self._attempter = attempter
        self._bodies = bodies
        self._held = held
        self._holding = holding
        self._gates = gates
        self._probes = probes
        self._circuits = circuits
        self._lanes = lanes
        self._standings = standings
        self._settler = settler
        self._board = board
        self._attempts = attempts
        self._on_landed = on_landed
        self._on_held = on_held
        self._may_begin = may_begin
        self._held_for_s = lease_s
        self._trust_needed_s = trust_needed_s
        self._closed = False
        self._filling = False
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._on_wire: dict[bytes, Job] = {}
        self._flying: dict[bytes, Job] = {}
        self._cancelled: set[bytes] = set()
        self._halted: set[bytes] = set()
        self._board_slots: dict[bytes, int] = {}
        self._errands: set[asyncio.Task[None]] = set()
        self._landed = asyncio.Event()

    def fill(self) -> None:
        """Start jobs while slots are free, a few in each turn of the loop: many signatures in a row hold it up."""
        self._filling = False
        for _ in range(_STARTS_A_TURN):
            job = self._begin_next()
            if job is None:
                return
            self._tasks[job.id] = asyncio.create_task(self._fly_on(job))
        if not self._filling:
            self._filling = True
            asyncio.get_running_loop().call_soon(self.fill)

    def close(self) -> None:
        """Begin nothing any more."""
        self._closed = True

    def _begin_next(self) -> Job | None:
        """Begin the next job if a slot is free for one."""
        while not self._closed and self._settler.has_room():
            job = self._lanes.next()
            if job is None:
                return None
            if self._trust_left_s(job) >= self._trust_needed_s and self._may_begin():
                if self._board is not None:
                    self._board_slots[job.id] = self._board.begin(job.id)
                self._flying[job.id] = job
                return job
            # Begun now it could outlast its lease, and somebody else's request could stand beside ours.
            self._lanes.done(job, proven=None)
            self._lanes.over(job.id)
            self.return_soon([job])
        return None

    async def _fly_on(self, first: Job) -> None:
        """Make one delivery, then the next one that its slot is good for: a task for each would cost more."""
        job: Job | None = first
        task = asyncio.current_task()
        assert task is not None
        while job is not None:
            await self._fly(job)
            job = self._begin_next()
            if job is not None:
                self._tasks[job.id] = task

    def _trust_left_s(self, job: Job) -> float:
        """For how long a request may go on: as long as the lease is believed, and the probe, if it is one."""
        return min(self._held.trust_left_s(job), self._probes.trust_left_s(job.id))

    async def _attempt(self, job: Job) -> Attempted:
        if self._holding.any or job.scout is not None:
            entered = await self._holding.enter(job)
            if not isinstance(entered, Job):
                return Attempted(outcome=entered, quiet=True)
            job = entered
        if self._circuits.scope is BreakerScope.INBOX and (wait_s := await self._circuits.enter(job)):
            return put_off(job, wait_s)
        return await self._attempter.attempt(
            job,
            await self._bodies.get(job.body),
            allowance=lambda: self._allowance_s(job),
            begin=lambda: self._begin(job),
            probe=self._probes.probe_of(job.id) is not None,
            gone_before=self._holding.tries_gone(job),
        )

    async def _fly(self, job: Job) -> None:
        attempted: Attempted | None = None
        try:
            attempted = await self._attempt(job)
            # Its slot is free once the breaker has heard of it: the tenth failure is the last.
            await self._circuits.report(job, attempted.signal, again_s=attempted.again_s)
        except asyncio.CancelledError:
            if attempted is None:
                self._note_cut_off(job)
            else:
                self._settler.add(attempted.outcome)
            raise
        except _Halted:
            self._clear(job.id)
            self.return_soon([job])
        except DatabaseTrouble as error:
            # Its body could not be read: nothing was sent.
            _log.warning("a body could not be read; handed back", extra={"error": type(error).__name__})
            self._clear(job.id)
            self.return_soon([job])
        except (GeneratorExit, KeyboardInterrupt, SystemExit):
            # What ends the loop itself: it is nobody's to keep.
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, its lease would be renewed for ever
            attempted = attempted or self._attempter.failed(job, error)
            self._run_errand(self._probes.give_back([job.id], after_s=attempted.again_s))
        finally:
            self._tasks.pop(job.id, None)
            self._on_wire.pop(job.id, None)
            self._flying.pop(job.id, None)
            self._cancelled.discard(job.id)
            self._halted.discard(job.id)
            self._probes.leave_inbox(job)
            tells = attempted is not None and attempted.tells
            if tells:
                self._lanes.set_slots(job.lane, self._standings.slots(job.lane))
            self._lanes.done(job, proven=self._standings.proven(job.lane) if tells else None)
            self._landed.set()
        if attempted is not None:
            self._take_in(job, attempted)
        self._on_landed()

    def _take_in(self, job: Job, attempted: Attempted) -> None:
        self._run_errand(self._holding.learnt(job, attempted.outcome))
        self._settler.add(attempted.outcome)
        if attempted.hold_s is not None:
            self._shut_gate(job.lane, attempted.hold_s)
        self._attempts.tell(attempted)

    def _shut_gate(self, authority: str, hold_s: float) -> None:
        """Send a host nothing more for now: at once here, and for everybody once its record says so."""
        self._run_errand(self._write_gate(authority, hold_s, self._gates.shut(authority, hold_s)))

    async def _write_gate(self, authority: str, hold_s: float, jobs: Sequence[Job]) -> None:
        # The gate first: what is handed back makes its host due.
        await self._gates.write(authority, hold_s)
        await self._hand_back_held(jobs)

    async def _hand_back_held(self, jobs: Sequence[Job]) -> None:
        await self.hand_back(jobs)
        self._on_held()

    def return_soon(self, jobs: Sequence[Job]) -> None:
        """Give jobs back that were not begun, without waiting for it."""
        if jobs:
            self._run_errand(self.hand_back(jobs))

    def _begin(self, job: Job) -> Outcome | None:
        """What becomes of a delivery instead of a request. With None it begins, and counts as on the wire from here.

        Raises:
            _Halted: its host was paused, or everything, or its shards are not trusted any more, or we are cut off.
        """
        if job.id in self._cancelled:
            return without_attempt(job, SettledOutcome.CANCELLED, "cancelled")
        if (aside := self._holding.set_aside(job)) is not None:
            return aside
        if job.id in self._halted or not self._may_begin():
            raise _Halted
        self._on_wire[job.id] = job
        return None

    def _allowance_s(self, job: Job) -> float:
        """For how long the next request of a delivery may last: none is made after it was cancelled or paused."""
        if job.id in self._cancelled or job.id in self._halted or self._holding.is_paused(job.sender):
            return 0.0
        return self._trust_left_s(job)

    async def keep_to_holds(self) -> None:
        """Read which senders and inboxes are held, and begin nothing of theirs from now on. What waits is set aside."""
        await self._holding.load()
        jobs = self._lanes.take_where(lambda job: self._holding.is_paused(job.sender))
        for job in jobs:
            if (aside := self._holding.set_aside(job)) is not None:
                self._settler.add(aside)
        self._run_errand(self._probes.give_back([job.id for job in jobs]))

    async def cancel(self, ids: set[bytes]) -> None:
        """Deliveries were cancelled: end what has not begun, and say of what is on the wire that it is.

        What is neither here nor on the wire is about to come or to go: it is asked for again.
        """
        if not ids:
            return
        waiting = self._lanes.take_jobs(ids)
        for job in waiting:
            self._settler.add(without_attempt(job, SettledOutcome.CANCELLED, "cancelled"))
        self._cancelled |= ids & self._tasks.keys()
        begun: dict[bytes, list[bytes]] = {}
        for row_id in ids & self._on_wire.keys():
            begun.setdefault(self._on_wire[row_id].stamp, []).append(row_id)
        await self._probes.give_back([job.id for job in waiting])
        if begun:
            await mark_begun(self._db, begun)

    def _note_cut_off(self, job: Job) -> None:
        """A delivery was cut off. Its outcome is dropped if its lease was taken; else the inbox may have the body."""
        if job.id not in self._on_wire:
            # Not one byte of it: nothing was begun.
            self._clear(job.id)
            self.return_soon([job])
            return
        if self._held.trust_left_s(job) > 0:
            self._settler.add(
                Retried(
                    job=job,
                    delay_s=0.0,
                    # An attempt at several gateways goes on where it was cut off.
                    spent=self._probes.probe_of(job.id) is None and job.route is None,
                    status=None,
                    reason="cut-off",
                    scheme=None,
                    maybe_delivered=True,
                )
            )
        else:
            self._clear(job.id)
            # Its slot is free for others.
            asyncio.get_running_loop().call_soon(self.fill)

    def stored(self, batch: Iterable[Outcome]) -> None:
        """Outcomes are stored, or dropped for good: their deliveries are over."""
        for outcome in batch:
            self._clear(outcome.job.id)
            self._held.drop([outcome.job.id])

    def stop_host(self, authority: str) -> None:
        """The breaker of a host is open: hand back what waits for it here, but the probe.

        The claimer of the other line may have read the host before its probe was taken, and hear that it is held.
        """
        self._run_errand(self._hand_back_held(self._lanes.take_host(authority, but=self._probes.held())))

    async def halt(self, authorities: Collection[str] | None = None) -> None:
        """Begin no request to some hosts, or to any, of what is here now. What waits goes back."""
        names = self._lanes.names() if authorities is None else authorities
        waiting = [job for name in names for job in self._lanes.take_host(name)]
        self._halted |= {job.id for job in self._flying.values() if authorities is None or job.lane in authorities}
        await self._hand_back_held(waiting)

    def _clear(self, job_id: bytes) -> None:
        if self._board is not None and (slot := self._board_slots.pop(job_id, None)) is not None:
            self._board.clear(slot)
        if self._lanes.over(job_id):
            asyncio.get_running_loop().call_soon(self.fill)

    def lost(self, ids: set[bytes]) -> None:
        """Leases were taken: stop their requests, drop their outcomes."""
        # An outcome that is being stored is no longer leased either, and no loss.
        flying = {row_id: task for row_id, task in self._tasks.items() if row_id in ids}
        dropped = [job.id for job in self._lanes.take_jobs(ids)]
        self._held.drop([*dropped, *flying])
        for task in flying.values():
            task.cancel()
        if any(self._probes.probe_of(row_id) for row_id in (*flying, *dropped)):
            self._run_errand(self._probes.give_back([*flying, *dropped]))
        if flying or dropped:
            _log.warning("leases taken by others", extra={"running": len(flying), "waiting": len(dropped)})

    async def landed_in(self, shards: frozenset[int]) -> None:
        """Wait until no request to a host of `shards` is open."""
        while self._lanes.open_in(shards):
            self._landed.clear()
            await self._landed.wait()

    async def drain(self, within_s: float) -> None:
        """Wait for what is on the wire, at most so long."""
        tasks = set(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=within_s)

    async def cut_off(self) -> None:
        """End what is on the wire, and wait for what is being handed back."""
        self._gates.close()
        await end_tasks(set(self._tasks.values()))
        await asyncio.gather(*self._errands)

    async def hand_back(self, jobs: Sequence[Job]) -> None:
        """Give jobs back that were not begun, unspent."""
        if not jobs:
            return
        leases: dict[bytes, list[bytes]] = {}
        for job in jobs:
            leases.setdefault(job.stamp, []).append(job.id)
        self._held.drop(job.id for job in jobs)
        await self._probes.give_back([job.id for job in jobs])
        try:
            await hand_back(self._db, leases)
        except DatabaseTrouble as error:
            # Nobody renews them any more: they end by themselves.
            _log.warning("leases not handed back", extra={"count": len(jobs), "error": type(error).__name__})

    def renew_probes_soon(self) -> None:
        """Renew the probes of a store that is not in the queue's database."""
        self._run_errand(self._probes.renew(hold_s=self._held_for_s))

    def _run_errand(self, errand: Coroutine[Any, Any, None] | None) -> None:
        if errand is None:
            return
        task = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
