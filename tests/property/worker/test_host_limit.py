# SPDX-License-Identifier: Apache-2.0
"""A host's limit after any answers: never none, never more than allowed, one after trouble, wide again after quiet."""

from hypothesis import given
from hypothesis import strategies as st

from ojak.worker.host_limit import HostLimit, LimitRules

RULES = LimitRules(slow_ms=5000, quick_answers=20)

answers = st.lists(st.tuples(st.floats(0, 20_000), st.booleans()), max_size=200)
allowances = st.integers(1, 64)


def after(limit: HostLimit, *came: tuple[float, bool]) -> HostLimit:
    for took_ms, told in came:
        limit = limit.after(took_ms=took_ms, told_to_wait=told, rules=RULES)
    return limit


@given(allowances, answers)
def test_it_is_never_none_and_never_more_than_allowed(allowed, came):
    limit = HostLimit.of(allowed)
    assert limit.now == allowed
    for one in came:
        limit = after(limit, one)
        assert 1 <= limit.now <= allowed
        assert 0 <= limit.quick < RULES.quick_answers
        assert (limit.narrowed_to is None) is (limit.now == allowed)


@given(allowances, answers, st.sampled_from([(5001.0, False), (1.0, True), (9000.0, True)]))
def test_trouble_narrows_it_to_one_whatever_came_before(allowed, came, trouble):
    assert after(HostLimit.of(allowed), *came, trouble).now == 1


@given(answers)
def test_two_are_one_until_twenty_quick_answers_in_a_row(came):
    """The default: as SPEC section 4 has it, against a count of its own."""
    limit, quick = HostLimit.of(2), 20
    for took_ms, told in came:
        limit = after(limit, (took_ms, told))
        quick = 0 if told or took_ms > 5000 else quick + 1
        assert limit.now == (2 if quick >= 20 else 1)


@given(allowances, answers)
def test_quiet_makes_it_as_wide_as_allowed_again_by_doubling(allowed, came):
    limit = after(HostLimit.of(allowed), *came, (9000.0, False))
    for _ in range((allowed - 1).bit_length()):
        before = limit.now
        limit = after(limit, *[(1.0, False)] * RULES.quick_answers)
        assert limit.now == min(allowed, before * 2)
    assert limit == HostLimit.of(allowed)


@given(allowances, allowances, answers)
def test_another_allowance_keeps_it_narrow_and_counts(allowed, other, came):
    limit = after(HostLimit.of(allowed), *came)
    changed = limit.with_allowed(other)
    assert 1 <= changed.now <= other
    if limit.narrowed_to is None:
        assert changed == HostLimit.of(other)
    else:
        assert changed.now <= limit.now
    assert HostLimit.of(allowed, limit.narrowed_to).now == limit.now, "as a record keeps it"
