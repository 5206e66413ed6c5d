# SPDX-License-Identifier: Apache-2.0
from random import Random

import pytest

from ojak.backoff import backoff_s


class Edge(Random):
    """A source that always gives one end of its range."""

    def __init__(self, fraction: float) -> None:
        super().__init__(0)
        self.fraction = fraction

    def random(self) -> float:
        return self.fraction


@pytest.mark.parametrize(
    ("attempt", "least_s", "most_s"),
    [(1, 16, 26.5), (2, 31, 59), (3, 96, 166.5), (10, 10_015, 15_115), (16, 65_551, 98_479)],
)
def test_curve(attempt: int, least_s: float, most_s: float) -> None:
    assert backoff_s(attempt, Edge(0)) == least_s
    assert backoff_s(attempt, Edge(1)) == most_s


def test_attempts_count_from_one() -> None:
    with pytest.raises(ValueError, match="attempt is 0; it must be 1 or more"):
        backoff_s(0, Random(0))


def test_fifteen_waits_take_two_days_and_more() -> None:
    assert sum(backoff_s(attempt, Edge(0)) for attempt in range(1, 16)) == 178_312 + 15 * 15
