# SPDX-License-Identifier: Apache-2.0
"""The account: what was handed over, what the queue says became of it, and what the farm's ledger holds (SPEC 9)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ojak.farm import Arrival, Delivery, Verdict, judge
from ojak.model.outcome import SettledOutcome
from ojak.store.counts import DeliveryRow

_DELIVERED = SettledOutcome.DELIVERED.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a run came to.

    Attributes:
        verdict: the four numbers.
        allowed: how many doubles the deaths of workers allow: what they had begun and not yet stored.
    """

    verdict: Verdict
    allowed: int

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong."""
        verdict = self.verdict
        return not (verdict.lost or verdict.unverified or verdict.over_limit) and verdict.double <= self.allowed


def make_account(
    arrivals: Iterable[Arrival],
    rows: Iterable[DeliveryRow],
    expected: Sequence[Delivery],
    *,
    obituaries: Sequence[int] = (),
    limit: int = 2,
) -> Account:
    """Join the ledger with the queue.

    Args:
        arrivals: the farm's ledger.
        rows: the queue, ended deliveries included.
        expected: what was handed over.
        obituaries: what each dead worker had begun and not yet stored.
        limit: open requests allowed to a host.
    """
    accounted: set[Delivery] = set()
    maybe: dict[Delivery, int] = {}
    for row in rows:
        delivery = Delivery(activity=row.activity_id, inbox=row.inbox)
        # What the queue calls delivered must be in the ledger; it accounts only for what ended otherwise or waits.
        if row.state != _DELIVERED:
            accounted.add(delivery)
        if row.maybe_delivered:
            maybe[delivery] = row.maybe_delivered
    verdict = judge(arrivals, expected=expected, accounted=accounted, maybe_delivered=maybe, limit=limit)
    return Account(verdict=verdict, allowed=sum(obituaries))
