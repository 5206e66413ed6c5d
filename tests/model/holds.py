# SPDX-License-Identifier: Apache-2.0
"""Holds: nothing of a paused sender begins once the pause has returned, and what was set aside is let go again.

Some deliveries of one sender, workers that claim, an operator who pauses and resumes, and the releaser. A worker goes
by what it read last, says up to which notice it has, and looks at the hold again after it set something aside. It does
two things at a time: it hears of notices while it claims and sends.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tests.model.explore import Move
from tests.model.process import Proc, Processes, Program, State, put

OPERATOR, RELEASER, SWEEP = 0, 1, 2
FIRST_WORKER = 3


class Hold(NamedTuple):
    """The hold's row: which of those that were begun it is, and whether it was ended."""

    mark: int
    over: bool = False


class Worker(NamedTuple):
    """A worker's place among the living, and what it has in memory."""

    known: int | None = None  # up to which notice it says that it knows; None: it has no place
    paused: bool = False
    ready: bool = False


class World(NamedTuple):
    """The database, what workers remember, and what may still happen."""

    rows: tuple[str, ...]  # queued, leased by a worker, aside, sent
    due: bool
    hold: Hold | None
    notices: int
    workers: tuple[Worker, ...]
    returned: bool  # a pause has returned, and nobody has begun to resume
    pauses: int
    crashes: int
    crashed: bool = False
    wrong: str | None = None


class Omit(StrEnum):
    """What can be left out."""

    WAITS = "a pause does not wait for the workers"
    JOIN_FIRST = "a worker that starts reads what is held before it has its place among the living"
    READ_FIRST = "a worker says that it knows before it has read what is held"
    AT_BEGIN = "only a claim looks at what is held, not the step in which a request begins"
    LOOK_AFTER = "who sets something aside does not look at the hold again"
    SAYS_AGAIN = "only the operator says that he has resumed, and not the releaser too"
    MARK = "the releaser deletes the hold though it began anew"
    LOWER = "what is let go does not make its host due"
    SWEEP = "nobody looks for what was set aside behind a hold that is over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of everything there is."""

    jobs: int = 1
    workers: int = 1
    pauses: int = 2
    crashes: int = 1


