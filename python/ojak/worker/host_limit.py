# SPDX-License-Identifier: Apache-2.0
"""How many requests a host may have open, as its answers say (SPEC section 4, "Limits adapt"). Pure: no clock, no I/O.

As many as it is allowed; one after an answer that took too long, or a 429; and after so many quick answers in a row
twice as many as before, until it is as many as allowed again. With the two that a host is allowed unless an operator
says otherwise, that is one and two.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRules:
    """When a limit changes.

    Attributes:
        slow_ms: an answer that takes longer narrows it.
        quick_answers: so many others in a row widen it.
    """

    slow_ms: float = 5000.0
    quick_answers: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimit:
    """How many requests a host may have open.

    Attributes:
        allowed: how many at most.
        now: how many now.
        quick: while narrowed: how many quick answers came in a row.
    """

    allowed: int
    now: int
    quick: int = 0

    @classmethod
    def of(cls, allowed: int, narrowed_to: int | None = None) -> "HostLimit":
        """The limit of a host that is allowed so many, and was narrowed to so many, if it was."""
        return cls(allowed=allowed, now=allowed if narrowed_to is None else max(1, min(narrowed_to, allowed)))

    @property
    def narrowed_to(self) -> int | None:
        """What is to be remembered of it: nothing, if it is as wide as it is allowed."""
        return self.now if self.now < self.allowed else None

    def after(self, *, took_ms: float, told_to_wait: bool, rules: LimitRules) -> "HostLimit":
        """The limit after an answer, or after waiting in vain for one.

        Args:
            took_ms: how long.
            told_to_wait: whether the answer was that there are too many requests.
            rules: when it changes.
        """
        if told_to_wait or took_ms > rules.slow_ms:
            return replace(self, now=1, quick=0)
        if self.now >= self.allowed:
            return self
        if self.quick + 1 < rules.quick_answers:
            return replace(self, quick=self.quick + 1)
        return replace(self, now=min(self.allowed, self.now * 2), quick=0)

    def with_allowed(self, allowed: int) -> "HostLimit":
        """The limit when another number is allowed: as narrow as it was, if it was narrowed."""
        return self if allowed == self.allowed else HostLimit.of(allowed, self.narrowed_to)
