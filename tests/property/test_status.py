# SPDX-License-Identifier: Apache-2.0
import time
from email.utils import formatdate
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ojak.backoff import backoff_s
from ojak.model.status import StatusClass, classify_status, permanent_status, retry_after_s

NOWS_S = st.floats(0, 4e9)


@given(st.text(), NOWS_S)
def test_any_retry_after_gives_a_bounded_wait_or_none(value: str, now_s: float) -> None:
    wait_s = retry_after_s(value, now_s)
    assert wait_s is None or 1 <= wait_s <= 86400


@given(st.integers(0, 4_000_000_000), st.integers(1, 86400))
def test_every_date_form_of_a_moment_says_the_same(now_s: int, ahead_s: int) -> None:
    moment = time.gmtime(now_s + ahead_s)
    imf = formatdate(now_s + ahead_s, usegmt=True)
    day, month = imf[:3], imf[8:11]
    long_day = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[moment.tm_wday]
    clock = f"{moment.tm_hour:02}:{moment.tm_min:02}:{moment.tm_sec:02}"
    forms = [
        imf,
        f"{long_day}, {moment.tm_mday:02}-{month}-{moment.tm_year % 100:02} {clock} GMT",
        f"{day} {month} {moment.tm_mday:2} {clock} {moment.tm_year}",
    ]
    assert [retry_after_s(form, now_s) for form in forms] == [ahead_s] * 3


@given(st.integers(-1000, 2000), st.sets(st.integers(100, 599)), st.booleans())
def test_every_status_has_a_class(status: int, retried: set[int], knocked: bool) -> None:
    got = classify_status(status, frozenset(retried), knocked=knocked)
    assert (got is StatusClass.DELIVERED) == (200 <= status <= 299)
    if status in retried and not 200 <= status <= 299:
        assert got in {StatusClass.RETRY, StatusClass.GATE, StatusClass.KNOCK}
    if permanent_status(status) and status not in retried:
        assert got in {StatusClass.FINAL, StatusClass.GONE, StatusClass.KNOCK}
    assert not (knocked and got is StatusClass.KNOCK)


@given(st.integers(1, 1000), st.randoms(use_true_random=False))
def test_waits_stay_within_the_curve(attempt: int, random: Random) -> None:
    fourth = attempt**4
    assert fourth + 15 <= backoff_s(attempt, random) <= fourth * 1.5 + 10 * attempt + 15
