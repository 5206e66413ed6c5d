# SPDX-License-Identifier: Apache-2.0
"""When a dead child is started again."""

from ojak.supervisor.restart import RestartDelay


def test_half_a_second_doubling_to_a_minute() -> None:
    delay = RestartDelay()
    assert [delay.next_s(0.1) for _ in range(9)] == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]


def test_a_minute_up_starts_it_anew() -> None:
    delay = RestartDelay()
    for _ in range(5):
        delay.next_s(1)
    assert delay.next_s(60) == 0.5
    assert delay.next_s(59) == 1
