# SPDX-License-Identifier: Apache-2.0
"""Each death is told until somebody has dealt with it."""

from ojak.supervisor.obituaries import RESEND_S, Obituaries

STAMP = b"s" * 16


def test_one_is_told_to_one_worker_until_it_answers() -> None:
    notices = Obituaries()
    first = notices.add(STAMP, [b"j" * 16])
    assert notices.waiting(0) == [first]
    notices.sent(first.number, 3, 0)
    assert notices.waiting(RESEND_S - 1) == []
    assert notices.buried(first.number)
    assert len(notices) == 0
    assert notices.waiting(RESEND_S + 1) == []


def test_a_second_answer_is_nothing_new() -> None:
    notices = Obituaries()
    first = notices.add(STAMP, [])
    assert notices.buried(first.number)
    assert not notices.buried(first.number)


def test_when_the_carrier_dies_or_is_silent_another_is_told() -> None:
    notices = Obituaries()
    first, second = notices.add(STAMP, []), notices.add(STAMP, [])
    notices.sent(first.number, 1, 0)
    notices.sent(second.number, 2, 0)
    notices.carrier_died(1)
    assert notices.waiting(1) == [first]
    assert notices.waiting(RESEND_S) == [first, second]
    assert notices.last_carrier(second.number) == 2
