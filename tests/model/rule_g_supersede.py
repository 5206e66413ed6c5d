# SPDX-License-Identifier: Apache-2.0
"""Rule G: nothing goes out after what takes it back, and nothing is dropped by what is older or does not go.

A Create and its Delete to one inbox, sent at the same time; the Create's row may come late, as a chunk of a fan-out
does. A third sender sends the Create again when it was dropped: a post that is published again. That one row of an
order at most is queued or leased, and that promotions work, is rule A: a promotion is one step here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tests.model.explore import Move
from tests.model.process import Proc, Processes, Program, State, put

CREATE, DELETE = 0, 1


class Row(NamedTuple):
    """A row: absent, blocked, queued, leased, delivered or superseded."""

    state: str = "absent"
    seq: int = 0
    since: int = 0  # when its activity was handed over
    leases: int = 0
    tries: int = 0


class World(NamedTuple):
    """The database, and what happened at the inbox."""

    rows: tuple[Row, Row]
    bodies: tuple[int | None, int | None]  # when each activity was handed over
    clock: int  # the database's rising timestamp
    to_send: tuple[bool, bool, bool]  # Create, Delete, Create again
    crashes: int  # of the worker
    deaths: int  # of the Delete's sender, who does not come back
    retries: int
    wrong: str | None = None


class Omit(StrEnum):
    """What can be left out of the rule."""

    WORKER_LOOKS = "the worker does not look"
    ROW = "the worker looks for the Delete's body, not for its row"
    BEFORE_INSERT = "the Delete's sender drops before its row is inserted"
    FINISHED = "the worker does not see a Delete that has ended"
    SINCE = "the worker compares with the Create's row, not with when it was handed over"
    NEW_SINCE = "a Create that is sent again counts as handed over at first"
    OLDER = "the worker takes any Delete, whether older or not"
    UNLEASED = "the Delete's sender drops also what was leased before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of everything there is."""

    again: bool = False
    crashes: int = 0
    deaths: int = 0
    retries: int = 1


