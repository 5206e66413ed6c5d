# SPDX-License-Identifier: Apache-2.0
"""Rule A: jobs of one order key go one after another, in the order in which they were sent, and none is left behind.

One key. Each sender sends its jobs one after another, and two senders at the same time; workers end or retry; one job
may be cancelled while it waits, and be sent again. What a claim reads of a lane is one step here (rule B).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from tests.model.explore import Move
from tests.model.process import Proc, Processes, Program, State, put

UNFINISHED = ("blocked", "queued", "leased")


class Row(NamedTuple):
    """A job: absent, blocked, queued, leased or ended."""

    state: str = "absent"
    seq: int = 0
    sender: int = 0  # who sent it last
    by: int | None = None


class World(NamedTuple):
    """The database, and what processes keep in memory."""

    rows: tuple[Row, ...]
    seq: int
    due: bool  # within a lease
    asks: int
    sent: tuple[int, ...]  # by sender: how many of its sends were answered
    hands: tuple[int | None, ...]  # by worker: the job that it has leased
    cancels: tuple[int, ...]  # jobs that are still to be cancelled
    crashes: int  # of workers
    deaths: int  # of senders
    wrong: str | None = None


class Omit(StrEnum):
    """What can be left out of the rule."""

    INDEX = "no unique index over what is queued and leased"
    LOWER_SEQ = "a new row looks for any unfinished row, not only for those of a lower `seq`"
    LOOK = "a new row that is blocked does not look"
    LOOK_FIRST = "what usually starts a chain is inserted queued without a look at whether one has started"
    LOOK_AFTER_REFUSAL = "a row that the index refused is inserted blocked and does not look"
    DUPLICATE_LOOKS = "a duplicate that is blocked does not look again"
    PROMOTES = "whoever ends a row promotes nothing"
    MATCH_BLOCKED = "a promotion matches whatever state the row has"
    MATCH_SEQ = "a promotion does not match `seq`"
    NEW_SEQ = "a revived row keeps its `seq`"
    CLAIM_LOOKS = "a claim that finds nothing does not look for what is blocked behind nothing"
    AT_ONCE = "a claim looks for what is blocked in a read of its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of everything there is."""

    sends: tuple[tuple[int, ...], ...] = ((0, 1), (2,))  # by sender: the jobs that it sends, one after another
    starters: frozenset[int] = frozenset()  # jobs that usually start a chain: a Create
    workers: int = 1
    crashes: int = 1
    cancels: tuple[int, ...] = ()
    deaths: int = 0  # of senders, which are started again and send again what was not answered


