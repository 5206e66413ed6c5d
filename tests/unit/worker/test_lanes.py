# SPDX-License-Identifier: Apache-2.0
import dataclasses

from tests.jobs import TEMPLATE

from ojak.model.job import Job, Priority
from ojak.worker.lanes import Lanes


def jobs_of(lane: str, count: int, priority: Priority = Priority.FANOUT) -> list[Job]:
    return [
        dataclasses.replace(TEMPLATE, id=f"{lane}{priority}{n}".encode(), lane=lane, priority=priority)
        for n in range(count)
    ]


def lanes(concurrency: int = 8, per_host: int = 2, **hosts: int) -> Lanes:
    made = Lanes(concurrency=concurrency, per_host=per_host)
    for name, count in hosts.items():
        made.add(name, 0, jobs_of(name, count), proven=True, foreign=0)
    return made


def started(made: Lanes, limit: int = 1000) -> list[Job]:
    taken: list[Job] = []
    while len(taken) < limit and (job := made.next()) is not None:
        taken.append(job)
    return taken


def test_a_host_has_two_slots_and_hosts_take_turns():
    made = lanes(a=5, b=5, c=1)
    assert [job.lane for job in started(made)] == ["a", "b", "c", "a", "b"]


def test_a_slot_that_is_freed_goes_to_the_next_host_in_turn():
    made = lanes(concurrency=3, a=5, b=5, c=5)
    first = started(made)
    assert [job.lane for job in first] == ["a", "b"], "one slot is kept for small sends"
    made.done(first[0], proven=True)
    assert [job.lane for job in started(made)] == ["c"]


def test_requests_of_a_former_owner_count_toward_the_limit():
    made = Lanes(concurrency=8, per_host=2)
    made.add("a", 0, jobs_of("a", 3), proven=True, foreign=1)
    assert len(started(made)) == 1
    made.add("a", 0, [], proven=True, foreign=2)
    assert started(made) == []
    made.add("a", 0, [], proven=True, foreign=0)
    assert len(started(made)) == 1


def test_hosts_that_have_not_proven_themselves_share_half_of_the_slots():
    made = Lanes(concurrency=8, per_host=2)
    for n in range(10):
        made.add(f"dead{n}", 0, jobs_of(f"dead{n}", 2), proven=False, foreign=0)
    assert len(started(made)) == 4
    made.add("good", 0, jobs_of("good", 5), proven=True, foreign=0)
    assert [job.lane for job in started(made)] == ["good", "good"]


def test_while_proven_hosts_wait_the_others_get_one_pick_in_ten():
    made = Lanes(concurrency=200, per_host=1)
    for n in range(60):
        made.add(f"good{n}", 0, jobs_of(f"good{n}", 1), proven=True, foreign=0)
        made.add(f"dead{n}", 0, jobs_of(f"dead{n}", 1), proven=False, foreign=0)
    picks = started(made, limit=50)
    assert sum(job.lane.startswith("dead") for job in picks) == 5


def test_a_small_send_goes_first_and_a_fan_out_gets_every_fourth_pick():
    made = Lanes(concurrency=100, per_host=1)
    for n in range(20):
        made.add(f"f{n}", 0, jobs_of(f"f{n}", 1), proven=True, foreign=0)
        made.add(f"s{n}", 0, jobs_of(f"s{n}", 1, Priority.SMALL), proven=True, foreign=0)
    assert [job.lane[0] for job in started(made, limit=8)] == list("sssfsssf")


def test_one_slot_is_kept_for_small_sends():
    made = lanes(concurrency=4, per_host=4, a=9)
    assert len(started(made)) == 3
    made.add("b", 0, jobs_of("b", 1, Priority.SMALL), proven=True, foreign=0)
    assert [job.lane for job in started(made)] == ["b"]


def test_a_host_that_proves_itself_moves_with_all_that_waits():
    made = Lanes(concurrency=8, per_host=2)
    made.add("a", 0, jobs_of("a", 5), proven=False, foreign=0)
    (one, two) = started(made)
    assert (made.backlog_of(Priority.FANOUT, proven=True), made.backlog_of(Priority.FANOUT, proven=False)) == (0, 3)
    made.done(one, proven=True)
    assert (made.backlog_of(Priority.FANOUT, proven=True), made.backlog_of(Priority.FANOUT, proven=False)) == (3, 0)
    made.done(two, proven=None)
    assert len(started(made)) == 2


def test_what_is_taken_out_is_everything_that_waits_and_nothing_that_is_open():
    made = lanes(a=4, b=1)
    open_now = started(made, limit=2)
    taken = made.take_host("a")
    assert len(taken) == 3
    assert made.take_all() == []
    assert (made.backlog, made.open) == (0, 2)
    for job in open_now:
        made.done(job, proven=True)
    assert made.open == 0
    assert made.busy(Priority.FANOUT) == []


