# SPDX-License-Identifier: Apache-2.0
"""Explore every state that a model can reach, breadth first, and say what fails with the shortest way to it.

Two things are looked for. A state is *broken* if an invariant does not hold in it. It is *stuck* if no end can be
reached from it any more although nothing fails from here on: faults (crashes, pauses, lost answers) may happen on the
way into a state, but the way out of it must need none.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

S = TypeVar("S")


class Move(NamedTuple, Generic[S]):
    """One atomic step: what does it, where it leads, and whether it counts as something that need not happen."""

    name: str
    state: S
    fault: bool = False


class Model(Protocol[S]):
    """What is explored. States are frozen and hashable."""

    def start(self) -> S:
        """The state that everything begins with."""
        ...

    def moves(self, state: S) -> Iterable[Move[S]]:
        """Every step that can be taken."""
        ...

    def broken(self, state: S) -> str | None:
        """The invariant that does not hold, in words, or None."""
        ...

    def ended(self, state: S) -> bool:
        """Whether everything has come to its end here."""
        ...


class Fault(StrEnum):
    """How a model fails."""

    BROKEN = "broken"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What does not hold, and the steps that lead to it."""

    fault: Fault
    why: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        steps = "\n".join(f"  {number:2}. {step}" for number, step in enumerate(self.trace, 1))
        return f"{self.fault}: {self.why}\n{steps}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """What an exploration has seen."""

    states: int
    moves: int
    ends: int
    failure: Failure | None


class TooLarge(Exception):
    """There are more states than were expected: a bound is missing in the model."""


LIMIT: Final = 3_000_000


def explore(model: Model[S], *, limit: int = LIMIT) -> Explored:  # noqa: C901 - one loop, read from top to bottom
    """Explore a model to its last state, or to the first broken one.

    Raises:
        TooLarge: there are more than `limit` states.
    """
    first = model.start()
    places = {first: 0}
    states = [first]
    came_from, came_by = array("q", [-1]), [""]
    # The steps without a fault, for the way back from the ends.
    sources, targets = array("q"), array("q")
    ends: list[int] = []
    count = 0

    def trace(place: int) -> tuple[str, ...]:
        steps = []
        while came_from[place] >= 0:
            steps.append(came_by[place])
            place = came_from[place]
        return tuple(reversed(steps))

    place = 0
    while place < len(states):
        state = states[place]
        why = model.broken(state)
        if why is not None:
            failure = Failure(fault=Fault.BROKEN, why=why, trace=trace(place))
            return Explored(states=len(states), moves=count, ends=len(ends), failure=failure)
        if model.ended(state):
            ends.append(place)
        for name, following, fault in model.moves(state):
            count += 1
            target = places.setdefault(following, len(states))
            if target == len(states):
                if target >= limit:
                    raise TooLarge(f"more than {limit} states")
                states.append(following)
                came_from.append(place)
                came_by.append(name)
            if not fault:
                sources.append(place)
                targets.append(target)
        place += 1

    stuck = _first_that_reaches_no_end(len(states), sources, targets, ends)
    dead_end: Failure | None = None
    if stuck is not None:
        dead_end = Failure(fault=Fault.STUCK, why="no end can be reached any more", trace=trace(stuck))
    return Explored(states=len(states), moves=count, ends=len(ends), failure=dead_end)


def _first_that_reaches_no_end(
    states: int, sources: "array[int]", targets: "array[int]", ends: Iterable[int]
) -> int | None:
    """Walk back from the ends; the first place, in the order of discovery, that the walk does not come to."""
    begins = array("q", bytes(8 * (states + 1)))
    for target in targets:
        begins[target + 1] += 1
    for place in range(states):
        begins[place + 1] += begins[place]
    into, filled = array("q", bytes(8 * len(sources))), array("q", begins)
    for source, target in zip(sources, targets, strict=True):
        into[filled[target]] = source
        filled[target] += 1
    reaches = bytearray(states)
    waiting = list(ends)
    for place in waiting:
        reaches[place] = 1
    while waiting:
        place = waiting.pop()
        for source in into[begins[place] : begins[place + 1]]:
            if not reaches[source]:
                reaches[source] = 1
                waiting.append(source)
    missing = reaches.find(0)
    return None if missing < 0 else missing
