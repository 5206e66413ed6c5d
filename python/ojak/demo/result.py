# SPDX-License-Identifier: Apache-2.0
"""The result of a demo: what became of every delivery, by outcome, and the four numbers."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from ojak.farm import Arrival, Verdict
from ojak.model.job import UNFINISHED
from ojak.model.outcome import SettledOutcome
from ojak.store.counts import DeliveryRow

WAITING: Final = "waiting"
_DELIVERED: Final = SettledOutcome.DELIVERED.value
_ORDER: Final = (_DELIVERED, SettledOutcome.REFUSED.value, SettledOutcome.RECIPIENT_GONE.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeLine:
    """Deliveries that came to the same.

    Attributes:
        outcome: how they ended, or `waiting`.
        reason: the last attempt's reason; of what was delivered the signature scheme, and what is odd about the answer.
        deliveries: how many.
        hosts: to how many hosts.
        retried: how many of them took more than one attempt.
        next_try_s: in how many seconds the first and the last of them are tried next; None: they ended.
    """

    outcome: str
    reason: str
    deliveries: int
    hosts: int
    retried: int
    next_try_s: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """What a demo came to.

    Attributes:
        activities, hosts, workers: what took part.
        deliveries: how many were handed over.
        seconds: from the first `send` until the last delivery to a living host was settled.
        lines: by outcome, those that ended first.
        changed: requests whose body was not the bytes that were handed over.
        verdict: the four numbers.
        folder: what was kept, or None.
    """

    activities: int
    hosts: int
    workers: int
    deliveries: int
    seconds: float
    lines: tuple[OutcomeLine, ...]
    changed: int
    verdict: Verdict
    folder: Path | None

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong."""
        return self.verdict.clean and not self.changed


def lines_of(rows: Iterable[DeliveryRow], now: datetime, *, held: Mapping[str, datetime]) -> tuple[OutcomeLine, ...]:
    """The table: one line for each outcome and reason, ends first and the most frequent first among them.

    Args:
        rows: every delivery.
        now: when they were read.
        held: until when nothing goes to some hosts, by authority.
    """
    groups: defaultdict[tuple[str, str], list[DeliveryRow]] = defaultdict(list)
    for row in rows:
        groups[_outcome(row), _reason(row)].append(row)
    lines = [_line(outcome, reason, group, now, held) for (outcome, reason), group in groups.items()]
    return tuple(sorted(lines, key=lambda line: (_rank(line.outcome), -line.deliveries, line.reason)))


def _outcome(row: DeliveryRow) -> str:
    return WAITING if row.state in UNFINISHED else row.state


def _reason(row: DeliveryRow) -> str:
    if row.state == _DELIVERED:
        return " ".join(filter(None, (row.scheme, row.reason)))
    return row.reason or "not tried yet"


def _rank(outcome: str) -> tuple[int, str]:
    if outcome == WAITING:
        return len(_ORDER) + 1, outcome
    return (_ORDER.index(outcome), outcome) if outcome in _ORDER else (len(_ORDER), outcome)


def _line(
    outcome: str, reason: str, group: list[DeliveryRow], now: datetime, held: Mapping[str, datetime]
) -> OutcomeLine:
    # What is held goes when its host is tried again, however long its own time has come.
    nexts = [max(row.run_at, held.get(row.lane, row.run_at)) for row in group if row.run_at is not None]
    waits_s = [max(0.0, (at - now).total_seconds()) for at in nexts]
    return OutcomeLine(
        outcome=outcome,
        reason=reason,
        deliveries=len(group),
        hosts=len({row.lane for row in group}),
        retried=sum(1 for row in group if row.tries > 1),
        next_try_s=(min(waits_s), max(waits_s)) if outcome == WAITING and waits_s else None,
    )


def count_changed(arrivals: Iterable[Arrival], digests: dict[str, str]) -> int:
    """How many requests did not carry, byte for byte, the activity whose id they name.

    Args:
        arrivals: what arrived.
        digests: SHA-256 of each activity's bytes in hexadecimal, by its id.
    """
    return sum(1 for arrival in arrivals if digests.get(arrival.activity) != arrival.body_sha256)