class Superseding(Processes[World]):
    """The model."""

    def __init__(self, bounds: Bounds, omit: Omit | None = None) -> None:
        super().__init__()
        self.bounds = bounds
        self.omit = omit
        self.names = ("sender of the Create", "sender of the Delete", "sender again", "worker")

    def start(self) -> State[World]:
        bounds = self.bounds
        world = World(
            rows=(Row(), Row()),
            bodies=(None, None),
            clock=0,
            to_send=(True, True, bounds.again),
            crashes=bounds.crashes,
            deaths=bounds.deaths,
            retries=bounds.retries,
        )
        return State(world, (None,) * 4)

    def errands(self, world: World, who: int) -> Iterator[Proc]:
        if who == 2:
            # Published again: after both were answered, and the Create was dropped.
            if world.to_send == (False, False, True) and world.rows[CREATE].state == "superseded":
                yield Proc("send", (2, CREATE))
        elif who < 2:
            if world.to_send[who]:
                yield Proc("send", (who, who))
        else:
            for which, row in enumerate(world.rows):
                if row.state == "queued":
                    yield Proc("deliver", (which,))

    # store.handover.hand_over, store.enqueue.enqueue

    def send(self, who: int, which: int) -> Program[World]:
        since = yield "store.bodies.put_body", lambda world: [_handed_over(world, which)]
        takes_back = which == DELETE and (
            yield "store.supersede.taken_back", lambda world: [(world, world.bodies[CREATE] is not None)]
        )
        if takes_back and self.omit is Omit.BEFORE_INSERT:
            yield "store.supersede.drop_taken_back", lambda world: [(self._dropped(world), None)]
        new = yield "store.enqueue._insert", lambda world: [self._inserted(world, which, since)]
        if takes_back and new and self.omit is not Omit.BEFORE_INSERT:
            yield "store.supersede.drop_taken_back", lambda world: [(self._dropped(world), None)]
        yield (
            "store.order.promote, answer",
            lambda world: [(_promoted(world._replace(to_send=put(world.to_send, who, False))), None)],
        )

    def _inserted(self, world: World, which: int, since: int) -> tuple[World, bool]:
        row = world.rows[which]
        clock = world.clock + 1
        if row.state == "superseded":
            since = row.since if self.omit is Omit.NEW_SINCE else since
            revived = Row("blocked", clock, since)
            return world._replace(rows=put(world.rows, which, revived), clock=clock), True
        if row.state != "absent":
            return world, False
        state = "blocked" if any(other.state in ("blocked", "queued", "leased") for other in world.rows) else "queued"
        return world._replace(rows=put(world.rows, which, Row(state, clock, since)), clock=clock), True

    def _dropped(self, world: World) -> World:
        row = world.rows[CREATE]
        if row.state not in ("blocked", "queued") or (row.leases and self.omit is not Omit.UNLEASED):
            return world
        wrong = "what was tried is dropped as if nobody could have it" if row.tries else world.wrong
        return world._replace(rows=put(world.rows, CREATE, row._replace(state="superseded")), wrong=wrong)

    # the worker

    def deliver(self, which: int) -> Program[World]:
        leased = yield "store.claim._lease", lambda world: [_leased(world, which)]
        if not leased:
            return
        if which == CREATE and self.omit is not Omit.WORKER_LOOKS:
            taken = yield "store.supersede.superseded", lambda world: [(world, self._is_superseded(world))]
            if taken:
                yield "store.settle.write_ends: superseded", lambda world: [(self._superseded(world), None)]
                yield "store.order.promote", lambda world: [(_promoted(world), None)]
                return
        yield "the request", lambda world: [(self._begun(world, which), None)]
        good = yield "the answer", lambda world: [(world, True), *([(world, False)] if world.retries else [])]
        if good:
            yield "store.settle.write_ends", lambda world: [(_left(world, which, "delivered"), None)]
            yield "store.order.promote", lambda world: [(_promoted(world), None)]
        else:
            yield (
                "store.settle.write_retries",
                lambda world: [(_left(world._replace(retries=world.retries - 1), which, "queued"), None)],
            )

    def _is_superseded(self, world: World) -> bool:
        create, delete = world.rows
        if create.tries:
            return False
        if self.omit is Omit.ROW:
            handed_over = world.bodies[DELETE]
            return handed_over is not None and handed_over > create.since
        if delete.state == "absent" or (self.omit is Omit.FINISHED and delete.state == "delivered"):
            return False
        if self.omit is Omit.OLDER:
            return True
        return delete.seq > (create.seq if self.omit is Omit.SINCE else create.since)

    def _superseded(self, world: World) -> World:
        wrong = world.wrong
        if world.rows[DELETE].state == "absent":
            wrong = "the Create is dropped and no Delete of it is queued"
        return _left(world._replace(wrong=wrong), CREATE, "superseded")

    def _begun(self, world: World, which: int) -> World:
        create, delete = world.rows
        wrong = world.wrong
        if which == CREATE and delete.state == "delivered" and delete.seq > create.since:
            wrong = "the Create goes out after the Delete that takes it back"
        return world._replace(rows=put(world.rows, which, world.rows[which]._replace(tries=1)), wrong=wrong)

    # What happens by itself

    def events(self, state: State[World]) -> Iterator[Move[State[World]]]:
        world, procs = state
        worker = procs[3]
        if world.crashes and worker is not None:
            which = worker.args[0]
            dead = world._replace(crashes=world.crashes - 1)
            if world.rows[which].state == "leased":
                dead = _left(dead, which, "queued")
            yield Move("the worker dies, its lease is reaped", State(_promoted(dead), put(procs, 3, None)), fault=True)

        if world.deaths and procs[DELETE] is not None:
            gone = world._replace(deaths=world.deaths - 1, to_send=put(world.to_send, DELETE, False))
            yield Move("the Delete's sender dies", State(_promoted(gone), put(procs, DELETE, None)), fault=True)

    # What must hold

    def broken(self, state: State[World]) -> str | None:
        world = state.world
        create, delete = world.rows
        if not any(state.procs) and create.state == "superseded" and delete.state == "absent":
            return "the Create is dropped and no Delete of it is queued"
        if world.wrong is None and not any(state.procs) and create.state == "superseded" and create.since > delete.seq:
            return "the Create is dropped by a Delete that is older"
        return world.wrong

    def ended(self, state: State[World]) -> bool:
        """The Delete has gone out, and the Create has gone out before it or was dropped; published again, it went."""
        create, delete = state.world.rows
        if any(state.world.to_send[:2]):
            return False
        if delete.state == "absent":
            # Its sender died before it stood.
            return create.state == "delivered"
        if delete.state != "delivered":
            return False
        if state.world.to_send[2]:
            return create.state == "delivered"
        return create.state in ("delivered", "superseded") and (not self.bounds.again or create.state == "delivered")


def _handed_over(world: World, which: int) -> tuple[World, int]:
    clock = world.clock + 1
    return world._replace(bodies=put(world.bodies, which, clock), clock=clock), clock


def _leased(world: World, which: int) -> tuple[World, bool]:
    row = world.rows[which]
    if row.state != "queued":
        return world, False
    return world._replace(rows=put(world.rows, which, row._replace(state="leased", leases=row.leases + 1))), True


def _left(world: World, which: int, state: str) -> World:
    return world._replace(rows=put(world.rows, which, world.rows[which]._replace(state=state)))


def _promoted(world: World) -> World:
    """Rule A, in one step: the first blocked row, if nothing is queued or leased."""
    if any(row.state in ("queued", "leased") for row in world.rows):
        return world
    blocked = [(row.seq, which) for which, row in enumerate(world.rows) if row.state == "blocked"]
    return _left(world, min(blocked)[1], "queued") if blocked else world


_BASE = Bounds()
_AGAIN = Bounds(again=True)

QUICK = _AGAIN
QUICK_OMISSION = Omit.WORKER_LOOKS
LONG = {
    "the worker dies": Bounds(again=True, crashes=2, retries=2),
    "the Delete's sender dies": Bounds(crashes=1, deaths=1),
}
FAILS = dict.fromkeys(Omit, _BASE) | {Omit.NEW_SINCE: _AGAIN, Omit.OLDER: _AGAIN, Omit.BEFORE_INSERT: Bounds(deaths=1)}
