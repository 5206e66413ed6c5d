# SPDX-License-Identifier: Apache-2.0
"""Rule D: never more requests to a host than its limit, and no outcome of a lease that was taken.

One shard, one host, a limit of one, some jobs, two workers. A worker owns the shard while its lease in the database
says so, and trusts in it for a shorter time by its own clock. Workers stop at any point, for any time; leases of shards
and jobs run out then, and others take over.

A worker that stands still cannot abort what it has on the wire. Such a request counts here until its trust ends: the
other side then still has it open, but no outcome of it is stored.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tests.model.explore import Move
from tests.model.process import Proc, Processes, Program, State, put


class Row(NamedTuple):
    """A job: queued, leased or ended."""

    state: str = "queued"
    by: int | None = None
    stamp: int = 0
    expired: bool = False


class Hold(NamedTuple):
    """A job that a worker holds: trusted in or not, and whether a request of it is open."""

    job: int
    stamp: int
    trusted: bool = True
    open: bool = False
    answered: bool = False


class Memory(NamedTuple):
    """What a worker believes."""

    epoch: int | None = None  # of the shard, while it trusts that it owns it
    foreign: int = 0  # requests of others that it has counted for the host
    holds: tuple[Hold, ...] = ()


class World(NamedTuple):
    """The database, and what workers keep in memory."""

    rows: tuple[Row, ...]
    owner: int | None
    epoch: int
    runs: bool  # whether the shard's lease still runs
    memories: tuple[Memory, ...]
    stamps: int
    pauses: int  # how often trust may still end by itself
    crashes: int
    wrong: str | None = None


class Omit(StrEnum):
    """What can be left out of the rule."""

    CONFIRM = "a claim does not confirm that it still owns the shard"
    EPOCH = "a claim confirms the owner, under whatever epoch he has now"
    FOREIGN = "a new owner does not count what is leased by others"
    AFTER_LEASING = "a claim confirms before it leases"
    ABORT = "a request goes on when its trust has ended"
    TRUST = "a request begins without trust in the job's lease"
    EARLIER = "trust counts from the answer, not from before the statement"
    STAMP = "an outcome is written whatever stamp the row has"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of everything there is."""

    jobs: int = 2
    limit: int = 1
    pauses: int = 2
    crashes: int = 0
    epochs: int = 2  # how often the shard is taken
    leases: int = 3