class Ordering(Processes[World]):
    """The model."""

    def __init__(self, bounds: Bounds, omit: Omit | None = None) -> None:
        super().__init__()
        self.bounds = bounds
        self.omit = omit
        self.roles = (
            [("sender", number) for number in range(len(bounds.sends))]
            + [(role, number) for number in range(bounds.workers) for role in ("worker", "claimer")]
            + [("canceller", 0)] * bool(bounds.cancels)
        )
        self.names = tuple(f"{role} {number}" for role, number in self.roles)

    def start(self) -> State[World]:
        bounds = self.bounds
        jobs = 1 + max(job for sends in bounds.sends for job in sends)
        world = World(
            rows=(Row(),) * jobs,
            seq=0,
            due=False,
            asks=0,
            sent=(0,) * len(bounds.sends),
            hands=(None,) * bounds.workers,
            cancels=bounds.cancels,
            crashes=bounds.crashes,
            deaths=bounds.deaths,
        )
        return State(world, (None,) * len(self.roles))

    def errands(self, world: World, who: int) -> Iterator[Proc]:
        role, number = self.roles[who]
        if role == "sender" and world.sent[number] < len(self.bounds.sends[number]):
            yield Proc("send", (number, self.bounds.sends[number][world.sent[number]]))
        elif role == "claimer" and world.due:
            yield Proc("claim", (number,))
        elif role == "worker" and world.hands[number] is not None:
            yield Proc("end", (number, world.hands[number]))
            yield Proc("retry", (number, world.hands[number]))
        elif role == "canceller":
            for job in world.cancels:
                if world.rows[job].state in ("blocked", "queued"):
                    yield Proc("cancel", (job,))

    # store.enqueue.enqueue

    def send(self, sender: int, job: int) -> Program[World]:
        looks = True
        if job in self.bounds.starters:
            started = self.omit is not Omit.LOOK_FIRST and (
                yield "look whether the chain has started", lambda world: [(world, self._head(world) is not None)]
            )
            answer = "refused"
            if not started:
                seq = yield "the server gives a seq", self._give_seq
                answer = yield (
                    "store.enqueue._insert queued",
                    lambda world: [self._inserted(world, sender, job, seq, "queued")],
                )
                looks = self.omit is not Omit.LOOK_AFTER_REFUSAL
        else:
            answer = "refused"
        if answer == "refused":
            seq = yield "the server gives a seq", self._give_seq
            answer = yield (
                "store.enqueue._insert blocked",
                lambda world: [self._inserted(world, sender, job, seq, "blocked")],
            )
            if answer == "ended":
                seq = yield "the server gives a seq", self._give_seq
                yield "store.enqueue._revive", lambda world: [(self._revived(world, sender, job, seq), None)]
            if answer == "duplicate" and self.omit is Omit.DUPLICATE_LOOKS:
                looks = False
            if looks and self.omit is not Omit.LOOK:
                mine = yield (
                    "look for an unfinished row of a lower seq",
                    lambda world: [(world, self._may_go(world, job))],
                )
                if mine:
                    yield "promote", lambda world: [(self._promoted(world, mine), None)]
        yield "store.hosts.lower_due", lambda world: [(self._answered(_lowered(world), sender), None)]

    def _give_seq(self, world: World) -> list[tuple[World, int]]:
        return [(world._replace(seq=world.seq + 1), world.seq)]

    def _inserted(self, world: World, sender: int, job: int, seq: int, state: str) -> tuple[World, str]:
        row = world.rows[job]
        if row.state != "absent":
            return world, "ended" if row.state == "ended" and job in self.bounds.cancels else "duplicate"
        if state == "queued" and self._is_taken(world):
            return world, "refused"
        return world._replace(rows=put(world.rows, job, Row(state, seq, sender))), state

    def _revived(self, world: World, sender: int, job: int, seq: int) -> World:
        if world.rows[job].state != "ended":
            return world
        number = world.rows[job].seq if self.omit is Omit.NEW_SEQ else seq
        return world._replace(rows=put(world.rows, job, Row("blocked", number, sender)))

    def _is_taken(self, world: World) -> bool:
        """What the unique index over queued and leased rows of the key says."""
        return self.omit is not Omit.INDEX and any(row.state in ("queued", "leased") for row in world.rows)

    def _may_go(self, world: World, job: int) -> tuple[int, int] | None:
        row = world.rows[job]
        if row.state != "blocked":
            return None
        others = (other for place, other in enumerate(world.rows) if place != job and other.state in UNFINISHED)
        if any(self.omit is Omit.LOWER_SEQ or other.seq < row.seq for other in others):
            return None
        return job, row.seq

    def _answered(self, world: World, sender: int) -> World:
        return world._replace(sent=put(world.sent, sender, world.sent[sender] + 1))

    # whoever writes an end, then promotes

    def end(self, worker: int, job: int) -> Program[World]:
        yield "store.settle.write_ends", lambda world: [(self._ended(world, worker, job), None)]
        yield from self._promote_next()

    def retry(self, worker: int, job: int) -> Program[World]:
        yield "store.settle.write_retries", lambda world: [(self._retried(world, worker, job), None)]

    def cancel(self, job: int) -> Program[World]:
        done = yield "cancel what waits", lambda world: [self._cancelled(world, job)]
        if done:
            yield from self._promote_next()

    def _promote_next(self) -> Program[World]:
        if self.omit is Omit.PROMOTES:
            return
        first = yield "read the first unfinished row", lambda world: [(world, self._next(world))]
        if first is not None:
            yield "promote", lambda world: [(self._promoted(world, first), None)]
            yield "store.hosts.lower_due", lambda world: [(_lowered(world), None)]

    def _next(self, world: World) -> tuple[int, int] | None:
        """The row that may be promoted: the first unfinished one, if it is blocked."""
        found = self._head(world)
        return found if found is not None and world.rows[found[0]].state == "blocked" else None

    def _head(self, world: World) -> tuple[int, int] | None:
        rows = [(row.seq, place) for place, row in enumerate(world.rows) if row.state in UNFINISHED]
        return min(rows)[::-1] if rows else None

    def _promoted(self, world: World, which: tuple[int, int]) -> World:
        job, seq = which
        row = world.rows[job]
        matches = (row.state == "blocked" or self.omit is Omit.MATCH_BLOCKED) and (
            row.seq == seq or self.omit is Omit.MATCH_SEQ
        )
        if not matches or (row.state == "blocked" and self._is_taken(world)):
            return world
        wrong = "an ended job is queued again" if row.state == "ended" else world.wrong
        return world._replace(rows=put(world.rows, job, row._replace(state="queued")), wrong=wrong)

    def _ended(self, world: World, worker: int, job: int) -> World:
        rows = put(world.rows, job, world.rows[job]._replace(state="ended", by=None))
        return world._replace(rows=rows, hands=put(world.hands, worker, None))

    def _retried(self, world: World, worker: int, job: int) -> World:
        rows = put(world.rows, job, world.rows[job]._replace(state="queued", by=None))
        return _lowered(world._replace(rows=rows, hands=put(world.hands, worker, None)))

    def _cancelled(self, world: World, job: int) -> tuple[World, bool]:
        if world.rows[job].state not in ("blocked", "queued"):
            return world, False
        cancels = tuple(other for other in world.cancels if other != job)
        rows = put(world.rows, job, world.rows[job]._replace(state="ended"))
        return world._replace(rows=rows, cancels=cancels), True

    # store.claim.claim

    def claim(self, worker: int) -> Program[World]:
        found, asks, first = yield "read the lane, lease", lambda world: [self._claimed(world, worker)]
        if found:
            return
        if self.omit is Omit.AT_ONCE:
            first = yield "look for blocked rows behind nothing", lambda world: [(world, self._next(world))]
        if first is not None:
            yield "promote", lambda world: [(self._promoted(world, first), None)]
            yield "store.hosts.lower_due", lambda world: [(_lowered(world), None)]
        else:
            yield (
                "store.claim._show",
                lambda world: [(world._replace(due=False) if world.asks == asks.number else world, None)],
            )

    def _claimed(self, world: World, worker: int) -> tuple[World, tuple[bool, "Asks", tuple[int, int] | None]]:
        asks = Asks(world.asks)
        for job, row in enumerate(world.rows):
            if row.state == "queued" and world.hands[worker] is None:
                leased = world._replace(
                    rows=put(world.rows, job, row._replace(state="leased", by=worker)),
                    hands=put(world.hands, worker, job),
                )
                return leased._replace(wrong=world.wrong or self._out_of_turn(world, job)), (True, asks, None)
        found = any(row.state in ("queued", "leased") for row in world.rows)
        return world, (found, asks, self._next(world) if self.omit is not Omit.CLAIM_LOOKS else None)

    def _out_of_turn(self, world: World, job: int) -> str | None:
        if any(row.state == "leased" for row in world.rows):
            return f"job {job} is leased beside another of its key"
        sends = self.bounds.sends[world.rows[job].sender]
        for earlier in sends[: sends.index(job)]:
            if world.rows[earlier].state in UNFINISHED:
                return f"job {job} goes before job {earlier}, which was sent before it"
        return None

    # What happens by itself

    def events(self, state: State[World]) -> Iterator[Move[State[World]]]:
        world, procs = state
        for job, row in enumerate(world.rows):
            if row.state == "leased" and row.by is None:
                after = _lowered(world._replace(rows=put(world.rows, job, row._replace(state="queued"))))
                yield Move(f"the dead worker's lease of job {job} runs out and is reaped", State(after, procs))
        if world.crashes:
            fewer = world._replace(crashes=world.crashes - 1)
            for worker in range(self.bounds.workers):
                left = tuple(
                    None if role in ("worker", "claimer") and number == worker else proc
                    for proc, (role, number) in zip(procs, self.roles, strict=True)
                )
                job_in_hand = world.hands[worker]
                after = fewer._replace(hands=put(world.hands, worker, None))
                if job_in_hand is not None and world.rows[job_in_hand].by == worker:
                    after = after._replace(rows=put(world.rows, job_in_hand, world.rows[job_in_hand]._replace(by=None)))
                if left != procs or after.hands != world.hands:
                    yield Move(f"worker {worker} dies", State(after, left), fault=True)
        if world.deaths:
            fewer = world._replace(deaths=world.deaths - 1)
            for who, (role, number) in enumerate(self.roles):
                if role == "sender" and procs[who] is not None:
                    yield Move(f"sender {number} dies", State(fewer, put(procs, who, None)), fault=True)

    def canonical(self, state: State[World]) -> State[World]:
        """Only whether `asks` is still what a claim read matters, and only the order of the numbers given out."""
        world, procs = state
        rows = tuple(
            Row("ended") if row.state == "ended" and not self._comes_back(world, place) else row
            for place, row in enumerate(world.rows)
        )
        numbers = sorted(
            {row.seq for row in rows if row.state != "absent"}
            | {number for proc in procs if proc is not None for number in _seqs_of(proc)}
        )
        rank = {number: place for place, number in enumerate(numbers)}
        world = world._replace(rows=tuple(row._replace(seq=rank.get(row.seq, 0)) for row in rows), seq=len(numbers))
        procs = tuple(
            None if proc is None else proc._replace(seen=_renumbered(proc.seen, rank, world.asks)) for proc in procs
        )
        return State(world._replace(asks=0), procs)

    def _comes_back(self, world: World, job: int) -> bool:
        return job in self.bounds.cancels

    # What must hold

    def broken(self, state: State[World]) -> str | None:
        world = state.world
        if (
            world.wrong is None
            and world.crashes == self.bounds.crashes
            and not any(state.procs)
            and self._all_sent(world)
        ):
            # While no worker fails nothing waits for a claim to mend it: that may take a lease.
            states = {row.state for row in world.rows}
            if "blocked" in states and not states & {"queued", "leased"}:
                return "what is left is blocked behind nothing though no worker failed"
            if "queued" in states and not world.due:
                return "a job can go and its host is not due though no worker failed"
        return world.wrong

    def _all_sent(self, world: World) -> bool:
        return all(sent == len(sends) for sent, sends in zip(world.sent, self.bounds.sends, strict=True))

    def ended(self, state: State[World]) -> bool:
        world = state.world
        return self._all_sent(world) and all(row.state in ("ended", "absent") for row in world.rows)


