# SPDX-License-Identifier: Apache-2.0
"""Rule A: jobs of one order go one after another, in the order in which they were sent, and none is left behind.

One order. Each sender sends its jobs one after another, and two senders at the same time; workers end or retry; a job
may be cancelled while it waits, and be sent again. What a claim reads of a lane is one step here (rule B).
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.model.explore import Move
from tests.model.order_world import (
    Asks,
    Row,
    World,
    answered_to,
    cancelled_in,
    is_live,
    left_by,
    lowered,
    new_seq,
    renumbered,
    seqs_of,
)
from tests.model.process import Proc, Processes, Program, Run, State, put


class Omit(StrEnum):
    """What can be left out of the rule."""

    INDEX = "no unique index over what is queued and leased"
    LOOK_FIRST = "a row is inserted queued without a look at what is blocked"
    LOOK_AFTER = "a row that is inserted blocked does not look afterwards"
    LOOK_AFTER_REFUSAL = "a row that the index refused is inserted blocked and does not look"
    DUPLICATE_LOOKS = "a duplicate that is blocked does not look again"
    LEAST_SEQ = "whoever promotes takes any blocked row, not the first"
    PROMOTES = "whoever ends a row promotes nothing"
    MATCH_BLOCKED = "a promotion matches whatever state the row has"
    MATCH_SEQ = "a promotion does not match `seq`"
    NEW_SEQ = "a revived row keeps its `seq`"
    CLAIM_LOOKS = "a claim that finds nothing does not look for what is blocked behind nothing"
    AT_ONCE = "a claim looks for what is blocked after it has looked for what is queued"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of everything there is."""

    sends: tuple[tuple[int, ...], ...] = ((0, 1), (2,))  # by sender: the jobs that it sends, one after another
    workers: int = 1
    crashes: int = 1
    cancels: tuple[int, ...] = ()
    deaths: int = 0  # of senders, which are started again and send again what was not answered
    stands: tuple[int, ...] = ()  # jobs that stand blocked from the start: who ended what they wait for has died
    fine: bool = False  # a `seq` is given before its row can be seen, and two reads of a sender are two steps


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
            rows=tuple(Row("blocked", sender=-1) if job in bounds.stands else Row() for job in range(jobs)),
            seq=1,
            due=bool(bounds.stands),
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
        in_use = False
        if self.omit is not Omit.LOOK_FIRST and self.bounds.fine:
            in_use = (yield "store.order._firsts", lambda world: [(world, self._first(world))]) is not None
            in_use = in_use or (yield "store.order._live", lambda world: [(world, is_live(world))])
        elif self.omit is not Omit.LOOK_FIRST:
            in_use = yield (
                "store.order.orders_in_use",
                lambda world: [(world, is_live(world) or self._first(world) is not None)],
            )
        looks = self.omit is not Omit.LOOK_AFTER
        answer = yield from self._insert(sender, job, "blocked" if in_use else "queued")
        if answer == "refused":
            looks = looks and self.omit is not Omit.LOOK_AFTER_REFUSAL
            answer = yield from self._insert(sender, job, "blocked")
        if answer == "cancelled":
            yield "store.enqueue._revive", lambda world: [(self._revived(world, sender, job), None)]
        if answer == "duplicate":
            looks = looks and self.omit is not Omit.DUPLICATE_LOOKS
        if answer == "queued" or not looks:
            yield "store.hosts.lower_due, answer", lambda world: [(answered_to(lowered(world), sender), None)]
            return
        yield "store.hosts.lower_due", lambda world: [(lowered(world), None)]
        yield from self._promote()
        yield "answer", lambda world: [(answered_to(world, sender), None)]

    def _insert(self, sender: int, job: int, state: str) -> Generator[tuple[str, Run[World]], Any, str]:
        """`store.enqueue._insert_new`. What it answers: the state, or refused, duplicate, cancelled."""
        if self.bounds.fine:
            seq = yield "the server gives a seq", lambda world: [new_seq(world)]
            answer = yield (
                "store.enqueue._insert_new",
                lambda world: [self._inserted(world, seq, sender, job, state)],
            )
        else:
            answer = yield (
                "store.enqueue._insert_new",
                lambda world: [self._inserted(*new_seq(world), sender, job, state)],
            )
        return str(answer)

    def _inserted(self, world: World, seq: int, sender: int, job: int, state: str) -> tuple[World, str]:
        row = world.rows[job]
        if row.state != "absent":
            return world, "cancelled" if row.state == "cancelled" else "duplicate"
        if state == "queued" and self._is_taken(world):
            return world, "refused"
        return world._replace(rows=put(world.rows, job, Row(state, seq, sender))), state

    def _revived(self, world: World, sender: int, job: int) -> World:
        row = world.rows[job]
        if row.state != "cancelled":
            return world
        world, seq = new_seq(world)
        number = row.seq if self.omit is Omit.NEW_SEQ else seq
        return world._replace(rows=put(world.rows, job, Row("blocked", number, sender)))

    def _is_taken(self, world: World) -> bool:
        """What the unique index over queued and leased rows of an order says (store.indexes)."""
        return self.omit is not Omit.INDEX and is_live(world)

    # store.order.promote

    def _promote(self) -> Program[World]:
        first = yield "store.order._firsts", lambda world: [(world, self._first(world))]
        if first is None:
            return
        if (yield "store.order._live", lambda world: [(world, is_live(world))]):
            return
        yield "store.order._make_queued", lambda world: [(self._promoted(world, first), None)]
        yield "store.hosts.lower_due", lambda world: [(lowered(world), None)]

    def _first(self, world: World) -> tuple[int, int] | None:
        rows = [(row.seq, place) for place, row in enumerate(world.rows) if row.state == "blocked"]
        if not rows:
            return None
        seq, place = max(rows) if self.omit is Omit.LEAST_SEQ else min(rows)
        return place, seq

    def _promoted(self, world: World, which: tuple[int, int]) -> World:
        job, seq = which
        row = world.rows[job]
        matches = (row.state == "blocked" or self.omit is Omit.MATCH_BLOCKED) and (
            row.seq == seq or self.omit is Omit.MATCH_SEQ
        )
        if not matches or (row.state == "blocked" and self._is_taken(world)):
            return world
        wrong = "an ended job is queued again" if row.state in ("ended", "cancelled") else world.wrong
        return world._replace(rows=put(world.rows, job, row._replace(state="queued")), wrong=wrong)

    # whoever writes an end, then promotes

    def end(self, worker: int, job: int) -> Program[World]:
        yield "store.settle.write_ends", lambda world: [(left_by(world, worker, job, "ended"), None)]
        if self.omit is not Omit.PROMOTES:
            yield from self._promote()

    def retry(self, worker: int, job: int) -> Program[World]:
        yield (
            "store.settle.write_retries, lower_due",
            lambda world: [(lowered(left_by(world, worker, job, "queued")), None)],
        )

    def cancel(self, job: int) -> Program[World]:
        done = yield "store.cancel._pass", lambda world: [cancelled_in(world, job)]
        if done and self.omit is not Omit.PROMOTES:
            yield from self._promote()

    # store.claim.claim; what it reads of the lane is one step (rule B)

    def claim(self, worker: int) -> Program[World]:
        found, asks, first = yield "read the lane, lease", lambda world: [self._claimed(world, worker)]
        if found:
            return
        if self.omit is Omit.AT_ONCE:
            first = yield "store.order.promote_idle", lambda world: [(world, self._first(world))]
        if first is not None:
            yield from self._promote()
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
                    wrong=world.wrong or self._out_of_turn(world, job),
                )
                return leased, (True, asks, None)
        looks = self.omit not in (Omit.CLAIM_LOOKS, Omit.AT_ONCE)
        return world, (is_live(world), asks, self._first(world) if looks else None)

    def _out_of_turn(self, world: World, job: int) -> str | None:
        if any(row.state == "leased" for row in world.rows):
            return f"job {job} is leased beside another of its order"
        sender = world.rows[job].sender
        sends = self.bounds.sends[sender] if sender >= 0 else (job,)
        for earlier in sends[: sends.index(job)]:
            if world.rows[earlier].state in ("blocked", "queued", "leased"):
                return f"job {job} goes before job {earlier}, which was sent before it"
        return None

    # What happens by itself

    def events(self, state: State[World]) -> Iterator[Move[State[World]]]:
        world, procs = state
        for job, row in enumerate(world.rows):
            if row.state == "leased" and row.by is None:
                after = lowered(world._replace(rows=put(world.rows, job, row._replace(state="queued"))))
                yield Move(f"the dead worker's lease of job {job} runs out and is reaped", State(after, procs))
        if world.crashes:
            yield from self._crashes(world._replace(crashes=world.crashes - 1), procs)
        if world.deaths:
            fewer = world._replace(deaths=world.deaths - 1)
            for who, (role, number) in enumerate(self.roles):
                if role == "sender" and procs[who] is not None:
                    yield Move(f"sender {number} dies", State(fewer, put(procs, who, None)), fault=True)

    def _crashes(self, world: World, procs: tuple[Proc | None, ...]) -> Iterator[Move[State[World]]]:
        for worker, job in enumerate(world.hands):
            left = tuple(
                None if role in ("worker", "claimer") and number == worker else proc
                for proc, (role, number) in zip(procs, self.roles, strict=True)
            )
            if left != procs or job is not None:
                after = world._replace(hands=put(world.hands, worker, None))
                if job is not None and world.rows[job].by == worker:
                    after = after._replace(rows=put(world.rows, job, world.rows[job]._replace(by=None)))
                yield Move(f"worker {worker} dies", State(after, left), fault=True)

    def canonical(self, state: State[World]) -> State[World]:
        """Only whether `asks` is still what a claim read matters, and only the order of the numbers given out."""
        world, procs = state
        rows = tuple(
            Row("ended") if row.state == "ended" and self.omit is not Omit.MATCH_BLOCKED else row for row in world.rows
        )
        numbers = sorted(
            {row.seq for row in rows if row.state != "absent"}
            | {number for proc in procs if proc is not None for number in seqs_of(proc.seen)}
        )
        rank = {number: place for place, number in enumerate(numbers)}
        rows = tuple(row._replace(seq=rank.get(row.seq, 0)) for row in rows)
        procs = tuple(
            None if proc is None else proc._replace(seen=renumbered(proc.seen, rank, world.asks)) for proc in procs
        )
        return State(world._replace(rows=rows, seq=len(numbers), asks=0), procs)

    # What must hold

    def broken(self, state: State[World]) -> str | None:
        world = state.world
        at_rest = not any(state.procs) and self._all_sent(world) and world.crashes == self.bounds.crashes
        if at_rest and world.wrong is None:
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
        """Every job has been sent and has ended."""
        return self._all_sent(state.world) and all(
            row.state in ("absent", "ended", "cancelled") for row in state.world.rows
        )


