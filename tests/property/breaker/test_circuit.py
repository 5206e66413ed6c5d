# SPDX-License-Identifier: Apache-2.0
"""Breakers under random interleavings of askers, results, time, and holders that die: one probe, never lost."""

import dataclasses
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from ojak.breaker.admission import Probe, Verdict
from ojak.breaker.circuit import CircuitState, Signal
from ojak.breaker.rules import CircuitBreaker
from ojak.breaker.store import BreakerResult, MemoryBreakers
from ojak.clock import ManualClock

RULES = CircuitBreaker(threshold=3, first_s=10, longest_s=80, recovery=2, unavailable_after_s=500)
HOLD_S = 4.0
KEY = "h.test"
T = TypeVar("T")


def now(step: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing."""
    try:
        step.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited")


@dataclasses.dataclass
class Held:
    probe: Probe
    until_s: float


class BreakerMachine(RuleBasedStateMachine):
    """Several askers over one breaker; each delivery in flight was admitted once, and some were probes."""

    flying = Bundle("flying")
    probing = Bundle("probing")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store = MemoryBreakers(RULES, clock=self.clock)
        self.live: Held | None = None
        self.streak = 0
        self.lengths: list[float] = []

    def circuit(self):
        return self.store._circuits.get(KEY)

    def record(self, signal: Signal, probe: Probe | None = None) -> None:
        before = self.circuit()
        was_open = before is not None and before.is_open
        early = before is not None and self.clock.boot_s() < before.ends_s
        now(self.store.record([BreakerResult(key=KEY, signal=signal, probe=probe)]))
        after = self.circuit()
        is_open = after is not None and after.is_open
        mine = probe is None or (self.live is not None and probe == self.live.probe)
        if is_open and after.ends_s != (before.ends_s if was_open else None):
            # A new quarantine: the next longer one, from now, and only a probe or a closed breaker brings it about.
            self.lengths.append(after.ends_s - self.clock.boot_s())
            assert signal is Signal.FAILURE
            assert mine
            assert not was_open or (probe is not None and not early)
        if was_open and not is_open:
            assert signal is Signal.SUCCESS
            assert mine
            assert after.state is CircuitState.RECOVERING
        if after is None:
            self.lengths = []
        if probe is not None and mine:
            self.live = None
        if self.live is not None and not is_open:
            self.live = None

    @rule(target=flying)
    def begun_before(self):
        return object()

    @rule(target=probing)
    def ask(self):
        (answer,) = now(self.store.admit([KEY], hold_s=HOLD_S))
        circuit = self.circuit()
        if answer.verdict is Verdict.PROBE:
            assert answer.probe is not None
            assert self.live is None or self.live.until_s <= self.clock.boot_s(), "two at a time"
            self.live = Held(answer.probe, self.clock.boot_s() + HOLD_S)
            return self.live
        if answer.verdict is Verdict.HOLD:
            assert circuit.is_open
            assert answer.hold_s > 0
        else:
            assert circuit is None or not circuit.is_open
            assert answer.clean is (circuit is None)
        return multiple()

    @rule(one=consumes(flying), signal=st.sampled_from(Signal))
    def land(self, one, signal: Signal) -> None:
        self.record(signal)

    @rule(signal=st.sampled_from([Signal.FAILURE] * 3 + [Signal.SUCCESS]))
    def land_next(self, signal: Signal) -> None:
        circuit = self.circuit()
        if circuit is None or not circuit.is_open:
            self.record(signal)

    @rule(held=consumes(probing), signal=st.sampled_from(Signal))
    def finish(self, held: Held, signal: Signal) -> None:
        self.record(signal, held.probe)

    @rule(held=consumes(probing), after_s=st.sampled_from([0.0, 3.0]))
    def give_back(self, held: Held, after_s: float) -> None:
        now(self.store.give_back([held.probe], after_s=after_s))
        if self.live is not None and self.live.probe == held.probe:
            self.live = None

    @rule(held=probing)
    def renew(self, held: Held) -> None:
        now(self.store.renew([held.probe], hold_s=HOLD_S))
        if self.live is not None and self.live.probe == held.probe:
            self.live.until_s = self.clock.boot_s() + HOLD_S

    @rule(held=consumes(probing))
    def die(self, held: Held) -> None:
        """Its holder says nothing any more."""

    @rule()
    def hear(self) -> None:
        before = self.circuit()
        forward = now(self.store.heard_from(KEY))
        if forward:
            assert before.state is CircuitState.OPEN
            assert self.circuit().is_open
        else:
            assert self.circuit() == before

    @rule(seconds=st.sampled_from([0.5, 2.0, 4.0, 10.0, 80.0]))
    def wait(self, seconds: float) -> None:
        self.clock.turn(seconds)

    @rule()
    def sit_it_out(self) -> None:
        """Until the quarantine is over, to the second."""
        circuit = self.circuit()
        if circuit is not None and circuit.is_open and circuit.until_s > self.clock.boot_s():
            self.clock.turn(circuit.until_s - self.clock.boot_s())

    @invariant()
    def quarantines_grow_by_the_rule(self) -> None:
        for shorter, longer in zip(self.lengths, self.lengths[1:], strict=False):
            assert longer == min(shorter * RULES.growth, RULES.longest_s)
        if self.lengths:
            assert self.lengths[0] == RULES.first_s

    @invariant()
    def nothing_is_stuck(self) -> None:
        """Once everybody has died, the next asker sends, or gets the probe within the longest time there is."""
        circuit = self.circuit()
        if circuit is None:
            return
        ahead_s = RULES.longest_s + HOLD_S
        later = circuit.taken(b"later", now_s=self.clock.boot_s() + ahead_s, hold_s=HOLD_S)
        assert not circuit.is_open or later is not None


TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