class Fencing(Processes[World]):
    """The model. Each worker claims and flies side by side; taking the shard is a step of its own."""

    def __init__(self, bounds: Bounds, omit: Omit | None = None) -> None:
        super().__init__()
        self.bounds = bounds
        self.omit = omit
        self.names = ("claimer 0", "flights 0", "claimer 1", "flights 1")

    def start(self) -> State[World]:
        bounds = self.bounds
        world = World(
            rows=(Row(),) * bounds.jobs,
            owner=None,
            epoch=0,
            runs=False,
            memories=(Memory(), Memory()),
            stamps=0,
            pauses=bounds.pauses,
            crashes=bounds.crashes,
        )
        return State(world, (None,) * 4)

    def errands(self, world: World, who: int) -> Iterator[Proc]:
        worker, flies = divmod(who, 2)
        memory = world.memories[worker]
        if not flies:
            if memory.epoch is not None and world.stamps < self.bounds.leases:
                yield Proc("claim", (worker, memory.epoch))
            if any(row.state == "leased" and row.expired for row in world.rows):
                yield Proc("reap", ())
            return
        for hold in memory.holds:
            if hold.answered:
                yield Proc("end", (worker, hold.job))
                yield Proc("retry", (worker, hold.job))
            elif not hold.open:
                if self._may_begin(memory, hold):
                    yield Proc("begin", (worker, hold.job))
                else:
                    yield Proc("hand_back", (worker, hold.job))

    def _may_begin(self, memory: Memory, hold: Hold) -> bool:
        """`worker.flights.Flights._begin_next` and `worker.lanes.Lanes.next`.

        That the shards are trusted in does not matter here: a worker that has lost this one still owns others.
        """
        room = self.bounds.limit - memory.foreign - sum(other.open for other in memory.holds)
        return (hold.trusted or self.omit is Omit.TRUST) and room > 0

    # store.claim.claim

    def claim(self, worker: int, epoch: int) -> Program[World]:
        foreign = yield "store.lane.leased_in", lambda world: [(world, self._foreign(world, worker))]
        if self.bounds.limit - foreign <= 0:
            return
        if self.omit is Omit.AFTER_LEASING and not (
            yield "store.claim._still_owned", lambda world: [(world, self._owns(world, worker, epoch))]
        ):
            return
        leased = yield "store.claim._lease", lambda world: [self._leased(world, worker)]
        if leased is None:
            return
        owned = True
        if self.omit not in (Omit.CONFIRM, Omit.AFTER_LEASING):
            owned = yield "store.claim._still_owned", lambda world: [(world, self._owns(world, worker, epoch))]
        if owned:
            yield "worker.claimer._take", lambda world: [(self._held(world, worker, leased, foreign), None)]
        else:
            yield "store.hand_back.hand_back", lambda world: [(_released(world, leased), None)]

    def _foreign(self, world: World, worker: int) -> int:
        if self.omit is Omit.FOREIGN:
            return 0
        return sum(row.state == "leased" and row.by != worker for row in world.rows)

    def _leased(self, world: World, worker: int) -> tuple[World, tuple[int, int] | None]:
        for job, row in enumerate(world.rows):
            if row.state == "queued":
                stamp = world.stamps + 1
                rows = put(world.rows, job, Row("leased", worker, stamp))
                return world._replace(rows=rows, stamps=stamp), (job, stamp)
        return world, None

    def _owns(self, world: World, worker: int, epoch: int) -> bool:
        return world.owner == worker and (world.epoch == epoch or self.omit is Omit.EPOCH)

    def _held(self, world: World, worker: int, leased: tuple[int, int], foreign: int) -> World:
        memory = world.memories[worker]
        # Trust counts from before the statement: if the lease has run out meanwhile, so has the trust.
        row = world.rows[leased[0]]
        trusted = self.omit is Omit.EARLIER or (row.stamp == leased[1] and not row.expired)
        holds = (*memory.holds, Hold(*leased, trusted=trusted))
        return world._replace(memories=put(world.memories, worker, memory._replace(holds=holds, foreign=foreign)))

    # worker.flights

    def begin(self, worker: int, job: int) -> Program[World]:
        yield "worker.flights.Flights._begin_next", lambda world: [(self._begun(world, worker, job), None)]
        yield "the answer", lambda world: [(_landed(world, worker, job), None)]

    def _begun(self, world: World, worker: int, job: int) -> World:
        memory = world.memories[worker]
        hold = _hold_of(memory, job)
        if hold is None or not self._may_begin(memory, hold):
            return world
        world = _with_hold(world, worker, hold._replace(open=True))
        opened = sum(hold.open for memory in world.memories for hold in memory.holds)
        if opened > self.bounds.limit:
            return world._replace(wrong="more requests are open than the host's limit")
        return world

    def end(self, worker: int, job: int) -> Program[World]:
        yield "store.settle.write_ends", lambda world: [(self._settled(world, worker, job, "ended"), None)]

    def retry(self, worker: int, job: int) -> Program[World]:
        yield "store.settle.write_retries", lambda world: [(self._settled(world, worker, job, "queued"), None)]

    def hand_back(self, worker: int, job: int) -> Program[World]:
        yield "store.hand_back.hand_back", lambda world: [(self._settled(world, worker, job, "queued"), None)]

    def _settled(self, world: World, worker: int, job: int, state: str) -> World:
        hold = _hold_of(world.memories[worker], job)
        if hold is None:
            return world
        world = _without_hold(world, worker, job)
        row = world.rows[job]
        if row.state != "leased" or row.stamp != hold.stamp:
            if self.omit is not Omit.STAMP:
                return world
            return world._replace(wrong=f"job {job} is written by one whose lease was taken")
        return world._replace(rows=put(world.rows, job, Row(state)))

    # worker.reaper

    def reap(self) -> Program[World]:
        yield "store.reap.reap_expired", lambda world: [(_reaped(world), None)]

    # What happens by itself

    def events(self, state: State[World]) -> Iterator[Move[State[World]]]:
        world, procs = state
        yield from self._trust_ends(world, procs)
        for worker, memory in enumerate(world.memories):
            # worker.ownership.Ownership.tick: a loop of its own, whatever the claimer is doing.
            if not world.runs and memory.epoch is None and world.epoch < self.bounds.epochs:
                yield Move(f"worker {worker}: store.shards.take", State(_taken(world, worker), procs))
        if world.runs and (world.owner is None or world.memories[world.owner].epoch is None):
            # The owner's trust ends before the lease does.
            yield Move("the shard's lease runs out", State(world._replace(runs=False), procs))
        for job, row in enumerate(world.rows):
            if row.state == "leased" and not row.expired and not self._is_believed(world, row):
                after = world._replace(rows=put(world.rows, job, row._replace(expired=True)))
                claiming = row.by is not None and procs[2 * row.by] is not None
                if claiming and not world.pauses:
                    continue
                after = after._replace(pauses=after.pauses - claiming)
                yield Move(f"the lease of job {job} runs out", State(after, procs), fault=claiming)
        for worker, memory in enumerate(world.memories):
            if world.crashes and (memory.epoch is not None or memory.holds):
                rows = tuple(row._replace(by=None) if row.by == worker else row for row in world.rows)
                dead = world._replace(
                    rows=rows,
                    owner=None if world.owner == worker else world.owner,
                    memories=put(world.memories, worker, Memory()),
                    crashes=world.crashes - 1,
                )
                left = put(put(procs, 2 * worker, None), 2 * worker + 1, None)
                yield Move(f"worker {worker} dies", State(dead, left), fault=True)

    def _is_believed(self, world: World, row: Row) -> bool:
        if row.by is None:
            return False
        hold = next((hold for hold in world.memories[row.by].holds if hold.stamp == row.stamp), None)
        return hold is not None and hold.trusted and self.omit is not Omit.EARLIER

    def _trust_ends(self, world: World, procs: tuple[Proc | None, ...]) -> Iterator[Move[State[World]]]:
        """A worker stands still, or the database is away, until its trust has ended by its own clock."""
        if not world.pauses:
            return
        for worker, memory in enumerate(world.memories):
            fewer = world._replace(pauses=world.pauses - 1)
            if memory.epoch is not None:
                # It learns that it owns nothing, and may take again.
                lost = memory._replace(epoch=None)
                after = fewer._replace(memories=put(world.memories, worker, lost))
                yield Move(f"worker {worker} no longer trusts in the shard", State(after, procs), fault=True)
            for hold in memory.holds:
                if hold.trusted:
                    aborts = hold.open and self.omit is not Omit.ABORT
                    if aborts:
                        after = _without_hold(fewer, worker, hold.job)
                        left = put(procs, 2 * worker + 1, None)
                    else:
                        after, left = _with_hold(fewer, worker, hold._replace(trusted=False)), procs
                    yield Move(f"worker {worker} no longer trusts in job {hold.job}", State(after, left), fault=True)

    # What must hold

    def broken(self, state: State[World]) -> str | None:
        return state.world.wrong

    def ended(self, state: State[World]) -> bool:
        """Every job has ended, or the bounds are used up: a job waits, is leased by nobody, and may be claimed."""
        world = state.world
        spent = world.stamps >= self.bounds.leases or world.epoch >= self.bounds.epochs
        return all(row.state == "ended" or (spent and row.state == "queued") for row in world.rows)


