# SPDX-License-Identifier: Apache-2.0
"""Lanes that change: a portable job moves to the lane of the gateway that it tries next, and is not lost on the way.

Two gateways, each with a worker that owns its host. A job is tried at the first, then at the second; when both have
failed it is retried at the first. Rule B says: whoever makes a row queued lowers `due` after it, and a crash in between
mends itself in one lease. In the lane that a row leaves it does, but nothing makes the lane due that it comes to. So
the row moves under its lease: first into the other lane, still leased, then that host is due within a lease, and only
then is the row queued and the host due now (`store.move`). What waits for a gateway that is held is moved in the same
way by the owner of its lane, who leases it where it stands, whenever he likes (`worker.passing`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tests.model.explore import Move
from tests.model.process import Proc, Processes, Program, State, put

_CLAIMER, _FLIGHTS, _PASSING = range(3)


class Row(NamedTuple):
    """A job: queued, leased or ended, in the lane of a gateway."""

    state: str = "queued"
    lane: int = 0
    by: int | None = None


class World(NamedTuple):
    """The database, and what workers hold."""

    rows: tuple[Row, ...]
    due: tuple[bool, bool]  # by gateway: within a lease
    asks: tuple[int, int]
    holds: tuple[int | None, int | None]  # by worker: the job that it has leased
    crashes: int
    passes: int


class Omit(StrEnum):
    """What can be left out of the rule."""

    UNDER_LEASE = "the row is queued in the other lane at once, and then its host is due"
    DUE_BEFORE = "the row moves under its lease, and its host is due only when it is queued"
    LEASED = "a claim does not look at what is leased in its lane"
    OTHER_LANE = "the host that the row leaves is due, not the one that it comes to"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of everything there is."""

    jobs: int = 1
    crashes: int = 1
    passes: int = 0
    """How often what waits is passed on: a gateway must not be held again and again for a job to be found."""


