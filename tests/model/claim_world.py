# SPDX-License-Identifier: Apache-2.0
"""What rule B is about: a host and its jobs, what workers hold of them, and what can be more, or left out."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple


class When(IntEnum):
    """When something is due, as far as it matters."""

    NOW = 0
    LEASE = 1  # within one lease
    FAR = 2  # a retry's time, beyond a lease
    NEVER = 3


class Row(NamedTuple):
    """A job: `state` is absent, queued, leased or ended."""

    state: str = "absent"
    at: When = When.NOW
    by: int | None = None  # the worker whose lease it is; None once that has died
    expired: bool = False


class World(NamedTuple):
    """The database, and what workers hold in memory."""

    rows: tuple[Row, ...]
    due: tuple[When, ...] | None  # by line; None: there is no record of the host
    asks: int
    hands: tuple[frozenset[int], ...]  # by worker: the jobs that it holds and has not settled
    crashes: int
    overruns: int  # how often a lease may still run out under a living worker
    enqueuers: tuple[bool, ...]  # which have not answered yet


class Omit(StrEnum):
    """What can be left out of the rule."""

    RAISE = "the claim reads before it raises `due`"
    AT_ONCE = "the claim reads what is leased and what is queued one after the other"
    ASKS = "the claim writes `due` as it found it, whoever lowered it meanwhile"
    GUARD_ON_VALUE = "the claim compares the value of `due` instead of `asks`"
    LEASE_GUARD = "the claim leases what it picked although its retry was put off since"
    LEASED = "the claim does not look at what is leased in the lane"
    PICKED = "the claim forgets what it picked and did not get"
    LINES = "the claim looks at its own line alone before it lets the record expire"
    RANDOM = "`asks` starts at the same number again when a record comes back"
    LOWER_ON_DUPLICATE = "an enqueuer whose row was there already does not lower `due`"
    LOWER_ON_RETURN = "handing back does not lower `due`"
    LOWER_BEFORE = "an enqueuer lowers `due` before its rows are written"


WHOLE = frozenset({"claimer", "settler", "reaper"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of everything there is."""

    lines: tuple[int, ...] = (0, 0)  # the line of each job
    enqueues: tuple[int, ...] = (0, 1)  # the job that each enqueuer queues
    workers: tuple[frozenset[str], ...] = (WHOLE, WHOLE)  # what each does
    crashes: int = 1
    overruns: int = 0
    room: int = 1  # how many jobs a claim may take
    enqueuers_die: bool = False
    sweeps: bool = False
    records_expire: bool = False
    retries_come: bool = False
    last_look: bool = False  # what is leased and what is queued is read apart, and then once more, together
    kind_lane: bool = False  # a lane of another kind of job: `asks` is read when the lane is hidden already
    fates: tuple[str, ...] = ("end", "retry", "hand_back")  # what may become of a job in hand


class Asks(NamedTuple):
    """What a claim has read of `asks`."""

    number: int


def holds_leased(world: World) -> bool:
    return any(row.state == "leased" for row in world.rows)


def first_due(world: World, lines: tuple[int, ...], line: int) -> When:
    """When the first unfinished row of a line needs its host: one read of leased and queued rows."""
    leased = [When.LEASE for row in world.rows if row.state == "leased"]
    queued = [row.at for row, own in zip(world.rows, lines, strict=True) if row.state == "queued" and own == line]
    return min([*leased, *queued], default=When.NEVER)


def expired_in(world: World) -> tuple[int, ...]:
    return tuple(place for place, row in enumerate(world.rows) if row.state == "leased" and row.expired)


def reaped(world: World) -> World:
    """Queue what has run out. Whoever still holds one finds its stamp gone: it is out of that hand."""
    gone = set(expired_in(world))
    rows = tuple(Row("queued") if place in gone else row for place, row in enumerate(world.rows))
    return world._replace(rows=rows, hands=tuple(hand - gone for hand in world.hands))


def much_later(world: World) -> World:
    due = None if world.due is None else tuple(due if due is When.NEVER else When.NOW for due in world.due)
    rows = tuple(row._replace(at=When.NOW) if row.at is When.FAR else row for row in world.rows)
    return world._replace(rows=rows, due=due)


def come(value: Any) -> Any:
    """What a claim has read, when the times in it have come: they are moments, not lengths."""
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(come(part) for part in value)
    return When.NOW if value is When.FAR else value
