# SPDX-License-Identifier: Apache-2.0
"""Rule B: a host is due no later than its work, whoever dies between a row's write and the host's.

One host, some jobs, some enqueuers, some workers. Each worker claims in each line, ends or retries what it holds, and
reaps; these run side by side and stop anywhere. Shards and trust are left out (rule D): any worker may claim at any
time, which is more than the code allows.

Time has no numbers. What is due within a lease, or a lease itself, may run out at any moment, since processes stop for
any time between two statements. A retry that lies beyond a lease never comes due by itself where an end is looked for:
so what is due now must not be hidden for longer than a lease.
"""

from collections.abc import Iterator
from typing import Any

from tests.model.claim_world import (
    WHOLE,
    Asks,
    Bounds,
    Omit,
    Row,
    When,
    World,
    come,
    expired_in,
    first_due,
    holds_leased,
    much_later,
    reaped,
)
from tests.model.explore import Move
from tests.model.process import Proc, Processes, Program, State, put


class Claiming(Processes[World]):
    """The model. A worker has a process for each line that it claims in, one that settles and one that reaps."""

    def __init__(self, bounds: Bounds, omit: Omit | None = None) -> None:
        super().__init__()
        self.bounds = bounds
        self.omit = omit
        self.line_count = max(bounds.lines) + 1
        self.roles: list[tuple[str, int, int]] = [("enqueuer", place, 0) for place in range(len(bounds.enqueues))]
        for worker, does in enumerate(bounds.workers):
            self.roles += [("claimer", worker, line) for line in range(self.line_count)] * ("claimer" in does)
            self.roles += [(role, worker, 0) for role in ("settler", "reaper") if role in does]
        if bounds.sweeps:
            self.roles.append(("sweeper", 0, 0))
        self.names = tuple(
            f"{role} {number}" + (f" line {line}" if role == "claimer" and self.line_count > 1 else "")
            for role, number, line in self.roles
        )

    def start(self) -> State[World]:
        bounds = self.bounds
        world = World(
            rows=(Row(),) * len(bounds.lines),
            due=None,
            asks=0,
            hands=(frozenset(),) * len(bounds.workers),
            crashes=bounds.crashes,
            overruns=bounds.overruns,
            enqueuers=(True,) * len(bounds.enqueues),
        )
        return State(world, (None,) * len(self.roles))

    def errands(self, world: World, who: int) -> Iterator[Proc]:
        role, number, line = self.roles[who]
        if role == "enqueuer" and world.enqueuers[number]:
            yield Proc("enqueue", (number,))
        elif role == "claimer" and world.due is not None and world.due[line] is When.NOW:
            yield Proc("claim", (number, line))
        elif role == "settler":
            for row in world.hands[number]:
                yield from (Proc(fate, (number, row)) for fate in self.bounds.fates)
        elif role == "reaper" and any(row.state == "leased" and row.expired for row in world.rows):
            yield Proc("reap", ())
        elif role == "sweeper" and any(self._is_late(world, place) for place in range(len(world.rows))):
            yield Proc("sweep", ())

    # store.enqueue.enqueue

    def enqueue(self, number: int) -> Program[World]:
        row = self.bounds.enqueues[number]

        def insert(world: World) -> list[tuple[World, Any]]:
            if world.rows[row].state != "absent":
                return [(world, "duplicate")]
            return [(world._replace(rows=put(world.rows, row, Row("queued"))), "new")]

        if self.omit is Omit.LOWER_BEFORE:
            yield "store.hosts.lower_due", self._lowering([(row, When.NOW)])
            yield (
                "store.enqueue._insert",
                lambda world: [
                    (after._replace(enqueuers=put(after.enqueuers, number, False)), answer)
                    for after, answer in insert(world)
                ],
            )
            return
        answer = yield "store.enqueue._insert", insert
        lowering = [] if answer == "duplicate" and self.omit is Omit.LOWER_ON_DUPLICATE else [(row, When.NOW)]
        yield "store.hosts.lower_due", self._lowering(lowering, answered=number)

    def _lowering(self, dues: list[tuple[int, When]], *, answered: int | None = None) -> Any:
        """`store.hosts.lower_due`: one update of the record, which is made if it is not there."""

        def lower(world: World) -> list[tuple[World, Any]]:
            if answered is not None:
                world = world._replace(enqueuers=put(world.enqueuers, answered, False))
            if not dues:
                return [(world, None)]
            due = list(world.due or (When.NEVER,) * self.line_count)
            for row, when in dues:
                line = self.bounds.lines[row]
                due[line] = min(due[line], when)
            same = world.due is None and self.omit is Omit.RANDOM
            return [(world._replace(due=tuple(due), asks=world.asks + (not same)), None)]

        return lower

    # store.claim.claim

    def claim(self, worker: int, line: int) -> Program[World]:
        if self.bounds.kind_lane:
            yield "store.kind_lanes.take_lanes", lambda world: [(self._hidden(world, line), None)]
        asks = yield "store.claim.ready_hosts", lambda world: [(world, Asks(world.asks))]
        if self.omit is not Omit.RAISE and not self.bounds.kind_lane:
            yield "store.claim._hide", lambda world: [(self._hidden(world, line), None)]
        if self.omit is Omit.AT_ONCE or self.bounds.last_look:
            held = yield "store.lane.leased_in", lambda world: [(world, holds_leased(world))]
            picked, following = yield "store.lane.lane_heads", lambda world: [(world, self._head(world, line))]
        else:
            held, picked, following = yield (
                "store.lane.leased_in and lane_heads",
                lambda world: [(world, (holds_leased(world), *self._head(world, line)))],
            )
        if self.omit is Omit.RAISE:
            yield "store.claim._hide", lambda world: [(self._hidden(world, line), None)]
        mine: tuple[int, ...] = ()
        if picked:
            mine = yield "store.claim._lease", lambda world: [self._leased(world, picked, worker)]
        if self.bounds.last_look and not picked and not held:
            # Only a claim that would write a time beyond one lease looks again.
            following = yield "store.lane.last_look", lambda world: [(world, first_due(world, self.bounds.lines, line))]
        following = min(following, When.LEASE if held and self.omit is not Omit.LEASED else When.NEVER)
        if self.omit is Omit.PICKED:
            following = min(following, When.LEASE if mine else When.NEVER)
        elif picked:
            following = min(following, When.LEASE)
        yield "store.claim._show", lambda world: [(self._shown(world, worker, line, mine, asks, following), None)]

    def _hidden(self, world: World, line: int) -> World:
        if world.due is None or world.due[line] is not When.NOW:
            return world
        return world._replace(due=put(world.due, line, When.LEASE))

    def _head(self, world: World, line: int) -> tuple[tuple[int, ...], When]:
        queued = [
            (row.at, place)
            for place, row in enumerate(world.rows)
            if row.state == "queued" and self.bounds.lines[place] == line
        ]
        come = sorted(place for at, place in queued if at is When.NOW)
        beyond = [When.NOW] * (len(come) > self.bounds.room) + [at for at, _ in queued if at is not When.NOW]
        return tuple(come[: self.bounds.room]), min(beyond, default=When.NEVER)

    def _leased(self, world: World, picked: tuple[int, ...], worker: int) -> tuple[World, tuple[int, ...]]:
        mine = tuple(
            place
            for place in picked
            if world.rows[place].state == "queued"
            and (world.rows[place].at is When.NOW or self.omit is Omit.LEASE_GUARD)
        )
        rows = tuple(
            Row("leased", at=row.at, by=worker) if place in mine else row for place, row in enumerate(world.rows)
        )
        return world._replace(rows=rows), mine

    def _shown(  # noqa: PLR0917 - what a statement carries
        self, world: World, worker: int, line: int, mine: tuple[int, ...], asks: "Asks", following: When
    ) -> World:
        still = {place for place in mine if world.rows[place].state == "leased" and world.rows[place].by == worker}
        world = world._replace(hands=put(world.hands, worker, world.hands[worker] | still))
        if world.due is None:
            return world
        unchanged = asks.number == world.asks
        if self.omit is Omit.GUARD_ON_VALUE:
            unchanged = world.due[line] is When.LEASE
        if not unchanged and self.omit is not Omit.ASKS:
            following = min(following, world.due[line])
        return world._replace(due=put(world.due, line, following))

    # store.settle

    def end(self, worker: int, row: int) -> Program[World]:
        yield "store.settle.write_ends", lambda world: [self._let_go(world, worker, row, Row("ended"))]

    def retry(self, worker: int, row: int) -> Program[World]:
        stored = yield (
            "store.settle.write_retries",
            lambda world: [self._let_go(world, worker, row, Row("queued", When.FAR))],
        )
        if stored:
            yield "store.hosts.lower_due", self._lowering([(row, When.FAR)])

    def hand_back(self, worker: int, row: int) -> Program[World]:
        yield "store.hosts.dues_of", lambda world: [(world, None)]
        yield (
            "store.hand_back.hand_back",
            lambda world: [self._let_go(world, worker, row, Row("queued", world.rows[row].at))],
        )
        if self.omit is not Omit.LOWER_ON_RETURN:
            yield "store.hosts.lower_due", self._lowering([(row, When.NOW)])

    def _let_go(self, world: World, worker: int, row: int, then: Row) -> tuple[World, bool]:
        """Write a row that is matched by its stamp. A lease that was taken took the job out of the worker's hand."""
        if row not in world.hands[worker]:
            return world, False
        hands = put(world.hands, worker, world.hands[worker] - {row})
        return world._replace(rows=put(world.rows, row, then), hands=hands), True

    # store.reap.reap_expired; obituaries differ only in which leases they find

    def reap(self) -> Program[World]:
        read = yield "store.hosts.dues_of", lambda world: [(world, expired_in(world))]
        if not read:
            return
        yield "store.reap._return", lambda world: [(reaped(world), None)]
        yield "store.hosts.lower_due", self._lowering([(row, When.NOW) for row in read])

    # store.sweep.mend_dues

    def sweep(self) -> Program[World]:
        late = yield (
            "store.sweep.mend_dues",
            lambda world: [(world, tuple(place for place in range(len(world.rows)) if self._is_late(world, place)))],
        )
        yield "store.hosts.lower_due", self._lowering([(row, When.NOW) for row in late])

    def _is_late(self, world: World, place: int) -> bool:
        row = world.rows[place]
        due = When.NEVER if world.due is None else world.due[self.bounds.lines[place]]
        return row.state == "queued" and row.at is When.NOW and due is When.NEVER

    # What happens by itself

    def events(self, state: State[World]) -> Iterator[Move[State[World]]]:
        world, procs = state
        for line, due in enumerate(world.due or ()):
            if due is When.LEASE:
                yield Move(
                    "a lease's time passes", State(world._replace(due=put(world.due or (), line, When.NOW)), procs)
                )
        if (
            self.bounds.retries_come
            and not any(proc is not None and proc.program == "retry" for proc in procs)
            and (any(row.at is When.FAR for row in world.rows) or When.FAR in (world.due or ()))
        ):
            later = tuple(None if proc is None else proc._replace(seen=come(proc.seen)) for proc in procs)
            yield Move("the time of retries comes", State(much_later(world), later), fault=True)
        for place, row in enumerate(world.rows):
            if row.state == "leased" and not row.expired and (row.by is None or world.overruns):
                after = world._replace(
                    rows=put(world.rows, place, row._replace(expired=True)),
                    overruns=world.overruns - (row.by is not None),
                )
                yield Move(f"the lease of job {place} runs out", State(after, procs), fault=row.by is not None)
        if (
            self.bounds.records_expire
            and world.due is not None
            and (
                all(due is When.NEVER for due in world.due)
                or (self.omit is Omit.LINES and any(due is When.NEVER for due in world.due))
            )
        ):
            yield Move("the idle record expires", State(world._replace(due=None), procs), fault=True)
        if world.crashes:
            yield from self._crashes(world._replace(crashes=world.crashes - 1), procs)

    def _crashes(self, world: World, procs: tuple[Proc | None, ...]) -> Iterator[Move[State[World]]]:
        for worker in range(len(self.bounds.workers)):
            left = tuple(
                None if role in ("claimer", "settler", "reaper") and number == worker else proc
                for proc, (role, number, _) in zip(procs, self.roles, strict=True)
            )
            rows = tuple(
                row._replace(by=None) if row.state == "leased" and row.by == worker else row for row in world.rows
            )
            if left != procs or rows != world.rows:
                died = world._replace(rows=rows, hands=put(world.hands, worker, frozenset()))
                yield Move(f"worker {worker} dies", State(died, left), fault=True)
        if self.bounds.enqueuers_die:
            for who, (role, number, _) in enumerate(self.roles):
                if role == "enqueuer" and procs[who] is not None:
                    gone = world._replace(enqueuers=put(world.enqueuers, number, False))
                    yield Move(f"enqueuer {number} dies", State(gone, put(procs, who, None)), fault=True)

    def canonical(self, state: State[World]) -> State[World]:
        """Only whether `asks` is still what a claim read matters: counted from now, 0 is unchanged and -1 is not."""
        world, procs = state
        if not world.asks:
            return state
        procs = tuple(
            proc._replace(
                seen=tuple(
                    Asks(0 if seen.number == world.asks else -1) if isinstance(seen, Asks) else seen
                    for seen in proc.seen
                )
            )
            if proc is not None and proc.program == "claim"
            else proc
            for proc in procs
        )
        return State(world._replace(asks=0), procs)

    # What must hold

    def broken(self, state: State[World]) -> str | None:
        for place in range(len(state.world.rows)):
            holders = [worker for worker, hand in enumerate(state.world.hands) if place in hand]
            if len(holders) > 1:
                return f"job {place} is held by two workers"
            if holders and state.world.rows[place].at is When.FAR:
                return f"job {place} is held before its retry's time"
        if not any(state.procs) and not any(state.world.enqueuers) and not self._has_failed(state.world):
            return self._hidden_without_need(state.world)
        return None

    def _has_failed(self, world: World) -> bool:
        return world.crashes < self.bounds.crashes or world.overruns < self.bounds.overruns

    def _hidden_without_need(self, world: World) -> str | None:
        """While nothing fails, what can go now is due now: a lease is how long the mending of a failure may take."""
        for place, (row, line) in enumerate(zip(world.rows, self.bounds.lines, strict=True)):
            if row.state == "queued" and row.at is When.NOW and (world.due is None or world.due[line] is not When.NOW):
                return f"job {place} can go now, and its host is not due though nobody failed"
        return None

    def ended(self, state: State[World]) -> bool:
        """Every job has ended, or waits for a retry that its host is due for."""
        world = state.world
        return not any(world.enqueuers) and all(
            row.state in ("ended", "absent")
            or (
                row.state == "queued"
                and row.at is When.FAR
                and world.due is not None
                and world.due[line] is not When.NEVER
            )
            for row, line in zip(world.rows, self.bounds.lines, strict=True)
        )


