# SPDX-License-Identifier: Apache-2.0
"""An attempt at the gateways of a portable inbox, under any answers and any holds that come and go meanwhile."""

from hypothesis import given
from hypothesis import strategies as st

from ojak.model.failover import Came, Hold, StepKind, Tried, has_begun, next_step, start_at

HOLDS = st.builds(Hold, left_s=st.sampled_from([0.0, 0.0, 5.0, 3600.0, 7 * 86_400.0])) | st.just(
    Hold(left_s=7 * 86_400.0, unavailable=True)
)


@st.composite
def attempts(draw: st.DrawFn) -> tuple[list[Tried], list[Hold]]:
    holds = draw(st.lists(HOLDS, min_size=1, max_size=5))
    places = draw(st.lists(st.sampled_from(range(len(holds))), unique=True))
    tried = [Tried(place=place, came=draw(st.sampled_from(Came)), free=draw(st.booleans())) for place in places]
    return tried, holds


@given(attempts(), st.sampled_from([0.0, 10.0]))
def test_a_step_asks_only_what_is_open_and_was_not_asked(
    attempt: tuple[list[Tried], list[Hold]], after_s: float
) -> None:
    tried, holds = attempt
    asked = {one.place for one in tried}
    step = next_step(tried, holds, after_s=after_s)
    may_ask = [place for place, hold in enumerate(holds) if place not in asked and hold.left_s <= after_s]
    if step.kind is StepKind.GO:
        assert step.place == may_ask[0]
        return
    assert not may_ask
    final = {Came.GONE, Came.REFUSED, Came.NO_ADDRESS, Came.BLOCKED}
    if step.kind in (StepKind.GONE, StepKind.REFUSED, StepKind.NO_ADDRESS, StepKind.BLOCKED):
        assert asked == set(range(len(holds)))
        assert {one.came for one in tried} <= final
    elif step.kind is StepKind.RETRY:
        assert has_begun(tried)
    else:
        assert not has_begun(tried)
        assert step.place not in {one.place for one in tried if one.came in final}
        others = [holds[place] for place in range(len(holds)) if place not in asked]
        if step.kind is StepKind.WAIT:
            assert all(holds[step.place].left_s <= other.left_s or other.unavailable for other in others)
        else:
            assert all(other.unavailable for other in others)


@given(st.lists(HOLDS, min_size=1, max_size=5), st.data())
def test_every_attempt_ends_after_each_gateway_was_asked_at_most_once(holds: list[Hold], data: st.DataObject) -> None:
    tried: list[Tried] = []
    for _ in range(len(holds)):
        step = next_step(tried, holds)
        if step.kind is not StepKind.GO:
            break
        tried.append(Tried(place=step.place, came=data.draw(st.sampled_from(Came)), free=data.draw(st.booleans())))
        # Holds come and go while the others are asked.
        holds = data.draw(st.lists(HOLDS, min_size=len(holds), max_size=len(holds)))
    else:
        assert next_step(tried, holds).kind is not StepKind.GO
    assert len({one.place for one in tried}) == len(tried)


@given(st.lists(HOLDS, min_size=1, max_size=5))
def test_an_attempt_begins_somewhere(holds: list[Hold]) -> None:
    place = start_at(holds)
    assert holds[place].left_s == min(
        hold.left_s for hold in holds if not hold.unavailable or holds[place].unavailable
    ) or (holds[place].left_s == 0)
