# SPDX-License-Identifier: Apache-2.0
import pytest

from ojak.breaker.outage import OutageDetector, OutageRules
from ojak.clock import ManualClock


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
