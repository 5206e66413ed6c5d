# SPDX-License-Identifier: Apache-2.0
"""Processes of a model, written like the code that they stand for.

A program is a generator. It yields its statements, each with the name of the function that it stands for; each is one
atomic step on the world (the database, and what processes keep in their memories), and its answer comes back from the
`yield`. Between two statements anything else may happen: another process's statement, a crash, or time.

A generator cannot be copied. So a running process is kept as its program and the answers it has had so far, and the
program is run again from its beginning to learn what comes next. What comes next depends on nothing else, so it is
remembered.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from tests.model.explore import Move

W = TypeVar("W")

Run = Callable[[W], list[tuple[W, Any]]]
"""What a statement does: every world that it can lead to, with its answer there. None at all: it has to wait."""
Program = Generator[tuple[str, Run[W]], Any, None]


class Proc(NamedTuple):
    """A program that runs: its name, its arguments, and what its statements have answered so far."""

    program: str
    args: tuple[Any, ...]
    seen: tuple[Any, ...] = ()


class State(NamedTuple, Generic[W]):
    """The world, and what each process is doing: None if it is at rest."""

    world: W
    procs: tuple[Proc | None, ...]


class Processes(Generic[W]):
    """A model made of processes. What a process at rest may begin, and what happens by itself, is the subclass's."""

    names: tuple[str, ...]
    """Of the processes."""

    def __init__(self) -> None:
        self._statements: dict[Proc, tuple[str, Run[W]] | None] = {}

    def errands(self, world: W, who: int) -> Iterable[Proc]:
        """What a process at rest may begin."""
        raise NotImplementedError

    def events(self, state: State[W]) -> Iterable[Move[State[W]]]:
        """What happens by itself: time, crashes."""
        raise NotImplementedError

    def canonical(self, state: State[W]) -> State[W]:
        """One state for all those that differ in nothing that matters."""
        return state

    def moves(self, state: State[W]) -> Iterator[Move[State[W]]]:
        world, procs = state
        for who, running in enumerate(procs):
            for proc in self.errands(world, who) if running is None else (running,):
                following = self._following(proc)
                if following is None:
                    continue
                name, run = following
                for after, answer in run(world):
                    rest: Proc | None = Proc(proc.program, proc.args, (*proc.seen, answer))
                    if rest is not None and self._following(rest) is None:
                        rest = None
                    then = State(after, (*procs[:who], rest, *procs[who + 1 :]))
                    yield Move(f"{self.names[who]}: {name} → {answer}", self.canonical(then))
        for event in self.events(state):
            yield Move(event.name, self.canonical(event.state), event.fault)

    def _following(self, proc: Proc) -> tuple[str, Run[W]] | None:
        """The next statement of a program; None when it has ended."""
        if proc not in self._statements:
            self._statements[proc] = self._replayed(proc)
        return self._statements[proc]

    def _replayed(self, proc: Proc) -> tuple[str, Run[W]] | None:
        program: Program[W] = getattr(self, proc.program)(*proc.args)
        try:
            statement = next(program)
            for answer in proc.seen:
                statement = program.send(answer)
        except StopIteration:
            return None
        return statement


def put(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    """A tuple with one value replaced."""
    return (*values[:place], value, *values[place + 1 :])