class Holding(Processes[World]):
    """The model."""

    def __init__(self, bounds: Bounds, omit: Omit | None = None) -> None:
        super().__init__()
        self.bounds = bounds
        self.omit = omit
        self.names = ("operator", "releaser", "sweep")
        for number in range(bounds.workers):
            self.names += (f"flights {number}", f"notices {number}")

    def start(self) -> State[World]:
        bounds = self.bounds
        world = World(
            rows=("queued",) * bounds.jobs,
            due=True,
            hold=None,
            notices=0,
            workers=(Worker(),) * bounds.workers,
            returned=False,
            pauses=bounds.pauses,
            crashes=bounds.crashes,
        )
        return State(world, (None,) * len(self.names))

    def errands(self, world: World, who: int) -> Iterator[Proc]:
        hold = world.hold
        if who == OPERATOR:
            if world.pauses:
                yield Proc("pause", ())
            if hold is not None and not hold.over:
                yield Proc("resume", ())
        elif who == RELEASER:
            if hold is not None and hold.over:
                yield Proc("release", (hold.mark,))
        elif who == SWEEP:
            # Without a crash nothing may need it.
            if world.crashed:
                yield Proc("mend", ())
        elif (who - FIRST_WORKER) % 2:
            yield from self._notices(world, (who - FIRST_WORKER) // 2)
        else:
            yield from self._flights(world, (who - FIRST_WORKER) // 2)

    def _notices(self, world: World, number: int) -> Iterator[Proc]:
        worker = world.workers[number]
        if worker.known is None:
            yield Proc("begin", (number,))
        elif worker.known < world.notices:
            yield Proc("take_in", (number,))

    def _flights(self, world: World, number: int) -> Iterator[Proc]:
        if world.workers[number].ready and world.due:
            for job, row in enumerate(world.rows):
                if row == "queued":
                    yield Proc("work", (number, job))

    # sender_control.SenderControl

    def pause(self) -> Program[World]:
        yield "store.holds.put_holds", lambda world: [(_put(world), None)]
        notice = yield "store.notices.announce_settings", _announced
        yield "store.notices.until_known", lambda world: self._returned(world, notice)

    def _returned(self, world: World, notice: int) -> list[tuple[World, None]]:
        waited_for = [worker for worker in world.workers if worker.known is not None and worker.known < notice]
        if waited_for and self.omit is not Omit.WAITS:
            return []
        return [(world._replace(returned=True), None)]

    def resume(self) -> Program[World]:
        yield "store.holds.end_hold", lambda world: [(_ended(world), None)]
        yield "store.notices.announce_settings", _announced

    # worker.notices.Notices, worker.holding.Holding.load

    def begin(self, number: int) -> Program[World]:
        if self.omit is not Omit.JOIN_FIRST:
            yield "store.shards.join", lambda world: [(_worker(world, number, known=-1), None)]
        yield from self.take_in(number)
        yield "ready", lambda world: [(_worker(world, number, ready=True), None)]

    def take_in(self, number: int) -> Program[World]:
        notice = yield "store.notices.read_notices", lambda world: [(world, world.notices)]
        if self.omit is not Omit.READ_FIRST:
            yield "store.holds.standing_holds", lambda world: [(_read(world, number), None)]
        yield "store.notices.say_known", lambda world: [(_worker(world, number, known=notice), None)]
        if self.omit is Omit.READ_FIRST:
            yield "store.holds.standing_holds", lambda world: [(_read(world, number), None)]

    # worker.claimer.Claimer, worker.flights.Flights._begin

    def work(self, number: int, job: int) -> Program[World]:
        answer = yield "store.claim.claim", lambda world: [_claimed(world, number, job)]
        if answer == "leased":
            answer = yield "worker.flights.Flights._begin", lambda world: [self._begun(world, number, job)]
        if answer == "aside" and self.omit is not Omit.LOOK_AFTER:
            over = yield "store.aside.check_holds", lambda world: [(world, _is_over(world))]
            if over:
                yield from self._let_go()

    def _begun(self, world: World, number: int, job: int) -> tuple[World, str]:
        if world.rows[job] != f"leased {number}":
            return world, "taken"
        if world.workers[number].paused and self.omit is not Omit.AT_BEGIN:
            return world._replace(rows=put(world.rows, job, "aside")), "aside"
        wrong = "a request began after the pause had returned" if world.returned else world.wrong
        return world._replace(rows=put(world.rows, job, "sent"), wrong=wrong), "sent"

    def _let_go(self) -> Program[World]:
        count = yield "store.aside.let_go", _let_go_rows
        if count and self.omit is not Omit.LOWER:
            yield "store.hosts.lower_due", lambda world: [(world._replace(due=True), None)]

    # worker.releaser.Releaser

    def release(self, mark: int) -> Program[World]:
        if self.omit is not Omit.SAYS_AGAIN:
            yield "store.notices.announce_settings", _announced
        yield from self._let_go()
        yield "store.holds.forget_hold", lambda world: [(self._forgotten(world, mark), None)]

    def _forgotten(self, world: World, mark: int) -> World:
        matches = world.hold is not None and world.hold.mark == mark and world.hold.over
        return world._replace(hold=None) if matches or self.omit is Omit.MARK else world

    def mend(self) -> Program[World]:
        stray = yield "store.aside.stray_holds", lambda world: [(world, _is_over(world) and "aside" in world.rows)]
        if stray and self.omit is not Omit.SWEEP:
            yield from self._let_go()
        yield "store.sweep.mend_dues", lambda world: [(world._replace(due=world.due or "queued" in world.rows), None)]

    # What happens by itself

    def events(self, state: State[World]) -> Iterator[Move[State[World]]]:
        world, procs = state
        if not world.crashes:
            return
        dead = world._replace(crashes=world.crashes - 1, crashed=True)
        for who in (OPERATOR, RELEASER, SWEEP):
            if procs[who] is not None:
                yield Move(f"the {self.names[who]} dies", State(dead, put(procs, who, None)), fault=True)
        for number, worker in enumerate(world.workers):
            if worker.known is not None:
                flights = FIRST_WORKER + 2 * number
                left = put(put(procs, flights, None), flights + 1, None)
                yield Move(f"worker {number} dies", State(_buried(dead, number), left), fault=True)

    # What must hold

    def broken(self, state: State[World]) -> str | None:
        return state.world.wrong

    def ended(self, state: State[World]) -> bool:
        """Everything was sent, and nothing is held."""
        return set(state.world.rows) == {"sent"} and state.world.hold is None


def _put(world: World) -> World:
    hold = world.hold
    if hold is not None and not hold.over:
        return world._replace(pauses=world.pauses - 1)
    # Another mark than any before it: as many pauses are left as were never made.
    return world._replace(hold=Hold(world.pauses), pauses=world.pauses - 1)


def _announced(world: World) -> list[tuple[World, int]]:
    return [(world._replace(notices=world.notices + 1), world.notices + 1)]


def _ended(world: World) -> World:
    hold = world.hold
    return world._replace(hold=hold._replace(over=True) if hold is not None else None, returned=False)


def _is_over(world: World) -> bool:
    return world.hold is None or world.hold.over


def _worker(
    world: World, number: int, *, known: int | None = None, paused: bool | None = None, ready: bool | None = None
) -> World:
    old = world.workers[number]
    new = Worker(
        old.known if known is None else max(known, -1 if old.known is None else old.known),
        old.paused if paused is None else paused,
        old.ready if ready is None else ready,
    )
    return world._replace(workers=put(world.workers, number, new))


def _read(world: World, number: int) -> World:
    return _worker(world, number, paused=not _is_over(world))


def _claimed(world: World, number: int, job: int) -> tuple[World, str]:
    if world.rows[job] != "queued":
        return world, "nothing"
    state = "aside" if world.workers[number].paused else f"leased {number}"
    rows = put(world.rows, job, state)
    return world._replace(rows=rows, due="queued" in rows), state.partition(" ")[0]


def _let_go_rows(world: World) -> list[tuple[World, int]]:
    rows = tuple("queued" if row == "aside" else row for row in world.rows)
    return [(world._replace(rows=rows), world.rows.count("aside"))]


def _buried(world: World, number: int) -> World:
    """Its obituary: its place is free, and what it had leased is queued, its host due."""
    mine = f"leased {number}"
    rows = tuple("queued" if row == mine else row for row in world.rows)
    return world._replace(rows=rows, due=world.due or mine in world.rows, workers=put(world.workers, number, Worker()))


_BASE = Bounds(pauses=1)

QUICK = _BASE
QUICK_OMISSION = Omit.LOOK_AFTER
LONG = {
    "two jobs": Bounds(jobs=2, pauses=1),
    "two pauses": Bounds(),
    "two deaths": Bounds(pauses=1, crashes=2),
    "two workers, no death": Bounds(workers=2, pauses=1, crashes=0),
}
FAILS = dict.fromkeys(Omit, _BASE) | {Omit.MARK: Bounds(crashes=0)}
