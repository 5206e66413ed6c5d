# SPDX-License-Identifier: Apache-2.0
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ojak.farm import (
    Arrival,
    Delivery,
    Ending,
    Verdict,
    accepted_counts,
    arrival_counts,
    doubles,
    judge,
    lost,
    order_by_host,
    over_limit,
    peaks,
    unverified,
)


def arrival(
    seq: int,
    *,
    host: str = "h1",
    activity: str = "a1",
    status: int | None = 202,
    verdict: str = "verified",
    arrived_s: float | None = None,
    ended_s: float | None = -1.0,
    ending: Ending = Ending.ANSWERED,
    open_requests: int = 1,
) -> Arrival:
    began_s = float(seq) if arrived_s is None else arrived_s
    return Arrival(
        seq=seq,
        host=host,
        inbox=f"http://{host}/inbox",
        activity=activity,
        body_sha256="",
        scheme="cavage",
        key_id="k",
        verdict=verdict,
        takes=True,
        status=status,
        ending=ending,
        arrived_s=began_s,
        arrived_at_s=0,
        ended_s=began_s + 0.5 if ended_s == -1.0 else ended_s,
        connection=1,
        open_requests=open_requests,
    )


def delivery(host: str = "h1", activity: str = "a1") -> Delivery:
    return Delivery(activity=activity, inbox=f"http://{host}/inbox")


def test_counts_by_activity_and_inbox() -> None:
    arrivals = [arrival(1), arrival(2, status=503), arrival(3), arrival(4, host="h2"), arrival(5, status=None)]
    assert accepted_counts(arrivals) == {delivery(): 2, delivery("h2"): 1}
    assert arrival_counts(arrivals) == {delivery(): 4, delivery("h2"): 1}


def test_lost_is_what_was_not_accepted_and_is_not_accounted_for() -> None:
    expected = [delivery(), delivery("h2"), delivery("h3")]
    arrivals = [arrival(1), arrival(2, host="h2", status=503)]
    assert lost(expected, arrivals) == (delivery("h2"), delivery("h3"))
    assert lost(expected, arrivals, accounted={delivery("h3")}) == (delivery("h2"),)


def test_double_is_what_was_accepted_again_without_cause() -> None:
    arrivals = [arrival(1), arrival(2), arrival(3), arrival(4, activity="a2"), arrival(5, status=503)]
    assert doubles(arrivals) == {delivery(): 2}
    assert doubles(arrivals, {delivery(): 1}) == {delivery(): 1}
    assert not doubles(arrivals, {delivery(): 5})


def test_order_and_peaks_by_host() -> None:
    arrivals = [arrival(3, open_requests=2), arrival(1), arrival(2, host="h2")]
    assert {host: [one.seq for one in many] for host, many in order_by_host(arrivals).items()} == {
        "h1": [1, 3],
        "h2": [2],
    }
    assert peaks(arrivals) == {"h1": 2, "h2": 1}


def test_a_third_request_while_two_are_open_is_over_the_limit() -> None:
    arrivals = [
        arrival(1, arrived_s=0, ended_s=10),
        arrival(2, arrived_s=1, ended_s=3),
        arrival(3, arrived_s=2, ended_s=4),
        arrival(4, arrived_s=5, ended_s=6),
        arrival(5, host="h2", arrived_s=2, ended_s=4),
    ]
    (found,) = over_limit(arrivals, 2)
    assert (found.host, found.at_s, found.open_requests, found.limit, found.seq) == ("h1", 2, 3, 2, 3)
    assert not over_limit(arrivals, {"h1": 3})
    assert [one.seq for one in over_limit(arrivals, {"h1": 1})] == [2, 3, 4]


def test_an_end_at_the_same_moment_frees_the_place_and_an_open_request_never_does() -> None:
    assert not over_limit([arrival(1, arrived_s=0, ended_s=1), arrival(2, arrived_s=1)], 1)
    assert over_limit([arrival(1, arrived_s=0, ended_s=None), arrival(2, arrived_s=99)], 1)


def test_grace_is_for_requests_that_their_sender_left() -> None:
    left = arrival(1, arrived_s=0, ended_s=5.01, ending=Ending.LEFT)
    slow = arrival(1, arrived_s=0, ended_s=5.01)
    late = arrival(2, arrived_s=5)
    assert not over_limit([left, late], 1, grace_s=0.05)
    assert over_limit([left, late], 1)
    assert over_limit([slow, late], 1, grace_s=0.05)


def test_unverified_and_the_verdict_in_one_line() -> None:
    arrivals = [arrival(1), arrival(2), arrival(3, verdict="stale", status=401, activity="a2")]
    assert [one.seq for one in unverified(arrivals)] == [3]
    verdict = judge(arrivals, expected=[delivery(), delivery(activity="a2")])
    assert verdict == Verdict(lost=1, double=1, unverified=1, over_limit=0)
    assert str(verdict) == "lost 1 · double 1 · unverified 1 · over limit 0"
    assert not verdict.clean
    assert judge(arrivals[:1], expected=[delivery()]).clean


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 10)), max_size=30), st.integers(1, 4))
def test_over_limit_agrees_with_counting_at_each_arrival(spans: list[tuple[int, int]], limit: int) -> None:
    spans = sorted(spans)
    arrivals = [
        arrival(seq, arrived_s=float(start), ended_s=float(start + length))
        for seq, (start, length) in enumerate(spans, start=1)
    ]
    expected = [
        one.seq
        for one in arrivals
        if sum(
            other.arrived_s <= one.arrived_s and (other.ended_s or 0) > one.arrived_s
            for other in arrivals
            if other.seq <= one.seq
        )
        > limit
    ]
    assert [found.seq for found in over_limit(arrivals, limit)] == expected
    assert all(a.at_s <= b.at_s for a, b in pairwise(over_limit(arrivals, limit)))