_CLAIMS_AND_SETTLES = frozenset({"claimer", "settler"})
_ONE_JOB = Bounds(lines=(0,), enqueues=(0,), workers=(_CLAIMS_AND_SETTLES, WHOLE))
_ONE_WORKER = Bounds(workers=(WHOLE,))
_EXPIRING = Bounds(workers=(_CLAIMS_AND_SETTLES, _CLAIMS_AND_SETTLES), crashes=0, records_expire=True)
_TWO_LINES = Bounds(lines=(0, 1), workers=(WHOLE,), records_expire=True)
QUICK = _ONE_JOB
QUICK_OMISSION = Omit.LEASED
LONG = {
    "two jobs, one worker that dies twice": Bounds(workers=(WHOLE,), crashes=2),
    "one job, two workers": Bounds(lines=(0,), enqueues=(0,), crashes=1),
    "one job, two workers, read apart with a last look": Bounds(
        lines=(0,), enqueues=(0,), retries_come=True, last_look=True
    ),
    "one job, two workers, retries come due": Bounds(lines=(0,), enqueues=(0,), crashes=1, retries_come=True),
    "one job, a lease runs out under a living worker": Bounds(
        lines=(0,), enqueues=(0,), workers=(_CLAIMS_AND_SETTLES, WHOLE), crashes=0, overruns=1
    ),
    "one job in a kind's lane, read apart with a last look": Bounds(
        lines=(0,), enqueues=(0,), retries_come=True, last_look=True, kind_lane=True
    ),
    "two jobs in a kind's lane": Bounds(workers=(WHOLE, _CLAIMS_AND_SETTLES), fates=("end", "retry"), kind_lane=True),
    "two jobs, two workers": Bounds(workers=(WHOLE, _CLAIMS_AND_SETTLES), fates=("end", "retry")),
    "two jobs, the record expires": _EXPIRING,
    "two lines": _TWO_LINES,
    "the enqueuer dies, and sends again": Bounds(
        lines=(0,), enqueues=(0, 0), workers=(WHOLE,), enqueuers_die=True, sweeps=True
    ),
    "the enqueuer dies, and the sweep mends it": Bounds(
        lines=(0,), enqueues=(0,), workers=(WHOLE,), enqueuers_die=True, sweeps=True
    ),
}
FAILS = {
    Omit.RAISE: _ONE_WORKER,
    Omit.AT_ONCE: _ONE_JOB,
    Omit.ASKS: _ONE_WORKER,
    Omit.GUARD_ON_VALUE: Bounds(workers=(WHOLE, _CLAIMS_AND_SETTLES), fates=("end", "retry")),
    Omit.LEASE_GUARD: _ONE_JOB,
    Omit.LEASED: _ONE_JOB,
    Omit.PICKED: _ONE_JOB,
    Omit.LINES: _TWO_LINES,
    Omit.RANDOM: _EXPIRING,
    Omit.LOWER_ON_DUPLICATE: Bounds(lines=(0,), enqueues=(0, 0), workers=(WHOLE,), enqueuers_die=True),
    Omit.LOWER_ON_RETURN: _ONE_WORKER,
    Omit.LOWER_BEFORE: _ONE_WORKER,
}
