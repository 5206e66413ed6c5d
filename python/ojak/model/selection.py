# SPDX-License-Identifier: Apache-2.0
"""`Selection`: which deliveries to cancel or replay, and what came of it."""

from dataclasses import dataclass, fields
from typing import Final, Self

from ojak.errors import InputError
from ojak.model.activity import check_text
from ojak.model.host import canonical_host
from ojak.model.outcome import FailureReason, SettledOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which deliveries: exactly one of these is given.

    Attributes:
        activity: of the activity with this id.
        object: of activities whose object has this id.
        sender: of this sender.
        host: to this host: a name, with its port if it has one.
        batch: of the batch with this tag.

    Raises:
        InputError: none or several are given, or one is not usable.
    """

    activity: str | None = None
    object: str | None = None
    sender: str | None = None
    host: str | None = None
    batch: str | None = None

    def __post_init__(self) -> None:
        given = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        if len(given) != 1:
            raise InputError(
                f"{' and '.join(given) or 'nothing'} {'are' if given else 'is'} given;"
                " allowed is exactly one of activity, object, sender, host, batch"
            )
        check_text(given[0], getattr(self, given[0]))

    def canonical(self) -> Self:
        """The same with the host as hosts are kept.

        Raises:
            InputError: the host is no name of one.
        """
        if self.host is None:
            return self
        return type(self)(host=canonical_host(self.host))


ENDS: Final[tuple[str, ...]] = (*SettledOutcome, *FailureReason)
"""How a delivery may have ended."""

REPLAYED: Final = frozenset(
    {*SettledOutcome, *FailureReason} - {SettledOutcome.DELIVERED, SettledOutcome.SUPERSEDED, SettledOutcome.CANCELLED}
)
"""What a replay queues again unless told otherwise: what somebody wanted delivered, and was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """What a cancel came to.

    Attributes:
        count: how many deliveries it ended; none of them is sent.
        on_wire: how many requests were on the wire already; they end as what they come to, and are not tried again.
    """

    count: int
    on_wire: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay came to.

    Attributes:
        count: how many ended deliveries it queued again.
        without_body: how many it left, since their activity is not kept any more, or its id has other bytes now.
    """

    count: int
    without_body: int
