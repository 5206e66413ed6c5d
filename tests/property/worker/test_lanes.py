# SPDX-License-Identifier: Apache-2.0
"""Lanes under random interleavings: the limits always hold, the counts are always right, nothing is forgotten."""

import dataclasses

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from tests.jobs import TEMPLATE

from ojak.model.job import Job, Priority
from ojak.worker.lanes import Lanes

HOSTS = ["a", "b", "c", "d"]


class LanesMachine(RuleBasedStateMachine):
    running = Bundle("running")
    ended = Bundle("ended")

    def __init__(self) -> None:
        super().__init__()
        self.lanes = Lanes(concurrency=5, per_host=2)
        self.waiting: dict[bytes, Job] = {}
        self.open: dict[bytes, Job] = {}
        self.unstored: dict[bytes, Job] = {}
        self.foreign: dict[str, int] = {}
        self.slots: dict[str, int] = {}
        self.caps: dict[str, int | None] = {}
        self.made = 0

    @rule(
        host=st.sampled_from(HOSTS),
        priorities=st.lists(st.sampled_from(Priority), max_size=4),
        proven=st.booleans(),
        foreign=st.integers(0, 2),
        deaths=st.sampled_from([0, 0, 0, 1]),
        slots=st.sampled_from([None, 1, 2, 4]),
        cap=st.sampled_from([None, None, 1]),
    )
    def add(
        self,
        *,
        host: str,
        priorities: list[Priority],
        proven: bool,
        foreign: int,
        deaths: int,
        slots: int | None,
        cap: int | None,
    ) -> None:
        jobs = []
        for priority in priorities:
            self.made += 1
            job = dataclasses.replace(TEMPLATE, id=b"%d" % self.made, lane=host, priority=priority, deaths=deaths)
            jobs.append(job)
        self.lanes.add(host, HOSTS.index(host), jobs, proven=proven, foreign=foreign, slots=slots, limit=cap)
        self.slots[host], self.caps[host] = slots or 2, cap
        self.waiting.update({job.id: job for job in jobs})
        self.foreign[host] = foreign

    @rule(host=st.sampled_from(HOSTS), slots=st.integers(1, 4))
    def answer_otherwise(self, host: str, slots: int) -> None:
        self.lanes.set_slots(host, slots)
        if host in self.lanes.names():
            self.slots[host] = slots

    @rule(host=st.sampled_from(HOSTS), cap=st.sampled_from([None, 1]))
    def recover(self, host: str, cap: int | None) -> None:
        self.lanes.set_limit(host, cap)
        if host in self.lanes.names():
            self.caps[host] = cap

    @rule(target=running)
    def start(self):
        job = self.lanes.next()
        if job is None:
            return multiple()
        assert self.waiting.pop(job.id) == job
        others = sum(other.lane == job.lane for other in self.open.values())
        assert others + self.foreign[job.lane] < min(self.slots[job.lane], self.caps[job.lane] or 64)
        suspect = any(other.deaths for other in (*self.open.values(), *self.unstored.values()))
        assert not (job.deaths and suspect), "a suspect goes when no other is open, or not stored yet"
        older = [
            other
            for other in self.waiting.values()
            if other.lane == job.lane and other.priority == job.priority and not (other.deaths and suspect)
        ]
        assert all(int(other.id) > int(job.id) for other in older), "the oldest of its line goes first"
        self.open[job.id] = job
        return job

    @rule(target=ended, job=consumes(running), proven=st.sampled_from([True, False, None]))
    def finish(self, job: Job, proven: bool | None) -> Job:
        del self.open[job.id]
        self.unstored[job.id] = job
        self.lanes.done(job, proven=proven)
        return job

    @rule(job=consumes(ended))
    def store(self, job: Job) -> None:
        del self.unstored[job.id]
        self.lanes.over(job.id)

    @rule(ids=st.sets(st.integers(1, 40), max_size=3))
    def lose(self, ids: set[int]) -> None:
        wanted = {b"%d" % number for number in ids}
        assert {job.id for job in self.lanes.take_jobs(wanted)} == wanted & set(self.waiting)
        for row_id in wanted:
            self.waiting.pop(row_id, None)

    @rule(host=st.sampled_from(HOSTS))
    def hand_back(self, host: str) -> None:
        taken = {job.id for job in self.lanes.take_host(host)}
        assert taken == {row_id for row_id, job in self.waiting.items() if job.lane == host}
        for row_id in taken:
            del self.waiting[row_id]

    @invariant()
    def counts_are_right(self) -> None:
        assert self.lanes.backlog == len(self.waiting)
        for priority in Priority:
            counted = sum(self.lanes.backlog_of(priority, proven=proven) for proven in (True, False))
            assert counted == sum(job.priority is priority for job in self.waiting.values())
        assert self.lanes.open == len(self.open) <= 5
        for shard, host in enumerate(HOSTS):
            assert self.lanes.open_in([shard]) == sum(job.lane == host for job in self.open.values())
            assert sum(self.lanes.waiting_of(host, priority) for priority in Priority) == sum(
                job.lane == host and not job.deaths for job in self.waiting.values()
            ) + sum(max(0, self._suspects(host, priority) - 16) for priority in Priority)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """Whatever a slot is free for can start: a suspect that has ended left nothing out of the rings."""
        if not self.open and not self.unstored and not any(self.foreign.values()) and self.waiting:
            assert any(ring for rings in self.lanes._rings.values() for ring in rings)

    def _suspects(self, host: str, priority: Priority) -> int:
        return sum(job.lane == host and job.priority is priority and job.deaths for job in self.waiting.values())

    def teardown(self) -> None:
        # Whatever is left comes out once everything that is open has ended and nobody else holds slots.
        for host in HOSTS:
            self.lanes.add(host, HOSTS.index(host), [], proven=True, foreign=0)
        for begun in list(self.open.values()):
            self.lanes.done(begun, proven=True)
        for row_id in (*self.open, *self.unstored):
            self.lanes.over(row_id)
        left = set(self.waiting)
        while (job := self.lanes.next()) is not None:
            left.remove(job.id)
            self.lanes.done(job, proven=True)
            self.lanes.over(job.id)
        assert left == set()


TestLanes = LanesMachine.TestCase
TestLanes.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
