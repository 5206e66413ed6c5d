# SPDX-License-Identifier: Apache-2.0
"""Rule C: after a cancel returned, nothing of it begins; and it does return.

Some jobs of one cancel. Workers lease, begin, knock twice, end, retry, hand back, die and are reaped while the cancel
goes over the rows, then waits. A worker's memory, and what it has on the wire, are its own; the flag reaches it by a
read (store.cancel.flagged_of), which it may act on late.

Trust (rule D) is taken as given: a lease runs out only after its worker has stopped believing in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tests.model.explore import Move
from tests.model.process import Proc, Processes, Program, State, put


class Row(NamedTuple):
    """A job: blocked, queued, leased, delivered or cancelled."""

    state: str = "queued"
    by: int | None = None
    flag: bool = False
    begun: bool = False


class Hold(NamedTuple):
    """What a worker knows of a job that it has leased."""

    job: int
    knocks: int = 0  # how many requests of it have begun
    on_wire: bool = False
    cancelled: bool = False  # whether it has heard of the flag


class World(NamedTuple):
    """The database, and what processes keep in memory."""

    rows: tuple[Row, ...]
    holds: tuple[Hold | None, ...]  # by worker
    cancel: str  # not asked, going on, waiting, returned
    crashes: int
    wrong: str | None = None


class Omit(StrEnum):
    """What can be left out of the rule."""

    ONE_STATEMENT = "the cancel ends what is queued in one statement and flags what is leased in another, once"
    REPEATS = "the cancel reads what there is once, and does not look again"
    FLAG = "the cancel leaves alone what is leased"
    WAITS = "the cancel does not wait"
    DECIDES_AT_ONCE = "a worker that hears of the flag writes `begun` before it has decided whether to begin"
    NO_SECOND_KNOCK = "a worker that has heard of the flag knocks a second time"
    RETRY = "a retry does not look at the flag"
    HAND_BACK = "handing back does not look at the flag"
    REAPER = "the reaper does not look at the flag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of everything there is."""

    jobs: int = 1
    workers: int = 1
    crashes: int = 1
    blocked: int = 0  # how many jobs are blocked at first; each is promoted at some time


