# SPDX-License-Identifier: Apache-2.0
import pytest

from ojak.breaker.outage import OutageDetector, OutageRules
from ojak.clock import ManualClock
from ojak.worker.machine import MachinePage, MachineTallies


class World:
    def __init__(self, good: int = 20) -> None:
        self.clock = ManualClock()
        self.detector = OutageDetector(clock=self.clock)
        for number in range(good):
            self.detector.answered(f"good{number}")
        self.clock.turn(600)

    def fail(self, *numbers: int, name: str = "good") -> None:
        for number in numbers:
            self.detector.unreachable(f"{name}{number}")

    @property
    def frozen(self) -> bool:
        return self.detector.frozen


def test_ten_good_hosts_that_fail_within_a_minute_are_an_outage_of_ours():
    world = World()
    world.fail(*range(9))
    assert not world.frozen
    world.fail(9)
    assert world.frozen


def test_dead_hosts_say_nothing_however_many():
    world = World()
    world.fail(*range(1000), name="dead")
    world.fail(*range(9))
    assert not world.frozen


def test_one_host_that_fails_often_is_one_host():
    world = World()
    world.fail(*[3] * 50)
    assert not world.frozen


def test_the_share_counts_among_good_hosts_tried():
    world = World()
    for number in range(3):
        world.detector.answered(f"good{number}")
    world.fail(*range(3, 14))
    assert not world.frozen, "11 of 14"
    world.fail(14)
    assert world.frozen, "12 of 15"


def test_what_lies_longer_than_a_minute_back_is_forgotten():
    world = World()
    world.fail(*range(9))
    world.clock.turn(61)
    world.fail(9)
    assert not world.frozen
    world.fail(*range(10, 19))
    assert world.frozen


def test_hosts_that_answered_longer_than_six_hours_ago_are_not_known_to_be_good():
    world = World()
    world.clock.turn(6 * 3600)
    world.fail(*range(20))
    assert not world.frozen


def test_a_host_that_answers_after_it_failed_did_not_fail():
    world = World()
    world.fail(*range(9))
    world.detector.answered("good0")
    world.fail(9)
    assert world.frozen, "9 of 10"
    world = World()
    world.fail(*range(9))
    for number in range(3):
        world.detector.answered(f"good{number}")
    world.fail(9)
    assert not world.frozen, "7 of 10"


def test_it_is_over_when_three_hosts_answered_and_then_counted_from_the_start():
    world = World()
    world.fail(*range(10))
    for name in ("good1", "good1", "good2"):
        world.detector.answered(name)
        assert world.frozen
    world.fail(*range(20))
    assert world.frozen
    world.detector.answered("good3")
    seen = [world.frozen]
    for number in range(10):
        world.fail(number)
        seen.append(world.frozen)
    assert seen == [False] * 10 + [True]


def test_the_network_is_tried_with_the_hosts_that_answered_last():
    world = World(good=5)
    world.detector.answered("good2")
    assert world.detector.good_hosts(3) == ["good2", "good4", "good3"]
    world.clock.turn(6 * 3600 - 300)
    assert world.detector.good_hosts(3) == ["good2"]


@pytest.mark.parametrize("hosts", [5, 50])
def test_rules_of_an_operator_hold(hosts: int):
    clock = ManualClock()
    detector = OutageDetector(clock=clock, rules=OutageRules(hosts=hosts, failed=1.0))
    for number in range(hosts):
        detector.answered(f"h{number}")
    for number in range(hosts - 1):
        detector.unreachable(f"h{number}")
        assert not detector.frozen
    detector.unreachable(f"h{hosts - 1}")
    assert detector.frozen


def test_what_is_remembered_is_bounded():
    world = World(good=0)
    for number in range(20_000):
        world.detector.answered(f"flood{number}")
    assert len(world.detector._answered) <= 8192
    assert len(world.detector._tried) <= 8192


class Machine:
    """Three workers on one machine, each with hosts of its own."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.page = MachinePage()
        self.workers = [self.worker(part) for part in range(3)]
        for part, worker in enumerate(self.workers):
            for number in range(4):
                worker.answered(f"w{part}-{number}")

    def worker(self, part: int) -> OutageDetector:
        return OutageDetector(clock=self.clock, tallies=MachineTallies(self.page, part, clock=self.clock))

    def beat(self) -> None:
        for worker in self.workers:
            worker.beat()

    def fail(self, *counts: int) -> None:
        for part, count in enumerate(counts):
            for number in range(count):
                self.workers[part].unreachable(f"w{part}-{number}")


def test_the_workers_of_a_machine_count_together():
    machine = Machine()
    machine.fail(4, 4, 1)
    assert not any(worker.frozen for worker in machine.workers)
    machine.fail(0, 0, 2)
    assert all(worker.frozen for worker in machine.workers)
    machine.workers[0].answered("w0-1")
    machine.workers[1].answered("w1-1")
    assert all(worker.frozen for worker in machine.workers)
    machine.workers[2].answered("w2-1")
    assert not any(worker.frozen for worker in machine.workers)
    machine.fail(4, 4, 1)
    assert not machine.workers[0].frozen, "counted from the start"


def test_what_a_dead_worker_saw_does_not_count():
    machine = Machine()
    machine.fail(4, 4, 0)
    machine.clock.turn(6)
    machine.workers[2].beat()
    machine.fail(0, 0, 4)
    assert not machine.workers[2].frozen
    machine.beat()
    machine.workers[2].unreachable("w2-0")
    assert machine.workers[2].frozen, "the living say it again each second"


def test_an_outage_that_nobody_could_see_the_end_of_ends():
    """Every worker was replaced meanwhile: no host is known any more that could answer."""
    machine = Machine()
    machine.fail(4, 4, 2)
    machine.clock.turn(6)
    heirs = [machine.worker(part) for part in range(3)]
    seen = [heirs[0].frozen]
    heirs[0].beat()
    assert [*seen, heirs[0].frozen] == [True, False]


def test_a_host_that_answered_before_this_process_began_is_good_too():
    detector = OutageDetector(clock=ManualClock())
    for number in range(10):
        detector.unreachable(f"h{number}", known=number > 0)
    seen = [detector.frozen]
    detector.unreachable("h10", known=True)
    assert [*seen, detector.frozen] == [False, True]
    assert len(detector.good_hosts(100)) == 10
