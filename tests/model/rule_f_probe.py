# SPDX-License-Identifier: Apache-2.0
"""Rule F: an open breaker lets one probe through at a time, and a probe is never lost.

One host whose breaker is open, some jobs, some workers. A worker takes the probe, leases a job, sends, and says what
came of it; it dies, stands still past its trust, finds no job, or has its job cancelled anywhere in between.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tests.model.explore import Move
from tests.model.process import Proc, Processes, Program, State, put


class World(NamedTuple):
    """The host's record, the jobs, and what workers have on the wire."""

    open: bool  # the breaker, not a request
    held: bool  # whether `hold_until` is still to come
    probe: int | None  # the stamp of who has it
    stamps: int
    jobs: int  # that wait
    leased: tuple[bool, ...]  # by worker: whether it has one
    requests: tuple[int | None, ...]  # by worker: the stamp that its open request was begun under
    trusts: tuple[bool, ...]  # by worker: whether it still believes in what it took
    crashes: int
    pauses: int
    cancels: int
    wrong: str | None = None


class Omit(StrEnum):
    """What can be left out of the rule."""

    GUARD = "taking the probe is a read and then a write"
    HOLD = "taking the probe does not hold the host"
    MENDS = "the hold of a probe does not end by itself"
    MATCH = "an outcome does not match the probe"
    MATCH_GIVING_BACK = "giving back does not match the probe"
    TRUST = "a probe begins without trust in its hold"
    ABORT = "a probe's request goes on when its trust has ended"
    LOWER = "a lowered `due` lifts the hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of everything there is."""

    workers: int = 2
    jobs: int = 2
    stamps: int = 3  # how often the probe may be taken
    crashes: int = 1
    pauses: int = 1
    cancels: int = 1


