# SPDX-License-Identifier: Apache-2.0
"""Pausing a host, or everything: after the pause returned no request begins, whoever stops, is cut off, or comes late.

One host, some jobs, some workers, one pause: of the host, which claims find in its record, or of everything, which a
worker has in its memory. A worker claims and hears of the pause in two tasks that know nothing of
each other; it loses its place among the living and gets it back, or joins when the pause is under way.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from tests.model.explore import Move
from tests.model.process import Proc, Processes, Program, State, put


class Worker(NamedTuple):
    """What the database has of a worker, and what is in its memory."""

    joined: bool  # it has taken a place among the living, ever
    place: bool  # whether it has one now, by the database's clock
    known: int  # the notice that it has said that it knows
    trusts: bool  # whether it believes, by its own clock, that it has its place
    lapses: int  # how often it got its place back
    looked: int  # the last of these after which it has looked
    halted: bool  # whether it knows that everything is paused
    claiming: int  # the number of the claim that is under way, or 0
    hand: int  # jobs that are leased here and not begun
    noticed: int  # the notice that it has dealt with


class World(NamedTuple):
    """The host's record, the notice, the jobs, and the workers."""

    paused: bool
    notice: int
    returned: bool
    queued: int
    claims: int
    workers: tuple[Worker, ...]
    lapses: int
    wrong: str | None = None


class Omit(StrEnum):
    """What can be left out."""

    WAITS = "the pause does not wait for anybody"
    RECORD_FIRST = "the notice is written before the host's record"
    CLAIMS_END = "a worker does not wait for the claim that is under way"
    HALTS = "a worker keeps what it has in hand"
    KNOWN_LAST = "a worker says that it knows before it has halted anything"
    LAPSE = "a worker that lost its place begins before it has looked"
    TRUST = "a worker begins without trust in its place"
    JOINS_FIRST = "a worker that starts reads what is paused before it joins"
    FINDS = "a claim does not look whether the host is paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of everything there is."""

    workers: int = 1
    joining: int = 0  # how many of them have not joined at first
    jobs: int = 1
    claims: int = 2
    lapses: int = 1
    everything: bool = False  # what is paused


_IDLE = Worker(
    joined=True,
    place=True,
    known=0,
    trusts=True,
    lapses=0,
    looked=0,
    halted=False,
    claiming=0,
    hand=0,
    noticed=0,
)
_AWAY = _IDLE._replace(joined=False, place=False, trusts=False, looked=-1)


