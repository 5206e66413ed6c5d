# SPDX-License-Identifier: Apache-2.0
"""Kinds of job, and the lanes that the jobs of each kind but deliveries wait in (SPEC section 2). Pure."""

import re
from typing import Final

from ojak.errors import InputError, shown

DELIVERY: Final = "delivery"
"""The kind of job that Ojak has the handler of."""

LANES: Final = 16
"""Lanes a kind. Stored with every job: it must never change."""

_MARK: Final = "#"
"""Parts kind and number in the name of a lane. No host has it in its name, so that a kind's lane is never taken for
one."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}", re.ASCII)


def check_kind(kind: object) -> str:
    """Give a kind of an application's own back.

    Raises:
        InputError: it is no name for one; says what is allowed.
    """
    if not isinstance(kind, str) or not _NAME.fullmatch(kind):
        raise InputError(
            f"kind is {shown(kind)}; allowed are 1 to 40 of a-z 0-9 _ - with a letter first, such as 'archive'"
        )
    if kind == DELIVERY:
        raise InputError(f"kind is {kind!r}; allowed is any other: deliveries are queued with send")
    return kind


def lane_of(kind: str, ident: bytes) -> str:
    """The lane of the job `ident`, or of what jobs of an order share."""
    return f"{kind}{_MARK}{ident[0] % LANES:02d}"


def lanes_of(kind: str) -> tuple[str, ...]:
    """All lanes of a kind."""
    return tuple(f"{kind}{_MARK}{number:02d}" for number in range(LANES))


def is_kind_lane(lane: str) -> bool:
    """Whether a lane is one of a kind, not that of a host."""
    return _MARK in lane


def kind_of(lane: str) -> str:
    """The kind whose lane it is."""
    return lane.partition(_MARK)[0]
