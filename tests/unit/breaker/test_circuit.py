# SPDX-License-Identifier: Apache-2.0
import pytest

from ojak.breaker.admission import Verdict
from ojak.breaker.circuit import Circuit, CircuitState, Signal
from ojak.breaker.rules import CircuitBreaker
from ojak.breaker.signals import signal_of
from ojak.errors import ConfigError

RULES = CircuitBreaker()
HOUR = 3600.0
DAY = 24 * HOUR
STAMP = b"a" * 16


def after(circuit: Circuit, *signals: Signal, now_s: float = 0.0, probe: bytes | None = None) -> Circuit:
    for signal in signals:
        circuit = circuit.after(signal, rules=RULES, now_s=now_s, probe=probe)
    return circuit


def probed(circuit: Circuit, signal: Signal, *, now_s: float) -> Circuit:
    taken = circuit.taken(STAMP, now_s=now_s, hold_s=120)
    assert taken is not None
    return after(taken, signal, now_s=now_s, probe=STAMP)


OPEN = after(Circuit(), *[Signal.FAILURE] * 10)
RECOVERING = probed(OPEN, Signal.SUCCESS, now_s=HOUR)


def test_ten_consecutive_failures_open_it_for_an_hour():
    nine = after(Circuit(), *[Signal.FAILURE] * 9)
    assert nine.state is CircuitState.CLOSED
    assert nine.admission(RULES, now_s=0).verdict is Verdict.SEND
    ten = after(nine, Signal.FAILURE, now_s=7)
    assert ten.state is CircuitState.OPEN
    assert ten.admission(RULES, now_s=7).hold_s == HOUR
    assert ten.admission(RULES, now_s=7 + HOUR).hold_s == 0


def test_any_final_answer_ends_the_streak_and_what_says_nothing_does_not():
    nine = after(Circuit(), *[Signal.FAILURE] * 9)
    assert after(nine, Signal.SUCCESS).clean
    assert after(nine, Signal.NOTHING) == nine


@pytest.mark.parametrize(
    ("signal", "statuses"),
    [
        (Signal.SUCCESS, [200, 202, 204, 299, 301, 308, 400, 401, 403, 404, 410, 418, 422, 451, 501, 505, 508, 510]),
        (Signal.NOTHING, [408, 429]),
        (Signal.FAILURE, [500, 502, 503, 504, 507, 511, 520, 530, 599, 600, 999, 199, 0]),
    ],
)
def test_what_an_answer_says_of_its_host(signal: Signal, statuses: list[int]):
    assert {signal_of(status) for status in statuses} == {signal}


def test_final_statuses_of_the_operator_count_as_answers():
    assert signal_of(500, frozenset({500})) is Signal.SUCCESS
    assert signal_of(501, frozenset({500})) is Signal.FAILURE


def test_what_was_on_the_wire_when_it_opened_opens_nothing_longer():
    assert after(OPEN, Signal.FAILURE, now_s=5) == OPEN


def test_what_was_on_the_wire_when_it_opened_and_gets_through_closes_it():
    circuit = after(OPEN, Signal.SUCCESS, now_s=5)
    assert circuit.state is CircuitState.RECOVERING
    assert circuit.admission(RULES, now_s=5).one_at_a_time


def test_each_failed_probe_doubles_the_quarantine_up_to_a_week():
    circuit, now_s, lengths = OPEN, 0.0, []
    for _ in range(12):
        lengths.append((circuit.ends_s - now_s) / HOUR)
        now_s = circuit.ends_s
        circuit = probed(circuit, Signal.FAILURE, now_s=now_s)
    assert lengths == [1, 2, 4, 8, 16, 32, 64, 128, 168, 168, 168, 168]
    assert circuit.step == 9, "the count does not grow for ever"


def test_there_is_one_probe_and_only_at_the_end():
    assert OPEN.taken(STAMP, now_s=HOUR - 0.001, hold_s=120) is None
    held = OPEN.taken(STAMP, now_s=HOUR, hold_s=120)
    assert held is not None
    assert held.state is CircuitState.PROBING
    assert held.taken(b"b" * 16, now_s=HOUR + 119, hold_s=120) is None
    assert held.taken(b"b" * 16, now_s=HOUR + 120, hold_s=120) is not None
    assert Circuit().taken(STAMP, now_s=0, hold_s=120) is None


def test_a_probe_that_was_taken_over_counts_for_nothing_whatever_it_found():
    held = OPEN.taken(STAMP, now_s=HOUR, hold_s=120)
    assert held is not None
    over = held.taken(b"b" * 16, now_s=HOUR + 200, hold_s=120)
    assert over is not None
    for signal in Signal:
        assert after(over, signal, now_s=HOUR + 201, probe=STAMP) == over
    assert over.given_back(STAMP, now_s=HOUR + 201) == over
    assert over.renewed(STAMP, now_s=HOUR + 201, hold_s=120) == over