_TWO = Bounds(sends=((0,), (1,)))
_THREE = Bounds(sends=((0, 1, 2),))
_REVIVED = Bounds(stands=(0,), sends=((1, 0),), cancels=(0,), crashes=0)
_RESENT = Bounds(sends=((0, 1),), deaths=1, crashes=0)
QUICK = _THREE
QUICK_OMISSION = Omit.LOOK_FIRST
LONG = {
    "two senders, read by read": Bounds(sends=((0,), (1,)), fine=True),
    "two senders, two workers": Bounds(sends=((0,), (1,)), workers=2),
    "a sender dies and sends again": Bounds(sends=((0, 1),), deaths=1),
    "cancelled and sent again": _REVIVED,
    "three jobs, two senders": Bounds(crashes=0),
    "three jobs, one cancelled": Bounds(sends=((0, 1, 2),), cancels=(1,)),
}
FAILS = {
    Omit.INDEX: _TWO,
    Omit.LOOK_FIRST: _THREE,
    Omit.LOOK_AFTER: _TWO,
    Omit.LOOK_AFTER_REFUSAL: _TWO,
    Omit.DUPLICATE_LOOKS: _RESENT,
    Omit.LEAST_SEQ: _THREE,
    Omit.PROMOTES: _TWO,
    Omit.MATCH_BLOCKED: _TWO,
    Omit.MATCH_SEQ: _REVIVED,
    Omit.NEW_SEQ: _REVIVED,
    Omit.CLAIM_LOOKS: _TWO,
    Omit.AT_ONCE: _TWO,
}
