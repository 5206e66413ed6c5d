# SPDX-License-Identifier: Apache-2.0
"""What a ledger proves: pure functions over its arrivals (SPEC section 9)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ojak.farm.arrival import Arrival, Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One activity for one inbox."""

    activity: str
    inbox: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverLimit:
    """A moment with more open requests to a host than allowed.

    Attributes:
        host: its name.
        at_s: when it began, on the monotonic clock.
        open_requests: how many were open then.
        limit: how many were allowed.
        seq: the arrival that was one too many.
    """

    host: str
    at_s: float
    open_requests: int
    limit: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The four numbers that a run is judged by.

    Attributes:
        lost: deliveries that nobody accepted and the queue neither settled nor still holds.
        double: acceptances again without an attempt recorded as maybe delivered.
        unverified: requests whose signature or digest could not be verified though their host takes the scheme.
        over_limit: moments with more open requests to a host than allowed.
    """

    lost: int
    double: int
    unverified: int
    over_limit: int

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong."""
        return not (self.lost or self.double or self.unverified or self.over_limit)

    def __str__(self) -> str:
        return f"lost {self.lost} · double {self.double} · unverified {self.unverified} · over limit {self.over_limit}"


def accepted_counts(arrivals: Iterable[Arrival]) -> Counter[Delivery]:
    """How often each activity was accepted at each inbox."""
    counts = Counter((arrival.activity, arrival.inbox) for arrival in arrivals if arrival.accepted)
    return Counter({Delivery(activity=activity, inbox=inbox): count for (activity, inbox), count in counts.items()})


def arrival_counts(arrivals: Iterable[Arrival]) -> Counter[Delivery]:
    """How often each activity arrived at each inbox, accepted or not."""
    counts = Counter((arrival.activity, arrival.inbox) for arrival in arrivals)
    return Counter({Delivery(activity=activity, inbox=inbox): count for (activity, inbox), count in counts.items()})


def lost(
    expected: Iterable[Delivery], arrivals: Iterable[Arrival], accounted: AbstractSet[Delivery] = frozenset()
) -> tuple[Delivery, ...]:
    """What was handed over and never accepted, less what is `accounted` for: settled by the queue, or held by it."""
    accepted = accepted_counts(arrivals)
    return tuple(delivery for delivery in expected if not accepted[delivery] and delivery not in accounted)


def doubles(arrivals: Iterable[Arrival], maybe_delivered: Mapping[Delivery, int] | None = None) -> Counter[Delivery]:
    """How often each delivery was accepted again, beyond the attempts that the sender recorded as maybe delivered."""
    allowed = maybe_delivered or {}
    again: Counter[Delivery] = Counter()
    for delivery, count in accepted_counts(arrivals).items():
        extra = count - 1 - allowed.get(delivery, 0)
        if extra > 0:
            again[delivery] = extra
    return again


def unverified(arrivals: Iterable[Arrival]) -> tuple[Arrival, ...]:
    """The requests that could not be verified though their host takes the scheme."""
    return tuple(arrival for arrival in arrivals if arrival.unverified)


def order_by_host(arrivals: Iterable[Arrival]) -> dict[str, tuple[Arrival, ...]]:
    """What arrived at each host, in order of arrival."""
    hosts: defaultdict[str, list[Arrival]] = defaultdict(list)
    for arrival in sorted(arrivals, key=lambda arrival: arrival.seq):
        hosts[arrival.host].append(arrival)
    return {host: tuple(at_host) for host, at_host in hosts.items()}


def peaks(arrivals: Iterable[Arrival]) -> dict[str, int]:
    """The most requests that were open at each host at one moment."""
    most: dict[str, int] = {}
    for arrival in arrivals:
        most[arrival.host] = max(most.get(arrival.host, 0), arrival.open_requests)
    return most


def over_limit(
    arrivals: Iterable[Arrival], limit: int | Mapping[str, int], *, default: int = 2, grace_s: float = 0.0
) -> tuple[OverLimit, ...]:
    """The moments at which a host had more open requests than allowed.

    Args:
        arrivals: of any hosts.
        limit: for every host, or by host name.
        default: for hosts that `limit` does not name.
        grace_s: a request that its sender left no later than this after the moment is not counted in it: the sender
            had let go of it, and the farm had yet to hear so.

    Returns:
        One for each arrival that was one too many.
    """
    found: list[OverLimit] = []
    for host, at_host in order_by_host(arrivals).items():
        allowed = limit if isinstance(limit, int) else limit.get(host, default)
        open_now: list[Arrival] = []
        for arrival in at_host:
            open_now = [other for other in open_now if _open_at(other, arrival.arrived_s, grace_s)]
            open_now.append(arrival)
            if len(open_now) > allowed:
                found.append(
                    OverLimit(
                        host=host,
                        at_s=arrival.arrived_s,
                        open_requests=len(open_now),
                        limit=allowed,
                        seq=arrival.seq,
                    )
                )
    return tuple(found)


def _open_at(arrival: Arrival, at_s: float, grace_s: float) -> bool:
    if arrival.ended_s is None:
        return True
    grace = grace_s if arrival.ending is Ending.LEFT else 0.0
    return arrival.ended_s > at_s + grace


def judge(
    arrivals: Iterable[Arrival],
    *,
    expected: Iterable[Delivery] = (),
    accounted: AbstractSet[Delivery] = frozenset(),
    maybe_delivered: Mapping[Delivery, int] | None = None,
    limit: int | Mapping[str, int] = 2,
    grace_s: float = 0.0,
) -> Verdict:
    """All four numbers over one ledger; the arguments are those of `lost`, `doubles` and `over_limit`."""
    kept = tuple(arrivals)
    return Verdict(
        lost=len(lost(expected, kept, accounted)),
        double=doubles(kept, maybe_delivered).total(),
        unverified=len(unverified(kept)),
        over_limit=len(over_limit(kept, limit, grace_s=grace_s)),
    )
