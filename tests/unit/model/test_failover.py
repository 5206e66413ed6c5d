# SPDX-License-Identifier: Apache-2.0
"""Which gateway is next, and what an attempt at all of them came to (SPEC section 3, "Portable")."""

import pytest

from ojak.model.failover import OPEN, Came, Hold, Step, StepKind, Tried, has_begun, next_step, start_at, still_ruled_out

HOUR = Hold(left_s=3600)
DAY = Hold(left_s=86_400)
AWAY = Hold(left_s=7 * 86_400, unavailable=True)


def tried(*came: Came, free: bool = False, hold_s: float = 0.0) -> tuple[Tried, ...]:
    return tuple(Tried(place=place, came=one, free=free, hold_s=hold_s) for place, one in enumerate(came))


def go(place: int) -> Step:
    return Step(kind=StepKind.GO, place=place)


def wait(place: int, wait_s: float = 0.0) -> Step:
    return Step(kind=StepKind.WAIT, place=place, wait_s=wait_s)


def test_gateways_are_asked_in_order_and_each_once():
    assert next_step((), [OPEN, OPEN]) == go(0)
    assert next_step(tried(Came.FAILED), [OPEN, OPEN]) == go(1)
    assert next_step(tried(Came.REFUSED), [OPEN, OPEN]) == go(1)
    assert next_step((Tried(place=1, came=Came.GONE),), [OPEN, OPEN, OPEN]) == go(0)


def test_a_held_gateway_is_passed_over_and_leaves_the_delivery_retried():
    assert next_step((), [HOUR, OPEN]) == go(1)
    assert next_step(tried(Came.GONE), [OPEN, HOUR]) == Step(kind=StepKind.RETRY)
    assert next_step((Tried(place=1, came=Came.REFUSED),), [HOUR, OPEN]) == Step(kind=StepKind.RETRY)


@pytest.mark.parametrize(
    ("came", "kind"),
    [
        ((Came.GONE, Came.GONE), StepKind.GONE),
        ((Came.GONE, Came.REFUSED), StepKind.REFUSED),
        ((Came.REFUSED, Came.REFUSED), StepKind.REFUSED),
        ((Came.NO_ADDRESS, Came.NO_ADDRESS), StepKind.NO_ADDRESS),
        ((Came.NO_ADDRESS, Came.GONE), StepKind.REFUSED),
        ((Came.BLOCKED, Came.BLOCKED), StepKind.BLOCKED),
        ((Came.BLOCKED, Came.GONE), StepKind.GONE),
        ((Came.NO_ADDRESS, Came.BLOCKED), StepKind.NO_ADDRESS),
        ((Came.FAILED, Came.GONE), StepKind.RETRY),
        ((Came.GONE, Came.FAILED), StepKind.RETRY),
        ((Came.HELD, Came.FAILED), StepKind.RETRY),
    ],
)
def test_when_all_were_asked(came: tuple[Came, Came], kind: StepKind):
    assert next_step(tried(*came), [OPEN, OPEN]) == Step(kind=kind)


def test_with_all_held_it_waits_for_the_first_to_open_without_an_attempt():
    assert next_step((), [DAY, HOUR, DAY]) == wait(1)
    assert not has_begun(())
    assert next_step((), [DAY, AWAY, HOUR]) == wait(2)


def test_a_probe_that_failed_spends_nothing_and_it_waits_on():
    probe = tried(Came.FAILED, free=True)
    assert not has_begun(probe)
    assert next_step(probe, [DAY, HOUR]) == wait(1)
    assert next_step(probe, [HOUR, DAY]) == wait(0)
    assert next_step(probe, [HOUR, OPEN]) == go(1)


def test_what_may_not_be_dialled_is_not_waited_for_nor_asked_again():
    ruled_out = tried(Came.NO_ADDRESS)
    assert next_step(ruled_out, [OPEN, HOUR]) == wait(1)
    assert still_ruled_out((*ruled_out, Tried(place=1, came=Came.FAILED, free=True))) == ruled_out


def test_unavailable_is_what_has_no_gateway_left_but_unavailable_ones():
    assert next_step((), [AWAY, AWAY]) == Step(kind=StepKind.UNAVAILABLE)
    assert next_step(tried(Came.NO_ADDRESS), [OPEN, AWAY]) == Step(kind=StepKind.UNAVAILABLE, place=1)
    assert next_step(tried(Came.GONE), [OPEN, AWAY]) == Step(kind=StepKind.RETRY)
    assert next_step((), [AWAY, DAY]) == wait(1)


def test_an_inbox_that_is_held_at_its_gateway_is_passed_over_too():
    assert next_step(tried(Came.HELD, hold_s=60), [OPEN, OPEN]) == go(1)
    assert next_step(tried(Came.HELD, Came.HELD, hold_s=60), [OPEN, OPEN]) == wait(0, 60)


def test_an_attempt_begins_at_the_first_gateway_that_will_be_open():
    assert start_at([OPEN, OPEN]) == 0
    assert start_at([HOUR, OPEN]) == 1
    assert start_at([HOUR, OPEN], after_s=4000) == 0
    assert start_at([DAY, HOUR]) == 1
    assert start_at([AWAY, AWAY]) == 0