class Pausing(Processes[World]):
    """The model: one who pauses, and of each worker the task that claims and the one that hears notices."""

    def __init__(self, bounds: Bounds, omit: Omit | None = None) -> None:
        super().__init__()
        self.bounds = bounds
        self.omit = omit
        tasks = ("claims", "notices")
        self.names = ("operator", *(f"worker {n} {task}" for n in range(bounds.workers) for task in tasks))

    def start(self) -> State[World]:
        bounds = self.bounds
        there = bounds.workers - bounds.joining
        workers = (*[_IDLE] * there, *[_AWAY] * bounds.joining)
        world = World(
            paused=False,
            notice=0,
            returned=False,
            queued=bounds.jobs,
            claims=bounds.claims,
            workers=workers,
            lapses=bounds.lapses,
        )
        return State(world, (None,) * len(self.names))

    def errands(self, world: World, who: int) -> Iterator[Proc]:
        if who == 0:
            if not world.notice:
                yield Proc("pause", ())
            return
        number, task = divmod(who - 1, 2)
        worker = world.workers[number]
        if not worker.joined:
            if task:
                yield Proc("join", (number,))
        elif task:
            if world.notice > worker.noticed or worker.looked < worker.lapses:
                yield Proc("look", (number,))
        elif world.claims and world.queued and worker.trusts and worker.looked >= 0 and not worker.halted:
            yield Proc("claim", (number,))

    # host_control.HostControl.pause_host

    def pause(self) -> Program[World]:
        write = "store.host_settings.pause_host", lambda world: [(world._replace(paused=True), None)]
        announce = "store.notices.announce_settings", lambda world: [(world._replace(notice=1), None)]
        if self.bounds.everything:
            # One row: the pause and the notice of it.
            yield "store.notices.pause_everything", lambda world: [(world._replace(paused=True, notice=1), None)]
        else:
            yield from (announce, write) if self.omit is Omit.RECORD_FIRST else (write, announce)
        yield "store.notices.until_known", lambda world: [(world._replace(returned=True), None)] * self._is_known(world)

    def _is_known(self, world: World) -> bool:
        return self.omit is Omit.WAITS or not any(worker.place and not worker.known for worker in world.workers)

    # worker.claimer.Claimer._claim

    def claim(self, number: int) -> Program[World]:
        ready = yield "store.claim.ready_hosts", lambda world: [self._found(world, number)]
        if ready:
            yield "store.claim.claim", lambda world: [(_leased(world, number), None)]
        yield "worker.claimer._take", lambda world: [(_with(world, number, claiming=0), None)]

    def _found(self, world: World, number: int) -> tuple[World, bool]:
        ready = not world.paused or self.bounds.everything or self.omit is Omit.FINDS
        after = world._replace(claims=world.claims - 1)
        return _with(after, number, claiming=after.claims + 1), ready

    # worker.notices.Notices

    def look(self, number: int) -> Program[World]:
        lapses = yield "begins to look", lambda world: [(world, world.workers[number].lapses)]
        notice, claiming = yield "store.notices.read_notices", lambda world: [self._read(world, number)]
        if self.omit is Omit.KNOWN_LAST:
            yield "store.notices.say_known", lambda world: [(_with(world, number, known=notice), None)]
        if claiming and self.omit is not Omit.CLAIMS_END:
            yield (
                "the claim under way has ended",
                lambda world: [(world, None)] * (world.workers[number].claiming != claiming),
            )
        paused = True
        if not self.bounds.everything:
            paused = yield "store.host_settings.settings_of", lambda world: [(world, world.paused)]
        if paused and notice and self.omit is not Omit.HALTS:
            yield "worker.flights.halt", lambda world: [(_handed_back(world, number), None)]
        if self.omit is not Omit.KNOWN_LAST:
            yield "store.notices.say_known", lambda world: [(_with(world, number, known=notice), None)]
        yield "done", lambda world: [(_done(world, number, notice, lapses), None)]

    def join(self, number: int) -> Program[World]:
        joins = (
            "store.shards.join",
            lambda world: [(_with(world, number, joined=True, place=True, trusts=True), None)],
        )
        if self.omit is not Omit.JOINS_FIRST:
            yield joins
        notice, _ = yield "store.notices.read_notices", lambda world: [self._read(world, number)]
        if self.omit is Omit.JOINS_FIRST:
            yield joins
        yield "store.notices.say_known", lambda world: [(_with(world, number, known=notice), None)]
        yield "done", lambda world: [(_done(world, number, notice, 0), None)]

    def _read(self, world: World, number: int) -> tuple[World, tuple[int, int]]:
        claiming = world.workers[number].claiming
        halted = world.paused and self.bounds.everything
        return _with(world, number, halted=halted), (world.notice, claiming)

    # What happens by itself

    def events(self, state: State[World]) -> Iterator[Move[State[World]]]:
        world, procs = state
        for number, worker in enumerate(world.workers):
            trusts = worker.trusts or self.omit is Omit.TRUST
            looked = worker.looked == worker.lapses or self.omit is Omit.LAPSE
            if worker.hand and trusts and looked and not worker.halted:
                begun = _with(world, number, hand=worker.hand - 1)
                if world.returned:
                    begun = begun._replace(wrong="a request begins after the pause returned")
                yield Move(f"worker {number}: worker.flights._begin", State(begun, procs))
            if worker.trusts and world.lapses:
                late = _with(world._replace(lapses=world.lapses - 1), number, trusts=False)
                yield Move(f"worker {number} no longer trusts in its place", State(late, procs), fault=True)
            if worker.place and not worker.trusts:
                yield Move(f"the place of worker {number} runs out", State(_with(world, number, place=False), procs))
            if worker.joined and not worker.trusts:
                back = _with(world, number, place=True, trusts=True, lapses=worker.lapses + 1)
                yield Move(f"worker {number}: store.renew.renew_shards", State(back, procs))

    # What must hold

    def broken(self, state: State[World]) -> str | None:
        return state.world.wrong

    def ended(self, state: State[World]) -> bool:
        """The pause has returned, and everybody has his place and knows."""
        world = state.world
        settled = all(
            worker.place and worker.looked == worker.lapses and worker.noticed == world.notice
            for worker in world.workers
        )
        return world.returned and settled and not any(state.procs)


def _with(world: World, number: int, **changes: Any) -> World:
    worker = world.workers[number]._replace(**changes)
    return world._replace(workers=put(world.workers, number, worker))


def _leased(world: World, number: int) -> World:
    if not world.queued:
        return world
    return _with(world._replace(queued=world.queued - 1), number, hand=world.workers[number].hand + 1)


def _handed_back(world: World, number: int) -> World:
    hand = world.workers[number].hand
    return _with(world._replace(queued=world.queued + hand), number, hand=0)


def _done(world: World, number: int, notice: int, lapses: int) -> World:
    """A look counts for the lapses before it began."""
    return _with(world, number, noticed=notice, looked=lapses)


_BASE = Bounds(jobs=2)
_ALL = Bounds(jobs=2, everything=True)
_LATE = Bounds(workers=1, joining=1, lapses=0, everything=True)

QUICK = _BASE
QUICK_OMISSION = Omit.LAPSE
LONG = {
    "two workers": Bounds(workers=2, jobs=2, claims=3),
    "one that joins": Bounds(workers=2, joining=1, jobs=2, claims=3),
    "more lapses": Bounds(jobs=2, claims=3, lapses=3),
    "everything": Bounds(workers=2, joining=1, jobs=2, claims=3, everything=True),
    "everything, more lapses": Bounds(jobs=2, claims=3, lapses=3, everything=True),
}
FAILS = {
    Omit.WAITS: _BASE,
    Omit.RECORD_FIRST: _BASE,
    Omit.CLAIMS_END: _BASE,
    Omit.HALTS: _BASE,
    Omit.KNOWN_LAST: _BASE,
    Omit.LAPSE: _BASE,
    Omit.TRUST: _BASE,
    Omit.JOINS_FIRST: _LATE,
    Omit.FINDS: _BASE,
}
