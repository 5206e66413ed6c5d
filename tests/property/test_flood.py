# SPDX-License-Identifier: Apache-2.0
"""Many small sends of one sender are a fan-out, whatever the order and the pauses in which they come."""

from hypothesis import given
from hypothesis import strategies as st

from ojak.clock import ManualClock
from ojak.model.flood import SendFlood

SENDERS = ("https://a.test/u", "https://b.test/u")


@given(
    allowed=st.integers(1, 6),
    sends=st.lists(st.tuples(st.sampled_from(SENDERS), st.floats(0, 40, allow_nan=False)), max_size=60),
)
def test_a_send_is_one_of_many_exactly_if_as_many_as_are_allowed_came_within_the_minute_before_it(allowed, sends):
    clock = ManualClock()
    flood = SendFlood(clock, allowed=allowed)
    came: dict[str, list[float]] = {sender: [] for sender in SENDERS}
    for sender, pause_s in sends:
        clock.turn(pause_s)
        now_s = clock.boot_s()
        within = sum(now_s - at_s < 60 for at_s in came[sender])
        assert flood.is_one_of_many(sender) == (within >= allowed)
        came[sender].append(now_s)


@given(others=st.integers(0, 5000))
def test_the_senders_kept_in_mind_are_bounded_and_one_that_goes_on_is_among_them(others):
    flood = SendFlood(ManualClock(), allowed=1)
    for n in range(others):
        flood.is_one_of_many(f"https://s{n}.test/u")
        if n % 1000 == 0:
            flood.is_one_of_many("https://busy.test/u")
    assert len(flood) <= 4096
    assert flood.is_one_of_many("https://busy.test/u") == (others > 0)