class Asks(NamedTuple):
    """What a claim has read of `asks`."""

    number: int


def _lowered(world: World) -> World:
    return world._replace(due=True, asks=world.asks + 1)


def _seqs_of(proc: Proc) -> Iterator[int]:
    for value in (*proc.seen, *(part for seen in proc.seen if type(seen) is tuple and len(seen) == 3 for part in seen)):
        if type(value) is tuple and len(value) == 2:
            yield value[1]
        elif type(value) is int:
            yield value


def _renumbered(seen: tuple[Any, ...], rank: dict[int, int], asks: int) -> tuple[Any, ...]:
    def one(value: Any) -> Any:
        if isinstance(value, Asks):
            return Asks(0 if value.number == asks else -1)
        if isinstance(value, tuple):
            if len(value) == 2:
                return value[0], rank[value[1]]
            return tuple(one(part) for part in value)
        return rank[value] if type(value) is int else value

    return tuple(one(value) for value in seen)


_TWO = Bounds(sends=((0,), (1,)))
_STARTERS = Bounds(sends=((0, 1, 2),), starters=frozenset({0, 2}))
_AT_ONCE = Bounds(sends=((0,), (1,)), starters=frozenset({0, 1}), crashes=0)
_REVIVED = Bounds(sends=((1,), (0, 1)), cancels=(1,), crashes=0)

