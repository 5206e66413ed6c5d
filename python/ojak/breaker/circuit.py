# SPDX-License-Identifier: Apache-2.0
"""The breaker of one key as a pure state machine: what it was, what happened, what it is then.

```
            threshold failures                     until has come, somebody asks
  CLOSED ────────────────────────► OPEN ─────────────────────────────────────► PROBING
    ▲                               ▲ ▲   given back, or its holder died: at once  │ │
    │                               │ └────────────────────────────────────────────┘ │
    │ recovery successes in a row   │ a failure: the next longer quarantine          │ a success
    └──────────────────────── RECOVERING ◄───────────────────────────────────────────┘
```

A failed probe also opens the next longer quarantine. One that was brought forward (`heard_from`) and fails leaves the
quarantine as it was: else a host that talks to us and does not listen would be tried at each word of it.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from ojak.breaker.admission import CLEAN, Admission, Verdict
from ojak.breaker.rules import CircuitBreaker


class Signal(StrEnum):
    """What an attempt says of the host."""

    SUCCESS = "success"
    """A final answer, whatever it was: the host works."""
    FAILURE = "failure"
    """No answer, or that of a broken server."""
    NOTHING = "nothing"
    """Neither: it came at a bad time, or the fault was our own."""


class CircuitState(StrEnum):
    """Where a breaker is."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """A breaker. Times are seconds on the clock of whoever keeps it.

    Attributes:
        failures: consecutive failures while closed.
        step: the number of the quarantine, from 1; kept while recovering, so that the next one is longer.
        is_open: nothing is sent but a probe.
        until_s: open: nothing is sent before. Quarantined, its end; probing, until when the probe is held.
        ends_s: open: when the quarantine ends, or ended.
        heard: open: the probe of this quarantine was brought forward.
        probe: open: the stamp of the probe, while one is held. It stays after its time, until somebody takes the
            next: what a late holder found out counts as long as nobody else is finding out.
        to_go: recovering: how many successes in a row are missing.
        quiet_since_s: since when there was no success, as far as that is known: the first failure after the last one.
    """

    failures: int = 0
    step: int = 0
    is_open: bool = False
    until_s: float = 0.0
    ends_s: float = 0.0
    heard: bool = False
    probe: bytes | None = None
    to_go: int = 0
    quiet_since_s: float | None = None

    @property
    def state(self) -> CircuitState:
        """Where it is."""
        if self.is_open:
            return CircuitState.OPEN if self.probe is None else CircuitState.PROBING
        return CircuitState.RECOVERING if self.to_go else CircuitState.CLOSED

    @property
    def clean(self) -> bool:
        """Whether there is nothing to remember."""
        return self == Circuit()

    def after(self, signal: Signal, *, rules: CircuitBreaker, now_s: float, probe: bytes | None = None) -> "Circuit":
        """The breaker after an attempt.

        Args:
            signal: what the attempt said.
            rules: when breakers open, and for how long.
            now_s: the present.
            probe: the stamp of the probe that the attempt was. What no longer matches was taken over, and counts for
                nothing.
        """
        if probe is not None and (probe != self.probe or not self.is_open):
            return self
        if signal is Signal.SUCCESS:
            return self._succeeded(rules, now_s)
        if signal is Signal.FAILURE:
            return self._failed(rules, now_s, probed=probe is not None)
        return self if probe is None else self.given_back(probe, now_s=now_s)

    def _succeeded(self, rules: CircuitBreaker, now_s: float) -> "Circuit":
        if self.is_open:
            # Also without a probe: a delivery begun before the quarantine got through, so the host works.
            return Circuit(step=self.step, to_go=rules.recovery, quiet_since_s=now_s)
        if self.to_go > 1:
            return replace(self, to_go=self.to_go - 1, quiet_since_s=now_s)
        return Circuit()

    def _failed(self, rules: CircuitBreaker, now_s: float, *, probed: bool) -> "Circuit":
        if self.is_open:
            if not probed:
                return self  # begun before the quarantine: it is counted already
            if now_s < self.ends_s:
                return replace(self, probe=None, until_s=self.ends_s)
            return self._quarantined(rules, now_s)
        if self.to_go or self.failures + 1 >= rules.threshold:
            return self._quarantined(rules, now_s)
        return replace(self, failures=self.failures + 1, quiet_since_s=self._quiet_since(now_s))

    def _quarantined(self, rules: CircuitBreaker, now_s: float) -> "Circuit":
        step = rules.next_step(self.step)
        ends_s = now_s + rules.quarantine_s(step)
        return Circuit(step=step, is_open=True, until_s=ends_s, ends_s=ends_s, quiet_since_s=self._quiet_since(now_s))

    def _quiet_since(self, now_s: float) -> float:
        return now_s if self.quiet_since_s is None else self.quiet_since_s

    def taken(self, stamp: bytes, *, now_s: float, hold_s: float) -> "Circuit | None":
        """The breaker with its probe taken for `hold_s` seconds, or None if there is none to take now."""
        if not self.is_open or self.until_s > now_s:
            return None
        return replace(self, probe=stamp, until_s=now_s + hold_s)

    def renewed(self, stamp: bytes, *, now_s: float, hold_s: float) -> "Circuit":
        """The breaker with its probe held for `hold_s` seconds from now, if the stamp is still its."""
        return replace(self, until_s=now_s + hold_s) if self.is_open and stamp == self.probe else self

    def given_back(self, stamp: bytes, *, now_s: float, after_s: float = 0.0) -> "Circuit":
        """The breaker with its probe free again in `after_s` seconds, if the stamp is still its."""
        return replace(self, probe=None, until_s=now_s + after_s) if self.is_open and stamp == self.probe else self

    def heard_from(self, *, now_s: float) -> "Circuit":
        """The breaker after a sign of life that is no delivery of ours: once a quarantine the probe goes at once."""
        if not self.is_open or self.heard or self.probe is not None or self.until_s <= now_s:
            return self
        return replace(self, heard=True, until_s=now_s)

    def unavailable_at_s(self, rules: CircuitBreaker) -> float | None:
        """From when deliveries are given up on at once, unless something changes; None if that is not in sight."""
        if not self.is_open or self.quiet_since_s is None or rules.quarantine_s(self.step) < rules.longest_s:
            return None
        return self.quiet_since_s + rules.unavailable_after_s

    def admission(self, rules: CircuitBreaker, *, now_s: float) -> Admission:
        """What may be done now, without taking a probe."""
        if not self.is_open:
            if self.clean:
                return CLEAN
            return Admission(verdict=Verdict.SEND, one_at_a_time=self.to_go > 0)
        unavailable_at_s = self.unavailable_at_s(rules)
        return Admission(
            verdict=Verdict.HOLD,
            hold_s=max(0.0, self.until_s - now_s),
            unavailable=unavailable_at_s is not None and unavailable_at_s <= now_s,
        )
