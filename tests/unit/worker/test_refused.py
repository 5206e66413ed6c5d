# SPDX-License-Identifier: Apache-2.0
import pytest

from ojak.clock import ManualClock
from ojak.errors import QueueUnavailable, StoreError
from ojak.worker.refused import RefusedRows

ABOUT = frozenset({"x"})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_row_that_is_refused_waits_twice_as_long_each_time_up_to_a_minute(clock):
    refused = RefusedRows(clock, first_s=5)
    pauses = []
    for _ in range(6):
        pauses.append(refused.add(b"1", ABOUT, StoreError("no")))
        assert refused.held() == {b"1": ABOUT}
        clock.turn(pauses[-1])
        assert refused.held() == {}
    assert pauses == [5, 10, 20, 40, 60, 60]
    refused.forget(b"1")
    assert refused.add(b"1", ABOUT, StoreError("no")) == 5


def test_a_database_that_is_away_is_no_fault_of_a_row(clock):
    refused = RefusedRows(clock, first_s=5)
    assert {refused.add(b"1", ABOUT, QueueUnavailable("away")) for _ in range(9)} == {5}


def test_a_row_that_somebody_else_queued_is_forgotten(clock):
    refused = RefusedRows(clock, first_s=5)
    refused.add(b"1", ABOUT, StoreError("no"))
    clock.turn(66)
    assert refused.held() == {}
    assert refused.add(b"1", ABOUT, StoreError("no")) == 5


def test_a_thousand_that_are_refused_are_enough(clock):
    refused = RefusedRows(clock, first_s=5)
    for n in range(1000):
        assert not refused.is_full
        refused.add(n.to_bytes(2, "big"), ABOUT, StoreError("no"))
    assert refused.is_full
    clock.turn(5)
    assert not refused.is_full
