# SPDX-License-Identifier: Apache-2.0
"""Checks what a caller gave beside activities: how many, for how long, which words. Each says its field's name."""

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Final

from ojak.errors import InputError, shown

LIMIT_MAX: Final = 1_000_000_000
LONGEST_S: Final = 10 * 365 * 86_400.0


def check_limit(field: str, value: object, *, least: int = 1) -> None:
    """Refuse what is no number of things to list.

    Raises:
        InputError: names the field, the value and what is allowed.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LIMIT_MAX:
        raise InputError(f"{field} is {shown(value)}; allowed is a whole number from {least} to {LIMIT_MAX}")


def check_duration(value: object) -> float | None:
    """For how many seconds a pause lasts; None: until it is ended.

    Raises:
        InputError: that is no time of up to ten years.
    """
    if value is None:
        return None
    if not isinstance(value, timedelta) or not 0 < value.total_seconds() <= LONGEST_S:
        given = str(value) if isinstance(value, timedelta) else shown(value)
        raise InputError(
            f"duration is {given}; allowed is more than nothing and at most ten years, a timedelta, or None"
        )
    return value.total_seconds()


def check_words(field: str, values: object, allowed: Collection[str]) -> set[str]:
    """Some words out of those that are allowed.

    Args:
        field: the name of one; that of the list has an s behind it.
        values: what was given.
        allowed: the words, in the order in which they are named.

    Raises:
        InputError: it is no list of them, also if it is a single word, of which each character would be one.
    """
    if isinstance(values, str | bytes | bytearray) or not isinstance(values, Iterable):
        raise InputError(f"{field}s is {shown(values)}; allowed is a list of them, also for one")
    words: set[str] = set()
    for value in values:
        if not isinstance(value, str) or value not in allowed:
            raise InputError(f"{field} is {shown(value)}; allowed are {', '.join(allowed)}")
        words.add(str(value))
    return words
