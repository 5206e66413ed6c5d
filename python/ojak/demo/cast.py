# SPDX-License-Identifier: Apache-2.0
"""The cast: which hosts the demo sends to, and what each of them is like."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ojak.farm import FarmPlan, plan_of_words

FULL_CAST: Final = 200
"""How many hosts the counts below are of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """A sort of host.

    Attributes:
        word: its behaviour, as the farm has it; it is the label of its hosts too.
        count: how many of two hundred hosts are of it.
        answers: whether every delivery to it comes to an end while the demo runs.
    """

    word: str
    count: int
    answers: bool


_LIVING: Final = (
    ("accept+tls", 20),
    ("accept:150", 24),
    ("slow:1200", 8),
    ("cavage-only", 12),
    ("rfc9421-only", 12),
    ("rfc9421-only+tls", 4),
    ("rate-limited:1,2", 4),
    ("recovering:1", 4),
    # Its machine restarts: it comes up before the second try, which the curve puts 16 s after the first at the least,
    # and before the end of its quarantine.
    ("refuse:12", 2),
    ("close-each", 3),
    ("interim", 2),
    ("html", 2),
    ("status:404", 4),
    ("status:403", 2),
    ("no-scheme", 2),
    ("redirect", 2),
)
_DEAD: Final = (
    # Of a shared inbox the first 410 only holds it for an hour, so what goes there waits.
    ("gone", 4),
    ("refuse", 4),
    ("status:503", 3),
    ("reset", 2),
    ("black-hole", 2),
    ("silent", 1),
    ("expired", 1),
    ("untrusted", 1),
)
SORTS: Final = (
    *(Sort(word=word, count=count, answers=True) for word, count in _LIVING),
    *(Sort(word=word, count=count, answers=False) for word, count in _DEAD),
)
"""Every sort but the plain one, which the rest of the hosts are of."""


def plan_of_cast(hosts: int) -> FarmPlan:
    """A farm of so many hosts, the sorts in proportion; of a small farm the rare ones are missing."""
    return plan_of_words(hosts, _scaled(hosts))


def _scaled(hosts: int) -> Iterable[tuple[str, int]]:
    return [(sort.word, sort.count * hosts // FULL_CAST) for sort in SORTS]


def dead_labels() -> frozenset[str]:
    """The labels of hosts whose deliveries nobody waits for."""
    return frozenset(sort.word for sort in SORTS if not sort.answers)
