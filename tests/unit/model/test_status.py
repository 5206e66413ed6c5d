# SPDX-License-Identifier: Apache-2.0
import calendar
import time

import pytest

from ojak.model.status import FINAL_STATUSES, StatusClass, classify_status, permanent_status, retry_after_s

NOW_S = float(calendar.timegm((2026, 11, 30, 12, 0, 0)))

CLASSES = {
    StatusClass.DELIVERED: {*range(200, 300)},
    StatusClass.KNOCK: {400, 401, 403},
    StatusClass.GATE: {429, 503},
    StatusClass.GONE: {410},
    StatusClass.FINAL: {*range(300, 400), *range(400, 500), 501, 505, 508, 510} - {400, 401, 403, 408, 410, 429},
    StatusClass.RETRY: {100, 101, 199, 408, *range(500, 1000)} - {501, 503, 505, 508, 510},
}


@pytest.mark.parametrize("wanted", CLASSES)
def test_status_table(wanted: StatusClass) -> None:
    assert {status for status in CLASSES[wanted] if classify_status(status) is not wanted} == set()


def test_after_both_knocks_a_refusal_is_final() -> None:
    assert {classify_status(status, knocked=True) for status in (400, 401, 403)} == {StatusClass.FINAL}
    assert classify_status(429, knocked=True) is StatusClass.GATE


def test_permanent_statuses_are_the_4xx_but_408_and_429() -> None:
    assert {status for status in range(1000) if permanent_status(status)} == set(range(400, 500)) - {408, 429}


def test_an_operator_can_have_final_statuses_retried() -> None:
    retried = frozenset({404, 410, 301, 501, 403, 200})
    assert classify_status(404, retried) is StatusClass.RETRY
    assert classify_status(410, retried) is StatusClass.RETRY
    assert classify_status(301, retried) is StatusClass.RETRY
    assert classify_status(501, retried) is StatusClass.RETRY
    assert classify_status(403, retried) is StatusClass.KNOCK
    assert classify_status(403, retried, knocked=True) is StatusClass.RETRY
    assert classify_status(200, retried) is StatusClass.DELIVERED


def test_an_operator_can_choose_what_is_final() -> None:
    assert classify_status(503, final_statuses=FINAL_STATUSES | {503}) is StatusClass.FINAL
    assert classify_status(501, final_statuses=frozenset()) is StatusClass.RETRY
    assert classify_status(301, final_statuses=frozenset()) is StatusClass.FINAL
    assert classify_status(404, final_statuses=frozenset()) is StatusClass.FINAL


@pytest.mark.parametrize(
    ("value", "wanted_s"),
    [
        ("1", 1),
        ("120", 120),
        ("0120", 120),
        (" 120\t", 120),
        ("86400", 86400),
        ("Mon, 30 Nov 2026 12:02:00 GMT", 120),
        ("Monday, 30-Nov-26 12:02:00 GMT", 120),
        ("Mon Nov 30 12:02:00 2026", 120),
        ("Tue Dec  1 00:00:00 2026", 43200),
        ("Mon, 30 Nov 2026 12:00:60 GMT", 60),
    ],
)
def test_retry_after_in_seconds_and_all_three_dates(value: str, wanted_s: float) -> None:
    assert retry_after_s(value, NOW_S) == wanted_s


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        " ",
        "0",
        "86401",
        "315360000",
        "9" * 5000,
        "-5",
        "+3",
        "1_000",
        "1.5",
        "1e3",
        "0x10",
        "٣٠",
        "３０",
        "30 s",
        "30, 30",
        "30\xa0",
        "soon",
        "Mon, 30 Nov 2026 12:00:00 GMT",
        "Mon, 30 Nov 2026 11:00:00 GMT",
        "Fri, 30 Nov 2036 12:00:00 GMT",
        "Mon, 30 Nov 2026 12:02:00 UTC",
        "Mon, 30 Nov 2026 12:02:00 +0000",
        "Mon, 30 Nov 2026 12:02:00",
        "Mon, 30 nov 2026 12:02:00 GMT",
        "Mo., 30 Nov 2026 12:02:00 GMT",
        "Mon, 30 Nov 2026 24:02:00 GMT",
        "Mon, 30 Nov 2026 12:60:00 GMT",
        "Mon, 31 Nov 2026 12:02:00 GMT",
        "Mon, 00 Dec 2026 12:02:00 GMT",
        "Mon,  1 Dec 2026 12:02:00 GMT",
        "Mon, 30 Nov ２０２６ 12:02:00 GMT",
        "Mon, 30 Nov 0000 12:02:00 GMT",
        "Mon Nov 30 12:02:00 2026 GMT",
        "2026-11-30T12:02:00Z",
    ],
)
def test_any_other_retry_after_is_ignored(value: str | None) -> None:
    assert retry_after_s(value, NOW_S) is None


def test_a_year_of_two_digits_is_the_nearest() -> None:
    end_of_century_s = float(calendar.timegm((2099, 12, 31, 23, 59, 0)))
    assert retry_after_s("Friday, 01-Jan-00 00:00:00 GMT", end_of_century_s) == 60
    assert retry_after_s("Friday, 01-Jan-77 00:00:00 GMT", NOW_S) is None


def test_29_february() -> None:
    before_s = float(calendar.timegm((2028, 2, 28, 23, 59, 0)))
    assert retry_after_s("Tue, 29 Feb 2028 00:00:00 GMT", before_s) == 60
    assert retry_after_s("Thu, 29 Feb 2029 00:00:00 GMT", float(calendar.timegm((2029, 2, 28, 23, 59, 0)))) is None


def test_the_locale_and_the_time_zone_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    time.tzset()
    try:
        assert retry_after_s("Mon, 30 Nov 2026 12:02:00 GMT", NOW_S) == 120
    finally:
        monkeypatch.undo()
        time.tzset()