class Probing(Processes[World]):
    """The model."""

    def __init__(self, bounds: Bounds, omit: Omit | None = None) -> None:
        super().__init__()
        self.bounds = bounds
        self.omit = omit
        self.names = tuple(f"worker {number}" for number in range(bounds.workers))

    def start(self) -> State[World]:
        bounds = self.bounds
        world = World(
            open=True,
            held=True,
            probe=None,
            stamps=0,
            jobs=bounds.jobs,
            leased=(False,) * bounds.workers,
            requests=(None,) * bounds.workers,
            trusts=(True,) * bounds.workers,
            crashes=bounds.crashes,
            pauses=bounds.pauses,
            cancels=bounds.cancels,
        )
        return State(world, (None,) * bounds.workers)

    def errands(self, world: World, who: int) -> Iterator[Proc]:
        if world.open and not world.held and world.jobs and world.stamps < self.bounds.stamps:
            yield Proc("probe", (who,))

    # store.breakers.MongoBreakers: admit, record, give_back

    def probe(self, worker: int) -> Program[World]:
        if self.omit is Omit.GUARD:
            may = yield "read the breaker", lambda world: [(world, world.open and not world.held)]
            if not may:
                return
        stamp = yield "store.breakers._take", lambda world: [self._taken(world, worker)]
        if stamp is None:
            return
        leased = yield "store.claim._lease", lambda world: [_leased(world, worker)]
        if not leased:
            yield "store.breakers.give_back", lambda world: [(self._given_back(world, stamp), None)]
            return
        began = yield "the request", lambda world: [self._begun(world, worker, stamp)]
        if not began:
            yield "store.hand_back.hand_back", lambda world: [(_left(world, worker), None)]
            yield "store.breakers.give_back", lambda world: [(self._given_back(world, stamp), None)]
            return
        answer = yield "the answer", lambda world: _answers(world, worker)
        if answer == "good":
            yield "store.settle.write_ends", lambda world: [(_left(world, worker, ends=True), None)]
        elif answer != "aborted":
            yield "store.settle.write_retries", lambda world: [(_left(world, worker), None)]
        if answer == "aborted":
            # The lease was lost: the job is the reaper's.
            yield "store.reap.reap_expired", lambda world: [(_left(world, worker), None)]
            yield "store.breakers.give_back", lambda world: [(self._given_back(world, stamp), None)]
        else:
            yield "store.breakers.record", lambda world: [(self._recorded(world, stamp, answer), None)]

    def _taken(self, world: World, worker: int) -> tuple[World, int | None]:
        may = world.open and not world.held
        if (not may and self.omit is not Omit.GUARD) or world.stamps >= self.bounds.stamps:
            return world, None
        stamp = world.stamps + 1
        return (
            world._replace(
                held=self.omit is not Omit.HOLD, probe=stamp, stamps=stamp, trusts=put(world.trusts, worker, True)
            ),
            stamp,
        )

    def _begun(self, world: World, worker: int, stamp: int) -> tuple[World, bool]:
        if not world.trusts[worker] and self.omit is not Omit.TRUST:
            return world, False
        requests = put(world.requests, worker, stamp)
        wrong = world.wrong
        if sum(request is not None for request in requests) > 1:
            wrong = "two probes are on the wire"
        return world._replace(requests=requests, wrong=wrong), True

    def _recorded(self, world: World, stamp: int, answer: str) -> World:
        if world.probe != stamp:
            if self.omit is not Omit.MATCH:
                return world
            return world._replace(wrong="the breaker is decided by one who does not hold its probe")
        if answer == "good":
            return world._replace(open=False, held=False, probe=None)
        return world._replace(held=True, probe=None)

    def _given_back(self, world: World, stamp: int) -> World:
        if world.probe != stamp and self.omit is not Omit.MATCH_GIVING_BACK:
            return world
        return world._replace(held=False, probe=None)

    # What happens by itself

    def events(self, state: State[World]) -> Iterator[Move[State[World]]]:
        world, procs = state
        if world.held and world.open and self._may_run_out(state):
            yield Move("the hold runs out", State(world._replace(held=False), procs))
        if self.omit is Omit.LOWER and world.held:
            yield Move("store.hosts.lower_due", State(world._replace(held=False), procs))
        for worker, proc in enumerate(procs):
            if proc is None or not proc.seen or proc.seen[0] is None:
                continue
            requests = put(world.requests, worker, None)
            if world.crashes:
                # Its lease is reaped in time, with its job if it had one.
                dead = _left(world._replace(requests=requests, crashes=world.crashes - 1), worker)
                dead = dead._replace(trusts=put(world.trusts, worker, False))
                yield Move(f"worker {worker} dies", State(dead, put(procs, worker, None)), fault=True)
            if world.pauses and world.trusts[worker]:
                late = world._replace(trusts=put(world.trusts, worker, False), pauses=world.pauses - 1)
                if self.omit is not Omit.ABORT:
                    late = late._replace(requests=requests)
                yield Move(f"worker {worker} no longer trusts in its lease", State(late, procs), fault=True)
        if world.cancels and world.jobs:
            fewer = world._replace(jobs=world.jobs - 1, cancels=world.cancels - 1)
            yield Move("a waiting job is cancelled", State(fewer, procs), fault=True)

    def _may_run_out(self, state: State[World]) -> bool:
        """A quarantine ends in time; the hold of a probe when nobody who trusts in it renews it any more."""
        world, procs = state
        if world.probe is None:
            return True
        if self.omit is Omit.MENDS:
            return False
        return not any(
            proc is not None and world.probe in proc.seen and world.trusts[worker] for worker, proc in enumerate(procs)
        )

    # What must hold

    def broken(self, state: State[World]) -> str | None:
        return state.world.wrong

    def ended(self, state: State[World]) -> bool:
        """The breaker is closed; or there is nothing left to probe with, and the probe is to be had."""
        world = state.world
        if any(state.procs):
            return False
        if world.stamps >= self.bounds.stamps or not world.jobs:
            return not world.open or not world.held
        return not world.open


def _leased(world: World, worker: int) -> tuple[World, bool]:
    if not world.jobs:
        return world, False
    return world._replace(jobs=world.jobs - 1, leased=put(world.leased, worker, True)), True


def _left(world: World, worker: int, *, ends: bool = False) -> World:
    """A job leaves its lease, if there is one: it ends, or waits again."""
    jobs = world.jobs + (world.leased[worker] and not ends)
    return world._replace(jobs=jobs, leased=put(world.leased, worker, False))


def _answers(world: World, worker: int) -> list[tuple[World, str]]:
    if world.requests[worker] is None:
        return [(world, "aborted")]
    landed = world._replace(requests=put(world.requests, worker, None))
    return [(landed, "good"), (landed, "bad")]


_BASE = Bounds()

QUICK = _BASE
QUICK_OMISSION = Omit.HOLD
LONG = {
    "three workers": Bounds(workers=3),
    "more faults": Bounds(stamps=5, crashes=2, pauses=2),
}
FAILS = dict.fromkeys(Omit, _BASE)
