# SPDX-License-Identifier: Apache-2.0
"""Rule E: each end is told at least once, under its own number, and no row expires before that.

One row that ends, is revived by a new send, and ends again; a worker that writes ends and tells them; a sweep that
tells what was left; a row that expires when it may.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tests.model.explore import Move
from tests.model.process import Proc, Processes, Program, State, put


class Row(NamedTuple):
    """The row: waits, ended, or gone."""

    state: str = "waits"
    end: int = 0
    told: bool | None = None
    owed: tuple[int, ...] = ()
    expires: bool = False


class World(NamedTuple):
    """The database, what the application heard, and what may still fail."""

    row: Row
    wants: bool  # the queue's setting: whether anybody has callbacks
    heard: frozenset[int]  # numbers: it takes a second call with one of them for a repetition
    ends: int  # how often the row has ended
    revivals: int
    crashes: int
    raises: int  # how often a callback may raise
    wrong: str | None = None


class Omit(StrEnum):
    """What can be left out of the rule."""

    UNTOLD = "an end is written as told, before the callback has run"
    SWEEP = "nobody sweeps what a crash left untold"
    NUMBER = "`told` does not match the end's number"
    OWED = "a revived row forgets the end that was not told"
    SWEEP_OWED = "the sweep does not tell what is owed"
    TTL_OWED = "a row may expire although it owes an end"
    TOGETHER = "`expire_at` is written with the end, not with `told`"
    NEW_NUMBER = "a row that ends again has the same number"
    TELLS_NOBODY = "without callbacks an end is left untold all the same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of everything there is."""

    revivals: int = 1
    crashes: int = 1
    raises: int = 0
    wants: bool = True


class Telling(Processes[World]):
    """The model."""

    def __init__(self, bounds: Bounds, omit: Omit | None = None) -> None:
        super().__init__()
        self.bounds = bounds
        self.omit = omit
        self.names = ("worker", "sweep", "sender")

    def start(self) -> State[World]:
        bounds = self.bounds
        world = World(
            row=Row(),
            wants=bounds.wants,
            heard=frozenset(),
            ends=0,
            revivals=bounds.revivals,
            crashes=bounds.crashes,
            raises=bounds.raises,
        )
        return State(world, (None,) * 3)

    def errands(self, world: World, who: int) -> Iterator[Proc]:
        row = world.row
        if who == 0 and row.state == "waits":
            yield Proc("settle", (row.end,))
        elif who == 1 and world.wants and (row.told is False or row.owed) and self.omit is not Omit.SWEEP:
            yield Proc("sweep", ())
        elif who == 2 and world.revivals and row.state == "ended":
            yield Proc("send", ())

    # store.settle.write_ends, worker.teller.Teller.tell_stored

    def settle(self, ends: int) -> Program[World]:
        yield "store.settle.write_ends", lambda world: [(self._ended(world), None)]
        if not self.bounds.wants:
            return
        number = ends + 1 if self.omit is not Omit.NEW_NUMBER else 1
        told = yield "worker.teller.Teller._tell", lambda world: _told(world, number)
        if told:
            yield "store.ends.mark_rows_told", lambda world: [(self._marked(world, number), None)]

    def _ended(self, world: World) -> World:
        row = world.row
        told = self.omit is Omit.UNTOLD or not (world.wants or self.omit is Omit.TELLS_NOBODY)
        number = row.end + 1 if self.omit is not Omit.NEW_NUMBER else 1
        expires = (told or self.omit is Omit.TOGETHER) and not self._is_owing(row)
        return world._replace(
            row=row._replace(state="ended", end=number, told=told, expires=expires), ends=world.ends + 1
        )

    def _is_owing(self, row: Row) -> bool:
        return bool(row.owed) and self.omit is not Omit.TTL_OWED

    def _marked(self, world: World, number: int, *, owed: bool = False) -> World:
        row = world.row
        if owed:
            row = row._replace(owed=tuple(other for other in row.owed if other != number))
            # The last one owed is told: now the row may expire, if its own end was told.
            if row.state == "ended" and row.told and not row.owed:
                row = row._replace(expires=True)
        elif row.state == "ended" and row.told is False and (row.end == number or self.omit is Omit.NUMBER):
            row = row._replace(told=True, expires=not self._is_owing(row))
        return world._replace(row=row)

    # store.ends.untold, mark_told

    def sweep(self) -> Program[World]:
        number, owed = yield "store.ends.untold", lambda world: [(world, self._untold(world.row))]
        for end in owed if number is None else (number, *owed):
            yield from self._tell(end, owed=end in owed)

    def _tell(self, end: int, *, owed: bool) -> Program[World]:
        if (yield "worker.teller.Teller._tell", lambda world: _told(world, end)):
            yield "store.ends.mark_told", lambda world: [(self._marked(world, end, owed=owed), None)]

    def _untold(self, row: Row) -> tuple[int | None, tuple[int, ...]]:
        return row.end if row.told is False else None, () if self.omit is Omit.SWEEP_OWED else row.owed

    # store.enqueue._revive

    def send(self) -> Program[World]:
        state = yield "store.jobs.find", lambda world: [(world, world.row.state)]
        if state == "ended":
            yield "store.enqueue._revive", lambda world: [(self._revived(world), None)]

    def _revived(self, world: World) -> World:
        row = world.row
        if row.state != "ended":
            return world
        owed = (*row.owed, row.end) if row.told is False and self.omit is not Omit.OWED else row.owed
        return world._replace(
            row=row._replace(state="waits", told=None, owed=owed, expires=False), revivals=world.revivals - 1
        )

    # What happens by itself

    def events(self, state: State[World]) -> Iterator[Move[State[World]]]:
        world, procs = state
        if world.row.expires and world.row.state == "ended":
            lost = world.wants and len(world.heard) < world.ends
            wrong = "the row expired and one of its ends was never told" if lost else world.wrong
            yield Move("the row expires", State(world._replace(row=Row("gone"), wrong=wrong), procs))
        if world.crashes:
            for who in (0, 1):
                if procs[who] is not None:
                    dead = world._replace(crashes=world.crashes - 1)
                    yield Move(f"the {self.names[who]} dies", State(dead, put(procs, who, None)), fault=True)

    # What must hold

    def broken(self, state: State[World]) -> str | None:
        return state.world.wrong

    def ended(self, state: State[World]) -> bool:
        """The row has expired, every end of it told."""
        return state.world.row.state == "gone"


def _told(world: World, number: int) -> list[tuple[World, bool]]:
    answers = [(world._replace(heard=world.heard | {number}), True)]
    if world.raises:
        answers.append((world._replace(raises=world.raises - 1), False))
    return answers


_BASE = Bounds()

QUICK = _BASE
QUICK_OMISSION = Omit.TTL_OWED
LONG = {
    "revived three times, callbacks that raise": Bounds(revivals=3, crashes=3, raises=2),
    "nobody has callbacks": Bounds(wants=False),
}
FAILS = dict.fromkeys(Omit, _BASE) | {Omit.TELLS_NOBODY: Bounds(wants=False), Omit.NUMBER: Bounds(crashes=2)}