QUICK = _STARTERS
QUICK_OMISSION = Omit.LOOK_FIRST
LONG = {
    "two senders": _TWO,
    "two senders that start a chain": _AT_ONCE,
    "a sender dies and sends again": Bounds(sends=((0, 1),), starters=frozenset({0}), deaths=1, crashes=1),
    "cancelled and sent again": _REVIVED,
    "three jobs, two senders": Bounds(),
    "three jobs, two workers": Bounds(workers=2),
    "three jobs, one cancelled": Bounds(cancels=(1,)),
}
FAILS = {
    Omit.INDEX: _TWO,
    Omit.LOWER_SEQ: _TWO,
    Omit.LOOK: _TWO,
    Omit.LOOK_FIRST: _STARTERS,
    Omit.LOOK_AFTER_REFUSAL: _AT_ONCE,
    Omit.DUPLICATE_LOOKS: Bounds(sends=((0, 1),), starters=frozenset({0}), deaths=1, crashes=0),
    Omit.PROMOTES: _TWO,
    Omit.MATCH_BLOCKED: _TWO,
    Omit.MATCH_SEQ: _REVIVED,
    Omit.NEW_SEQ: _REVIVED,
    Omit.CLAIM_LOOKS: _TWO,
    Omit.AT_ONCE: _TWO,
}