class Moving(Processes[World]):
    """The model. Each worker claims, flies and passes on side by side."""

    def __init__(self, bounds: Bounds, omit: Omit | None = None) -> None:
        super().__init__()
        self.bounds = bounds
        self.omit = omit
        self.names = tuple(f"{what} {worker}" for worker in (0, 1) for what in ("claimer", "flights", "passing"))

    def start(self) -> State[World]:
        rows = (Row(),) * self.bounds.jobs
        world = World(
            rows=rows,
            due=(True, False),
            asks=(0, 0),
            holds=(None, None),
            crashes=self.bounds.crashes,
            passes=self.bounds.passes,
        )
        return State(world, (None,) * len(self.names))

    def errands(self, world: World, who: int) -> Iterator[Proc]:
        worker, part = divmod(who, 3)
        job = world.holds[worker]
        if part == _PASSING:
            if world.passes:
                for waiting, row in enumerate(world.rows):
                    if row.state == "queued" and row.lane == worker:
                        yield Proc("pass_on", (worker, waiting))
        elif part == _CLAIMER and world.due[worker] and job is None:
            yield Proc("claim", (worker,))
        elif part == _FLIGHTS and job is not None:
            yield Proc("end", (worker, job))
            yield Proc("move", (worker, job))

    # store.claim.claim, by the owner of a gateway's host

    def claim(self, worker: int) -> Program[World]:
        leased, idle, asks = yield "read the lane, lease", lambda world: [self._claimed(world, worker)]
        if idle and not leased:
            yield "store.claim._show", lambda world: [(_shown(world, worker, asks), None)]

    def _claimed(self, world: World, worker: int) -> tuple[World, tuple[bool, bool, "Asks"]]:
        asks = Asks(worker, world.asks[worker])
        for job, row in enumerate(world.rows):
            if row.state == "queued" and row.lane == worker:
                rows = put(world.rows, job, Row("leased", worker, worker))
                return world._replace(rows=rows, holds=put(world.holds, worker, job)), (True, False, asks)
        held = any(row.state == "leased" and row.lane == worker for row in world.rows)
        return world, (False, not held or self.omit is Omit.LEASED, asks)

    # a delivery's end, and its move to the next gateway

    def end(self, worker: int, job: int) -> Program[World]:
        yield "store.settle.write_ends", lambda world: [(_written(world, worker, job, Row("ended")), None)]

    def move(self, worker: int, job: int) -> Program[World]:
        there = 1 - worker
        if self.omit is not Omit.UNDER_LEASE:
            yield "store.move.move_rows", lambda world: [(_moved(world, worker, job, there), None)]
            if self.omit is not Omit.DUE_BEFORE:
                lane = worker if self.omit is Omit.OTHER_LANE else there
                yield "store.move.announce_rows", lambda world: [(_lowered(world, lane), None)]
        queued = Row("queued", there)
        yield "store.settle.write_retries", lambda world: [(_written(world, worker, job, queued), None)]
        lane = worker if self.omit is Omit.OTHER_LANE else there
        yield "store.hosts.lower_due", lambda world: [(_lowered(world, lane), None)]

    # what waits for a gateway that is held

    def pass_on(self, worker: int, job: int) -> Program[World]:
        if (yield "store.waiting.hold_waiting", lambda world: [_held(world, worker, job)]):
            yield from self.move(worker, job)

    # What happens by itself

    def events(self, state: State[World]) -> Iterator[Move[State[World]]]:
        world, procs = state
        for job, row in enumerate(world.rows):
            if row.state == "leased" and row.by is None:
                # The reaper dies too, before it has said that the host is due: that must mend itself.
                back = world._replace(rows=put(world.rows, job, Row("queued", row.lane)))
                yield Move(f"the lease of job {job} is reaped", State(_lowered(back, row.lane), procs))
                if world.crashes:
                    dead = back._replace(crashes=world.crashes - 1)
                    yield Move(f"the lease of job {job} is reaped, the reaper dies", State(dead, procs), fault=True)
        if world.crashes:
            for worker in (0, 1):
                rows = tuple(row._replace(by=None) if row.by == worker else row for row in world.rows)
                left = tuple(None if who // 3 == worker else proc for who, proc in enumerate(procs))
                if rows != world.rows or left != procs:
                    dead = world._replace(rows=rows, holds=put(world.holds, worker, None), crashes=world.crashes - 1)
                    yield Move(f"worker {worker} dies", State(dead, left), fault=True)

    def canonical(self, state: State[World]) -> State[World]:
        """Only whether `asks` is still what a claim read matters."""
        world, procs = state
        procs = tuple(
            proc._replace(seen=((*proc.seen[0][:2], _relative(proc.seen[0][2], world.asks)),))
            if proc is not None and proc.program == "claim"
            else proc
            for proc in procs
        )
        return State(world._replace(asks=(0, 0)), procs)

    # What must hold

    def broken(self, state: State[World]) -> str | None:
        world = state.world
        if any(state.procs) or world.crashes < self.bounds.crashes:
            return None
        for job, row in enumerate(world.rows):
            if row.state == "queued" and not world.due[row.lane]:
                return f"job {job} can go and its host is not due though nobody failed"
        return None

    def ended(self, state: State[World]) -> bool:
        """Every job has ended."""
        return all(row.state == "ended" for row in state.world.rows)


class Asks(NamedTuple):
    """What a claim has read of a host's `asks`."""

    lane: int
    number: int


def _relative(asks: Asks, now: tuple[int, int]) -> Asks:
    return Asks(asks.lane, 0 if asks.number == now[asks.lane] else -1)


def _shown(world: World, lane: int, asks: Asks) -> World:
    return world if asks.number != world.asks[lane] else world._replace(due=put(world.due, lane, False))


def _lowered(world: World, lane: int) -> World:
    return world._replace(due=put(world.due, lane, True), asks=put(world.asks, lane, world.asks[lane] + 1))


def _held(world: World, worker: int, job: int) -> tuple[World, bool]:
    row = world.rows[job]
    if row.state != "queued" or row.lane != worker or not world.passes:
        return world, False
    rows = put(world.rows, job, Row("leased", worker, worker))
    return world._replace(rows=rows, passes=world.passes - 1), True


def _moved(world: World, worker: int, job: int, lane: int) -> World:
    row = world.rows[job]
    return world if row.by != worker else world._replace(rows=put(world.rows, job, row._replace(lane=lane)))


def _written(world: World, worker: int, job: int, then: Row) -> World:
    """Write a row under its stamp."""
    if world.holds[worker] == job:
        world = world._replace(holds=put(world.holds, worker, None))
    return world if world.rows[job].by != worker else world._replace(rows=put(world.rows, job, then))


_BASE = Bounds()

QUICK = Bounds(passes=1)
QUICK_OMISSION = Omit.UNDER_LEASE
LONG = {
    "two jobs": Bounds(jobs=2),
    "three jobs": Bounds(jobs=3),
    "passed on twice": Bounds(passes=2),
    "two jobs, passed on twice": Bounds(jobs=2, passes=2),
}
FAILS = dict.fromkeys(Omit, _BASE)