def test_what_is_to_stay_of_a_host_that_is_taken_out_stays_and_starts():
    made = lanes(a=4, b=1)
    probe = jobs_of("a", 4)[2]
    assert [job.id for job in made.take_host("a", but={probe.id})] == [
        job.id for job in jobs_of("a", 4) if job != probe
    ]
    assert made.backlog == 2
    assert {job.id for job in started(made)} == {probe.id, jobs_of("b", 1)[0].id}


def test_jobs_whose_lease_was_taken_are_forgotten():
    made = lanes(a=4)
    jobs = jobs_of("a", 4)
    assert made.take_jobs({jobs[0].id, jobs[3].id, b"unknown"}) == [jobs[0], jobs[3]]
    assert [job.id for job in started(made)] == [jobs[1].id, jobs[2].id]


def test_a_host_is_full_when_as_much_waits_as_it_has_slots():
    made = lanes(a=2, b=1)
    assert made.busy(Priority.FANOUT) == ["a"]


def test_a_host_that_is_held_starts_nothing_until_it_is_released():
    made = lanes(a=4, b=1)
    (first,) = started(made, limit=1)
    assert first.lane == "a"
    assert len(made.hold("a")) == 3
    made.add("a", 0, jobs_of("a", 1), proven=True, foreign=0)
    assert [job.lane for job in started(made)] == ["b"]
    assert "a" in made.busy(Priority.SMALL)
    made.release("a")
    assert [job.lane for job in started(made)] == ["a"]


def test_a_fan_out_to_a_host_leaves_room_for_a_small_send_to_it():
    made = lanes(a=4)
    assert made.busy(Priority.FANOUT) == ["a"]
    assert made.busy(Priority.SMALL) == []
    assert made.waiting_of("a", Priority.SMALL) == 0


def suspects_of(lane: str, count: int) -> list[Job]:
    return [dataclasses.replace(job, id=b"s" + job.id, deaths=1) for job in jobs_of(lane, count)]


def test_a_suspect_runs_when_no_other_suspect_does_and_its_neighbours_go_past_it():
    made = Lanes(concurrency=8, per_host=2)
    made.add("a", 0, [*suspects_of("a", 2), *jobs_of("a", 1)], proven=True, foreign=0)
    made.add("b", 0, [*suspects_of("b", 2), *jobs_of("b", 1)], proven=True, foreign=0)
    first = started(made)
    assert [(job.lane, job.deaths) for job in first] == [("a", 1), ("b", 0), ("a", 0)]
    made.done(first[1], proven=True)
    assert started(made) == [], "what is left are suspects"
    made.done(first[0], proven=True)
    assert started(made) == [], "its outcome is not stored: a death would count as its own"
    assert made.over(first[0].id)
    for left in (2, 1, 0):
        (suspect,) = started(made)
        assert suspect.deaths
        made.done(suspect, proven=True)
        assert made.over(suspect.id) is (left > 0)
    assert (made.backlog, started(made)) == (0, [])


def test_a_few_suspects_do_not_keep_their_host_from_being_claimed():
    made = Lanes(concurrency=8, per_host=2)
    made.add("a", 0, suspects_of("a", 16), proven=True, foreign=0)
    assert (made.waiting_of("a", Priority.FANOUT), made.busy(Priority.FANOUT)) == (0, [])
    made.add("a", 0, suspects_of("a", 2), proven=True, foreign=0)
    assert (made.waiting_of("a", Priority.FANOUT), made.busy(Priority.FANOUT)) == (2, ["a"])
    assert {job.id for job in made.take_all()} == {job.id for job in suspects_of("a", 16)}


def flood(made: Lanes, count: int = 40) -> Lanes:
    for n in range(count):
        made.add(f"x{n}", 0, jobs_of(f"x{n}", 1), proven=False, foreign=0)
    return made


def test_unproven_hosts_wait_their_turn_while_jobs_of_proven_ones_are_being_claimed():
    made = flood(lanes(a=2))
    made.expect_proven(Priority.FANOUT, True)
    assert [job.lane for job in started(made)] == ["a", "a"]
    made.expect_proven(Priority.FANOUT, False)
    assert [job.lane for job in started(made)] == ["x0", "x1", "x2", "x3"]


def test_unproven_hosts_use_what_proven_ones_that_are_busy_leave_free():
    made = flood(lanes(a=5))
    made.expect_proven(Priority.FANOUT, True)
    assert [job.lane for job in started(made)] == ["a", "a", "x0", "x1", "x2", "x3"]