def _taken(world: World, worker: int) -> World:
    memory = world.memories[worker]._replace(epoch=world.epoch + 1)
    memories = put(world.memories, worker, memory)
    return world._replace(owner=worker, epoch=world.epoch + 1, runs=True, memories=memories)


def _hold_of(memory: Memory, job: int) -> Hold | None:
    return next((hold for hold in memory.holds if hold.job == job), None)


def _with_hold(world: World, worker: int, changed: Hold) -> World:
    memory = world.memories[worker]
    holds = tuple(changed if hold.job == changed.job else hold for hold in memory.holds)
    return world._replace(memories=put(world.memories, worker, memory._replace(holds=holds)))


def _without_hold(world: World, worker: int, job: int) -> World:
    memory = world.memories[worker]
    holds = tuple(hold for hold in memory.holds if hold.job != job)
    return world._replace(memories=put(world.memories, worker, memory._replace(holds=holds)))


def _landed(world: World, worker: int, job: int) -> World:
    hold = _hold_of(world.memories[worker], job)
    if hold is None or not hold.open:
        return world
    return _with_hold(world, worker, hold._replace(open=False, answered=True))


def _released(world: World, leased: tuple[int, int]) -> World:
    job, stamp = leased
    row = world.rows[job]
    if row.state != "leased" or row.stamp != stamp:
        return world
    return world._replace(rows=put(world.rows, job, Row()))


def _reaped(world: World) -> World:
    rows = tuple(Row() if row.state == "leased" and row.expired else row for row in world.rows)
    return world._replace(rows=rows)


_BASE = Bounds()

QUICK = _BASE
QUICK_OMISSION = Omit.CONFIRM
LONG = {
    "three owners": Bounds(pauses=3, epochs=3, leases=4),
    "a worker dies": Bounds(pauses=1, crashes=1),
    "a limit of two": Bounds(jobs=3, limit=2, pauses=2, leases=4),
}
FAILS = dict.fromkeys(Omit, _BASE) | {Omit.EPOCH: Bounds(epochs=3, leases=2)}