def test_a_late_probe_counts_while_nobody_took_over():
    held = OPEN.taken(STAMP, now_s=HOUR, hold_s=120)
    assert held is not None
    assert after(held, Signal.SUCCESS, now_s=HOUR + 500, probe=STAMP).state is CircuitState.RECOVERING


def test_a_probe_that_decides_nothing_is_free_again():
    held = OPEN.taken(STAMP, now_s=HOUR, hold_s=120)
    assert held is not None
    free = after(held, Signal.NOTHING, now_s=HOUR + 1, probe=STAMP)
    assert free.taken(b"b" * 16, now_s=HOUR + 1, hold_s=120) is not None
    later = held.given_back(STAMP, now_s=HOUR + 1, after_s=60)
    assert later.taken(b"b" * 16, now_s=HOUR + 60, hold_s=120) is None
    assert later.taken(b"b" * 16, now_s=HOUR + 61, hold_s=120) is not None


def test_after_a_probe_one_at_a_time_until_eight_in_a_row_succeeded():
    circuit = RECOVERING
    for _ in range(8):
        assert circuit.state is CircuitState.RECOVERING
        assert circuit.admission(RULES, now_s=HOUR).one_at_a_time
        circuit = after(circuit, Signal.NOTHING, Signal.SUCCESS, now_s=HOUR)
    assert circuit.clean
    assert after(circuit, *[Signal.FAILURE] * 10, now_s=DAY).ends_s == DAY + HOUR, "from one hour again"


def test_a_failure_while_recovering_opens_the_next_longer_quarantine():
    circuit = after(RECOVERING, *[Signal.SUCCESS] * 7, Signal.FAILURE, now_s=DAY)
    assert circuit.state is CircuitState.OPEN
    assert circuit.ends_s == DAY + 2 * HOUR


def test_a_probe_is_brought_forward_once_and_its_failure_leaves_the_quarantine_as_it_was():
    heard = OPEN.heard_from(now_s=600)
    assert heard.taken(STAMP, now_s=600, hold_s=120) is not None
    again = probed(heard, Signal.FAILURE, now_s=600)
    assert (again.state, again.until_s, again.step) == (CircuitState.OPEN, HOUR, 1)
    assert again.heard_from(now_s=700) == again
    longer = probed(again, Signal.FAILURE, now_s=HOUR)
    assert longer.ends_s == 3 * HOUR
    assert longer.heard_from(now_s=2 * HOUR).until_s == 2 * HOUR, "once in each quarantine"
    assert probed(heard, Signal.SUCCESS, now_s=600).state is CircuitState.RECOVERING


def test_a_sign_of_life_never_closes():
    for circuit in (Circuit(), after(Circuit(), Signal.FAILURE), RECOVERING):
        assert circuit.heard_from(now_s=1) == circuit
    held = OPEN.taken(STAMP, now_s=HOUR, hold_s=120)
    assert held is not None
    assert held.heard_from(now_s=HOUR + 1) == held


def test_a_week_of_quarantine_and_thirty_days_without_a_success_is_unavailable():
    circuit, now_s = OPEN, 0.0
    while circuit.ends_s - now_s < 7 * DAY:
        assert circuit.unavailable_at_s(RULES) is None
        now_s = circuit.ends_s
        circuit = probed(circuit, Signal.FAILURE, now_s=now_s)
    assert circuit.unavailable_at_s(RULES) == 30 * DAY
    assert not circuit.admission(RULES, now_s=30 * DAY - 1).unavailable
    assert circuit.admission(RULES, now_s=30 * DAY).unavailable
    recovering = probed(circuit, Signal.SUCCESS, now_s=circuit.ends_s)
    down = after(recovering, Signal.FAILURE, now_s=circuit.ends_s + DAY)
    assert down.unavailable_at_s(RULES) == circuit.ends_s + 30 * DAY, "counted from the last success"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threshold", 0),
        ("threshold", 1.5),
        ("threshold", True),
        ("first_s", 0),
        ("growth", 0.9),
        ("longest_s", "a week"),
        ("longest_s", 60.0),
        ("recovery", 0),
        ("unavailable_after_s", float("nan")),
        ("scope", "host"),
    ],
)
def test_rules_that_make_no_sense_are_refused_by_name(field: str, value: object):
    with pytest.raises(ConfigError, match=rf"^{field} is .*; allowed is "):
        CircuitBreaker(**{field: value})  # type: ignore[arg-type]
