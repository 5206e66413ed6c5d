# SPDX-License-Identifier: Apache-2.0

"""What an inbox's HTTP status, and its `Retry-After`, mean for a delivery."""

import calendar
import re
import time
from enum import StrEnum
from typing import Final

KNOCK_STATUSES: Final = frozenset({400, 401, 403})
"""Refusals that may be about the signature scheme: worth one knock with the other one."""

GATE_STATUSES: Final = frozenset({429, 503})
"""Answers that may close the whole host for a while with a `Retry-After`."""

TOO_MANY_REQUESTS: Final = 429
"""A host that gives this answer gets one delivery at a time for a while."""

FINAL_STATUSES: Final = frozenset({501, 505, 508, 510})
"""The default of `final_statuses`: what is final beside every 3xx and the permanent 4xx."""

RETRY_AFTER_MIN_S: Final = 1
RETRY_AFTER_MAX_S: Final = 24 * 3600


class StatusClass(StrEnum):
    """What the queue does about an answer. Source: SPEC section 3."""

    DELIVERED = "delivered"
    KNOCK = "knock"
    RETRY = "retry"
    GATE = "gate"
    GONE = "gone"
    FINAL = "final"


def permanent_status(status: int) -> bool:
    """Tell whether an inbox answering `status` is answering what will not change.

    That is a 4xx, except 408 and 429, which say that the request came at a bad time. Source: SPEC section 1.
    """
    return 400 <= status < 500 and status not in (408, 429)


def classify_status(
    status: int,
    retry_statuses: frozenset[int] = frozenset(),
    final_statuses: frozenset[int] = FINAL_STATUSES,
    *,
    knocked: bool = False,
) -> StatusClass:
    """Tell what the queue does about an answer of `status`.

    `retry_statuses` are those that an operator wants retried though they are final (the caller limits how often).
    `final_statuses` are the final ones beside every 3xx and what `permanent_status` knows. `knocked` says that both
    schemes have been tried, so that a 400, 401 or 403 is an answer to the activity and no longer to the signature.

    A status below 200 or above 599 is no answer that HTTP knows, and is retried as a server's error (RFC 9110
    section 15). Source: SPEC section 3.
    """
    if 200 <= status < 300:
        return StatusClass.DELIVERED
    if status in KNOCK_STATUSES and not knocked:
        return StatusClass.KNOCK
    if status not in retry_statuses:
        if status == 410:
            return StatusClass.GONE
        if 300 <= status < 400 or permanent_status(status) or status in final_statuses:
            return StatusClass.FINAL
    return StatusClass.GATE if status in GATE_STATUSES else StatusClass.RETRY


_SECONDS = re.compile(r"[0-9]{1,9}")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = "(?P<month>" + "|".join(_MONTHS) + ")"
_TIME = r"(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9]):(?P<second>[0-5][0-9]|60)"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_LONG_DAY = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_DATES = (
    re.compile(rf"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT"),
    re.compile(rf"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT"),
    re.compile(rf"{_DAY} {_MONTH} (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)
_LONGEST_VALUE = 64


def retry_after_s(value: str | None, now_s: float) -> float | None:
    """Return how many seconds `Retry-After: value` asks to wait, or None if it says nothing that counts.

    `now_s` is the Unix time that a date is measured against. Delay-seconds and all three forms of an HTTP date are
    read; what is malformed, or under a second or over 24 hours away, is ignored rather than clamped, since a server
    that asks for ten years has not said anything about its load. Source: SPEC section 3, RFC 9110 sections 10.2.3
    and 5.6.7.
    """
    if value is None or len(value) > _LONGEST_VALUE:
        return None
    value = value.strip(" \t")
    # `int` alone would take "+3", "1_000" and digits of other scripts.
    if _SECONDS.fullmatch(value):
        wait_s = float(value)
    else:
        date_s = _http_date_s(value, now_s)
        if date_s is None:
            return None
        wait_s = date_s - now_s
    return wait_s if RETRY_AFTER_MIN_S <= wait_s <= RETRY_AFTER_MAX_S else None


def _http_date_s(text: str, now_s: float) -> int | None:
    """Return the Unix time of an HTTP date, or None. Month names are English whatever the process's locale is."""
    for form in _DATES:
        if (match := form.fullmatch(text)) is not None:
            break
    else:
        return None
    year, month, day = int(match["year"]), _MONTHS.index(match["month"]) + 1, int(match["day"])
    if len(match["year"]) == 2:
        # RFC 9110 section 5.6.7: a year that seems more than 50 years ahead is the past one with the same digits.
        this_year = time.gmtime(now_s).tm_year
        year += this_year - this_year % 100
        if year > this_year + 50:
            year -= 100
        elif year <= this_year - 50:
            year += 100
    if year < 1970 or not 1 <= day <= calendar.monthrange(year, month)[1]:
        return None
    return calendar.timegm((year, month, day, int(match["hour"]), int(match["minute"]), int(match["second"])))
