# SPDX-License-Identifier: Apache-2.0
"""The fan-out: which inboxes an activity goes to."""

from collections.abc import Iterable
from random import Random
from typing import Final

from ojak.farm import FarmHost
from ojak.model.inbox import Inbox

FANOUT: Final = 30
"""Inboxes of each activity."""

_SHARED_PATH: Final = "/inbox"
_PERSONAL_PATHS: Final = ("/users/ada/inbox", "/users/noor/inbox")


def pool_of(hosts: Iterable[FarmHost]) -> tuple[Inbox, ...]:
    """Every inbox there is: a shared one of each host, and some people's."""
    return tuple(
        Inbox(host.inbox(path), shared=path == _SHARED_PATH)
        for host in hosts
        for path in (_SHARED_PATH, *_PERSONAL_PATHS)
    )


def fanout(pool: tuple[Inbox, ...], number: int) -> list[Inbox]:
    """The inboxes of the activity of that number: always the same, and different ones for each."""
    return Random(number).sample(pool, FANOUT)  # noqa: S311 - to spread, not to hide
