# SPDX-License-Identifier: Apache-2.0
"""Lanes: which of the leased jobs starts next (SPEC section 2). Pure: no clock, no I/O.

Hosts take turns, so that a backlog cannot stand before everybody else. A host has so many slots and no more. Hosts that
have not answered yet, whose last attempt failed, or that are slow share half of all slots, and while others wait they
get one pick in ten: dead servers never hold up the living. One slot is kept for small sends, and a quarter of the picks
goes to fan-outs even while small sends wait.

A job whose worker died while it ran is a suspect: it starts when no other suspect is open here, or over and not yet
stored, so that of two that were on the wire when a worker died only the one that killed it does it again. What stands
behind it goes past it.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final

from ojak.model.job import Job, Priority

SLOW_MS: Final = 2000.0
"""Hosts whose answers take longer on average count among the slow."""

_UNPROVEN_TURN: Final = 10
_FANOUT_TURN: Final = 4
_SUSPECTS_PASSED: Final = 16
"""So many suspects of a line do not count as waiting: what stands behind them is claimed all the same."""


class Lane:
    """One host's jobs in this worker.

    Attributes:
        authority: the host.
        shard: its shard.
        proven: whether its last attempt came through and its answers are quick.
        slots: how many requests it may have open by what is allowed it and how it answers.
        cap: how many while it recovers from a quarantine, None for as many as it has slots.
        limit: the lesser of both.
        foreign: requests that a former owner of the shard may still have open; they count toward the host's limit.
        open: requests of ours that are open.
        backlog: how many jobs are leased here and not begun.
        waiting: those jobs, by priority.
        suspects: how many of those are suspects, by priority.
    """

    __slots__ = (
        "authority",
        "backlog",
        "cap",
        "foreign",
        "limit",
        "open",
        "proven",
        "shard",
        "slots",
        "suspects",
        "waiting",
    )

    def __init__(self, authority: str, shard: int, *, proven: bool, slots: int) -> None:
        self.authority = authority
        self.limit = slots
        self.shard = shard
        self.proven = proven
        self.slots = slots
        self.cap: int | None = None
        self.foreign = 0
        self.open = 0
        self.backlog = 0
        self.waiting: tuple[deque[Job], deque[Job]] = (deque(), deque())
        self.suspects = [0, 0]

    def pressing(self, priority: Priority) -> int:
        """How many jobs of a line wait, but the first few suspects."""
        return len(self.waiting[priority]) - min(self.suspects[priority], _SUSPECTS_PASSED)

    def may_have(self, slots: int, cap: int | None) -> None:
        """Say how many requests it may have open."""
        self.slots, self.cap = slots, cap
        self.limit = slots if cap is None else min(slots, cap)


class Lanes:
    """All jobs that this worker has leased and not begun, by host.

    Args:
        concurrency: slots in all.
        per_host: slots of one host.
    """

    def __init__(self, *, concurrency: int, per_host: int) -> None:
        self.concurrency = concurrency
        self.per_host = per_host
        self.open = 0
        # Jobs that are leased and not begun, by standing and priority: asked at every delivery, so counted.
        self._backlog = {True: [0, 0], False: [0, 0]}
        # Whether the queue is known to hold more for proven hosts than is leased here, by priority.
        self._expected = [False, False]
        self._open_unproven = 0
        self._open_fanout = 0
        self._picks = 0
        self._lanes: dict[str, Lane] = {}
        # Lanes that could start a job now, in turn: by standing, then by priority.
        self._rings: dict[bool, tuple[dict[str, Lane], dict[str, Lane]]] = {True: ({}, {}), False: ({}, {})}
        # Hosts that asked for no more requests for now.
        self._held: set[str] = set()
        # What an open job was counted under: its lane's standing may change while it is on the wire.
        self._counted_unproven: set[bytes] = set()
        # The suspect that is open, or whose outcome is not stored yet: should this worker die now, that counts as its
        # death too. And the lanes where others wait.
        self._suspect: bytes | None = None
        self._with_suspects: dict[str, Lane] = {}

    def add(
        self,
        authority: str,
        shard: int,
        jobs: Sequence[Job],
        *,
        proven: bool,
        foreign: int,
        slots: int | None = None,
        limit: int | None = None,
    ) -> None:
        """Take in jobs that were leased for a host, oldest first.

        `slots` is how many requests it may have open, `per_host` if None; `limit` is for one that may not use them all.
        """
        lane = self._lanes.get(authority)
        if lane is None:
            lane = self._lanes[authority] = Lane(authority, shard, proven=proven, slots=self.per_host)
        lane.may_have(self.per_host if slots is None else slots, limit)
        lane.foreign = foreign
        for job in jobs:
            lane.waiting[job.priority].append(job)
            self._count(lane, job, 1)
        if lane.open + foreign >= lane.limit:
            # What others hold may have grown while it stood in the rings.
            self._leave(lane)
        self._enter(lane)

    def set_limit(self, authority: str, limit: int | None) -> None:
        """Change how many requests a host may have open; None: as many as it has slots."""
        lane = self._lanes.get(authority)
        if lane is not None:
            lane.may_have(lane.slots, limit)
            self._leave(lane)
            self._enter(lane)

    def set_slots(self, authority: str, slots: int) -> None:
        """Change how many requests a host may have open, whatever its breaker says."""
        lane = self._lanes.get(authority)
        if lane is not None and lane.slots != slots:
            lane.may_have(slots, lane.cap)
            self._leave(lane)
            self._enter(lane)

    def _count(self, lane: Lane, job: Job, change: int) -> None:
        lane.backlog += change
        self._backlog[lane.proven][job.priority] += change
        if job.deaths:
            lane.suspects[job.priority] += change
            if any(lane.suspects):
                self._with_suspects[lane.authority] = lane
            else:
                self._with_suspects.pop(lane.authority, None)

    @property
    def backlog(self) -> int:
        """How many jobs are leased here and not begun."""
        return sum(self._backlog[True]) + sum(self._backlog[False])

    def next(self) -> Job | None:
        """Start a job if a slot is free for one; gives it, counted as open."""
        if self.open >= self.concurrency:
            return None
        unproven_first = self._picks % _UNPROVEN_TURN == _UNPROVEN_TURN - 1
        fanout_first = self._picks % _FANOUT_TURN == _FANOUT_TURN - 1
        for proven in (False, True) if unproven_first else (True, False):
            if not proven and (
                self._open_unproven >= max(1, self.concurrency // 2) or (self._proven_comes() and not unproven_first)
            ):
                continue
            for priority in (Priority.FANOUT, Priority.SMALL) if fanout_first else (Priority.SMALL, Priority.FANOUT):
                if priority is Priority.FANOUT and self._open_fanout >= max(1, self.concurrency - 1):
                    continue
                ring = self._rings[proven][priority]
                if ring:
                    self._picks += 1
                    return self._start(next(iter(ring.values())), priority)
        return None

    def expect_proven(self, priority: Priority, expected: bool) -> None:  # noqa: FBT001 - what is said of the line
        """Say whether the queue holds more of a line for proven hosts than is leased here."""
        self._expected[priority] = expected

    def _proven_comes(self) -> bool:
        """Whether jobs of proven hosts are about to be claimed, and none is here: unproven ones wait for their turn.

        Those that are here and cannot start, since their hosts are busy, keep nobody waiting.
        """
        return any(self._expected) and not sum(self._backlog[True])

    def _start(self, lane: Lane, priority: Priority) -> Job:
        line = lane.waiting[priority]
        if line[0].deaths and self._suspect is not None:
            job = next(job for job in line if not job.deaths)
            line.remove(job)
        else:
            job = line.popleft()
        lane.open += 1
        self.open += 1
        self._count(lane, job, -1)
        self._open_fanout += priority is Priority.FANOUT
        if not lane.proven:
            self._open_unproven += 1
            self._counted_unproven.add(job.id)
        if job.deaths:
            self._suspect = job.id
            for other in self._with_suspects.values():
                for ring, line_of in zip(self._rings[other.proven], Priority, strict=True):
                    if not self._has_next(other, line_of):
                        ring.pop(other.authority, None)
        # Out and in again: the lane goes to the end of its rings.
        self._leave(lane)
        self._enter(lane)
        return job

    def done(self, job: Job, *, proven: bool | None) -> None:
        """Free a job's slot. `proven` is the host's new standing, None if the attempt tells nothing of it."""
        lane = self._lanes[job.lane]
        lane.open -= 1
        self.open -= 1
        self._open_fanout -= job.priority is Priority.FANOUT
        if job.id in self._counted_unproven:
            self._counted_unproven.discard(job.id)
            self._open_unproven -= 1
        if proven is not None and proven is not lane.proven:
            self._leave(lane)
            for priority in Priority:
                self._backlog[lane.proven][priority] -= len(lane.waiting[priority])
                self._backlog[proven][priority] += len(lane.waiting[priority])
            lane.proven = proven
        self._enter(lane)

    def over(self, job_id: bytes) -> bool:
        """A death of this worker does not count for a job any more: gives whether other suspects waited for that."""
        if job_id != self._suspect:
            return False
        self._suspect = None
        for other in list(self._with_suspects.values()):
            self._enter(other)
        return bool(self._with_suspects)

    def _has_next(self, lane: Lane, priority: Priority) -> bool:
        """Whether a line has a job that may start beside what is open."""
        waiting = len(lane.waiting[priority])
        return waiting > (0 if self._suspect is None else lane.suspects[priority])

    def _leave(self, lane: Lane) -> None:
        """Take a lane out of the rings of its standing."""
        small, fanout = self._rings[lane.proven]
        small.pop(lane.authority, None)
        fanout.pop(lane.authority, None)

    def _enter(self, lane: Lane) -> None:
        """Put a lane at the end of the rings where it could start a job, if it is not in them; forget an empty one."""
        if lane.backlog:
            if lane.open + lane.foreign < lane.limit and lane.authority not in self._held:
                for priority, ring in zip(Priority, self._rings[lane.proven], strict=True):
                    if self._has_next(lane, priority):
                        ring.setdefault(lane.authority, lane)
        elif not lane.open:
            self._lanes.pop(lane.authority, None)

    def busy(self, priority: Priority) -> list[str]:
        """Hosts of which no more is to be leased: held, or with as much waiting in this line as they have slots."""
        full = [
            lane.authority
            for lane in self._lanes.values()
            if lane.pressing(priority) >= lane.limit and not lane.foreign
        ]
        return [*full, *self._held]

    def hold(self, authority: str) -> list[Job]:
        """Start nothing of a host until `release`; gives what waits for it, to be handed back."""
        self._held.add(authority)
        return self.take_host(authority)

    def release(self, authority: str) -> None:
        """A host's hold has ended."""
        self._held.discard(authority)
        lane = self._lanes.get(authority)
        if lane is not None:
            self._enter(lane)

    def is_held(self, authority: str) -> bool:
        """Whether nothing of a host is started."""
        return authority in self._held

    def backlog_of(self, priority: Priority, *, proven: bool) -> int:
        """How many jobs of a line wait here for proven hosts, or for the others."""
        return self._backlog[proven][priority]

    @property
    def pressed(self) -> bool:
        """Whether jobs wait here for a slot: all are taken, or all that unproven hosts may have."""
        return self.backlog > 0 and (
            self.open >= self.concurrency
            or (self._open_unproven >= max(1, self.concurrency // 2) and sum(self._backlog[False]) > 0)
        )

    def waiting_of(self, authority: str, priority: Priority) -> int:
        """How many jobs of a host's line are leased here and not begun, but the first few suspects."""
        lane = self._lanes.get(authority)
        return lane.pressing(priority) if lane is not None else 0

    def names(self) -> list[str]:
        """The hosts of which something waits here or is open."""
        return list(self._lanes)

    def open_in(self, shards: Iterable[int]) -> int:
        """How many requests are open to hosts of `shards`."""
        wanted = set(shards)
        return sum(lane.open for lane in self._lanes.values() if lane.shard in wanted)

    def take_host(self, authority: str, *, but: Container[bytes] = ()) -> list[Job]:
        """Take out what waits for a host, to be handed back; jobs with the ids `but` stay."""
        lane = self._lanes.get(authority)
        return self._take(lane, but) if lane is not None else []

    def take_shards(self, shards: Iterable[int]) -> list[Job]:
        """Take out what waits for hosts of `shards`, to be handed back."""
        wanted = set(shards)
        return [job for lane in list(self._lanes.values()) if lane.shard in wanted for job in self._take(lane)]

    def take_all(self) -> list[Job]:
        """Take out everything that waits, to be handed back."""
        return [job for lane in list(self._lanes.values()) for job in self._take(lane)]

    def take_jobs(self, ids: set[bytes]) -> list[Job]:
        """Take out waiting jobs: their lease was taken, or they were cancelled; gives those that were found."""
        taken: list[Job] = []
        for lane in list(self._lanes.values()):
            for line in lane.waiting:
                for job in [job for job in line if job.id in ids]:
                    line.remove(job)
                    self._count(lane, job, -1)
                    taken.append(job)
            self._leave(lane)
            self._enter(lane)
        return taken

    def take_where(self, wanted: Callable[[Job], bool]) -> list[Job]:
        """Take out the waiting jobs that `wanted` is true of."""
        return self.take_jobs({job.id for lane in self._lanes.values() for job in _waiting(lane) if wanted(job)})

    def _take(self, lane: Lane, but: Container[bytes] = ()) -> list[Job]:
        jobs = [job for job in _waiting(lane) if job.id not in but]
        for job in jobs:
            self._count(lane, job, -1)
        for line in lane.waiting:
            kept = [job for job in line if job.id in but]
            line.clear()
            line.extend(kept)
        self._leave(lane)
        self._enter(lane)
        return jobs


def _waiting(lane: Lane) -> list[Job]:
    return [job for line in lane.waiting for job in line]