class Cancelling(Processes[World]):
    """The model."""

    def __init__(self, bounds: Bounds, omit: Omit | None = None) -> None:
        super().__init__()
        self.bounds = bounds
        self.omit = omit
        self.names = (
            "cancel",
            *(f"{part} {number}" for number in range(bounds.workers) for part in ("worker", "its ear")),
        )

    def start(self) -> State[World]:
        bounds = self.bounds
        rows = tuple(Row("blocked" if job < bounds.blocked else "queued") for job in range(bounds.jobs))
        world = World(rows=rows, holds=(None,) * bounds.workers, cancel="not asked", crashes=bounds.crashes)
        return State(world, (None,) * len(self.names))

    def errands(self, world: World, who: int) -> Iterator[Proc]:
        if who == 0:
            if world.cancel == "not asked":
                yield Proc("cancel", ())
            return
        worker, ear = divmod(who - 1, 2)
        hold = world.holds[worker]
        if ear:
            if self._flagged(world, worker) is not None:
                yield Proc("hear", (worker,))
        elif hold is None:
            yield from (Proc("lease", (worker, job)) for job, row in enumerate(world.rows) if row.state == "queued")
        else:
            yield from (Proc(program, (worker,)) for program in self._fates(hold))

    def _fates(self, hold: Hold) -> Iterator[str]:
        """What a worker may do with what it holds and has not on the wire."""
        if hold.knocks < 2 and (not hold.cancelled or (hold.knocks == 1 and self.omit is Omit.NO_SECOND_KNOCK)):
            yield "knock"
        if hold.knocks:
            yield from ("end", "retry")
        else:
            yield "end_unbegun" if hold.cancelled else "hand_back"

    # store.cancel.cancel

    def cancel(self) -> Program[World]:
        yield "asked", lambda world: [(world._replace(cancel="going on"), None)]
        if self.omit is Omit.ONE_STATEMENT:
            yield from self._hit_all(tuple(range(self.bounds.jobs)), leased=False)
            yield from self._hit_all(tuple(range(self.bounds.jobs)), waiting=False)
        elif self.omit is Omit.REPEATS:
            yield from self._hit_all((yield "store.select.selected", lambda world: [(world, self._queued(world))]))
        else:
            # A pass reads what is not ended and not flagged, and updates each row by its id; until it finds nothing.
            while found := (yield "store.select.selected", lambda world: [(world, self._unhit(world))]):
                yield from self._hit_all(found)
        if self.omit is not Omit.WAITS:
            yield "store.cancel.still_undecided", lambda world: [] if self._undecided(world) else [(world, None)]
        yield "returns", lambda world: [(world._replace(cancel="returned"), None)]

    def _hit_all(self, jobs: tuple[int, ...], *, waiting: bool = True, leased: bool = True) -> Program[World]:
        for job in jobs:
            yield from self._hit_one(job, waiting=waiting, leased=leased)

    def _hit_one(self, job: int, *, waiting: bool, leased: bool) -> Program[World]:
        yield "store.cancel._pass", lambda world: [(self._hit(world, job, waiting=waiting, leased=leased), None)]

    def _unhit(self, world: World) -> tuple[int, ...]:
        return tuple(
            job
            for job, row in enumerate(world.rows)
            if row.state in ("blocked", "queued")
            or (row.state == "leased" and not row.flag and self.omit is not Omit.FLAG)
        )

    def _queued(self, world: World) -> tuple[int, ...]:
        return tuple(job for job, row in enumerate(world.rows) if row.state in ("blocked", "queued"))

    def _hit(self, world: World, job: int, *, waiting: bool, leased: bool) -> World:
        row = world.rows[job]
        if row.state in ("blocked", "queued") and waiting:
            row = Row("cancelled")
        elif row.state == "leased" and leased and self.omit is not Omit.FLAG:
            row = row._replace(flag=True)
        return world._replace(rows=put(world.rows, job, row))

    def _undecided(self, world: World) -> bool:
        return any(row.state == "leased" and row.flag and not row.begun for row in world.rows)

    # the worker

    def lease(self, worker: int, job: int) -> Program[World]:
        mine = yield "store.claim._lease", lambda world: [self._leased(world, worker, job)]
        if mine:
            yield "worker.claimer._take", lambda world: [(self._taken(world, worker, job), None)]

    def _leased(self, world: World, worker: int, job: int) -> tuple[World, bool]:
        if world.rows[job].state != "queued":
            return world, False
        return world._replace(rows=put(world.rows, job, Row("leased", by=worker))), True

    def _taken(self, world: World, worker: int, job: int) -> World:
        return world._replace(holds=put(world.holds, worker, Hold(job)))

    def hear(self, worker: int) -> Program[World]:
        """`worker.flights.Flights.cancel`, with what `flagged_of` has found."""
        job = yield "store.cancel.flagged_of", lambda world: [(world, self._flagged(world, worker))]
        if job is None:
            return
        if self.omit is Omit.DECIDES_AT_ONCE:
            yield "store.cancel.mark_begun", lambda world: [(_marked(world, worker, job), None)]
            yield "decide", lambda world: [(_heard(world, worker, job), None)]
            return
        on_wire = yield "decide", lambda world: [(_heard(world, worker, job), _has_begun(world, worker, job))]
        if on_wire:
            yield "store.cancel.mark_begun", lambda world: [(_marked(world, worker, job), None)]

    def _flagged(self, world: World, worker: int) -> int | None:
        flagged = [job for job, row in enumerate(world.rows) if row.state == "leased" and row.by == worker and row.flag]
        return next((job for job in flagged if not world.rows[job].begun), None)

    def knock(self, worker: int) -> Program[World]:
        yield "worker.flights._begin, the request", lambda world: [(self._begun(world, worker), None)]
        yield "the answer", lambda world: [(self._answered(world, worker), None)]

    def _begun(self, world: World, worker: int) -> World:
        hold = world.holds[worker]
        if hold is None:
            return world
        wrong = "a request begins after the cancel returned" if world.cancel == "returned" else world.wrong
        hold = hold._replace(knocks=hold.knocks + 1, on_wire=True)
        return world._replace(holds=put(world.holds, worker, hold), wrong=wrong)

    def _answered(self, world: World, worker: int) -> World:
        hold = world.holds[worker]
        return world if hold is None else world._replace(holds=put(world.holds, worker, hold._replace(on_wire=False)))

    def end(self, worker: int) -> Program[World]:
        yield "store.settle.write_ends", lambda world: [(self._leave(world, worker, "delivered"), None)]

    def end_unbegun(self, worker: int) -> Program[World]:
        yield "store.settle.write_ends: cancelled", lambda world: [(self._leave(world, worker, "cancelled"), None)]

    def retry(self, worker: int) -> Program[World]:
        looks = self.omit is not Omit.RETRY
        yield "store.settle.write_retries", lambda world: [(self._leave(world, worker, "queued", looks=looks), None)]

    def hand_back(self, worker: int) -> Program[World]:
        looks = self.omit is not Omit.HAND_BACK
        yield "store.hand_back.hand_back", lambda world: [(self._leave(world, worker, "queued", looks=looks), None)]

    def _leave(self, world: World, worker: int, state: str, *, looks: bool = True) -> World:
        """Write a row under its stamp (store.leaving); a flagged one that would wait again is cancelled."""
        hold = world.holds[worker]
        if hold is None:
            return world
        world = world._replace(holds=put(world.holds, worker, None))
        row = world.rows[hold.job]
        if row.state != "leased" or row.by != worker:
            return world
        if state == "queued" and row.flag and looks:
            state = "cancelled"
        return world._replace(rows=put(world.rows, hold.job, Row(state)))

    # What happens by itself

    def events(self, state: State[World]) -> Iterator[Move[State[World]]]:
        world, procs = state
        for job, row in enumerate(world.rows):
            if row.state == "blocked":
                after = world._replace(rows=put(world.rows, job, row._replace(state="queued")))
                yield Move(f"job {job} is promoted", State(after, procs))
            if row.state == "leased" and row.by is None:
                # store.reap.reap_expired
                ends = row.flag and self.omit is not Omit.REAPER
                after = world._replace(rows=put(world.rows, job, Row("cancelled" if ends else "queued")))
                yield Move(f"the dead worker's lease of job {job} is reaped", State(after, procs))
        if not world.crashes:
            return
        for worker, hold in enumerate(world.holds):
            if hold is not None or procs[1 + 2 * worker] is not None:
                rows = tuple(row._replace(by=None) if row.by == worker else row for row in world.rows)
                dead = world._replace(rows=rows, holds=put(world.holds, worker, None), crashes=world.crashes - 1)
                left = put(put(procs, 1 + 2 * worker, None), 2 + 2 * worker, None)
                yield Move(f"worker {worker} dies", State(dead, left), fault=True)

    # What must hold

    def broken(self, state: State[World]) -> str | None:
        return state.world.wrong

    def ended(self, state: State[World]) -> bool:
        """The cancel has returned, and every job has ended."""
        world = state.world
        return world.cancel == "returned" and all(row.state in ("delivered", "cancelled") for row in world.rows)


def _heard(world: World, worker: int, job: int) -> World:
    hold = world.holds[worker]
    if hold is None or hold.job != job:
        return world
    return world._replace(holds=put(world.holds, worker, hold._replace(cancelled=True)))


def _has_begun(world: World, worker: int, job: int) -> bool:
    hold = world.holds[worker]
    return hold is not None and hold.job == job and hold.knocks > 0


def _marked(world: World, worker: int, job: int) -> World:
    row = world.rows[job]
    return world if row.by != worker else world._replace(rows=put(world.rows, job, row._replace(begun=True)))


_ONE = Bounds()
_TWO = Bounds(jobs=2, workers=2)

QUICK = _ONE
QUICK_OMISSION = Omit.WAITS
LONG = {
    "two jobs, two workers": _TWO,
    "two jobs, one blocked, one worker that dies twice": Bounds(jobs=2, blocked=1, crashes=2),
}
FAILS = dict.fromkeys(Omit, _ONE)
