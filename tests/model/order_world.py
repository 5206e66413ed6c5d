# SPDX-License-Identifier: Apache-2.0
"""What rule A is about: the jobs of one order, and who sends and holds them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.model.process import put


class Row(NamedTuple):
    """A job: absent, blocked, queued, leased, ended or cancelled."""

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


class Asks(NamedTuple):
    """What a claim has read of `asks`."""

    number: int


def new_seq(world: World) -> tuple[World, int]:
    return world._replace(seq=world.seq + 1), world.seq


def is_live(world: World) -> bool:
    return any(row.state in ("queued", "leased") for row in world.rows)


def lowered(world: World) -> World:
    return world._replace(due=True, asks=world.asks + 1)


def answered_to(world: World, sender: int) -> World:
    return world._replace(sent=put(world.sent, sender, world.sent[sender] + 1))


def left_by(world: World, worker: int, job: int, state: str) -> World:
    rows = put(world.rows, job, world.rows[job]._replace(state=state, by=None))
    return world._replace(rows=rows, hands=put(world.hands, worker, None))


def cancelled_in(world: World, job: int) -> tuple[World, bool]:
    if world.rows[job].state not in ("blocked", "queued"):
        return world, False
    cancels = tuple(other for other in world.cancels if other != job)
    return world._replace(rows=put(world.rows, job, world.rows[job]._replace(state="cancelled")), cancels=cancels), True


def seqs_of(seen: tuple[Any, ...]) -> Iterator[int]:
    """The numbers among what a program has seen: alone, or beside a job."""
    for value in seen:
        if type(value) is int:
            yield value
        elif type(value) is tuple and len(value) == 2:
            yield value[1]
        elif type(value) is tuple:
            yield from seqs_of(value)


def renumbered(value: Any, rank: dict[int, int], asks: int) -> Any:
    if isinstance(value, Asks):
        return Asks(0 if value.number == asks else -1)
    if type(value) is int:
        return rank[value]
    if type(value) is tuple and len(value) == 2 and type(value[0]) is int and type(value[1]) is int:
        return value[0], rank[value[1]]
    if type(value) is tuple:
        return tuple(renumbered(part, rank, asks) for part in value)
    return value
