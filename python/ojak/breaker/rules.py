# SPDX-License-Identifier: Apache-2.0
"""`CircuitBreaker`: when breakers open and for how long, as frozen values checked at once."""

from dataclasses import dataclass
from typing import Final, Self

from ojak.breaker.admission import BreakerScope
from ojak.config import DelivererConfig
from ojak.errors import ConfigError

_HOUR_S: Final = 3600.0
_DAY_S: Final = 86_400.0
_STEPS: Final = 64
"""Growth by less than a hundredth may never reach the longest quarantine: counting ends here."""

_RANGES: Final[dict[str, tuple[float, float, str]]] = {
    "threshold": (1, 1000, "consecutive failures"),
    "first_s": (0.01, 365 * _DAY_S, "seconds"),
    "growth": (1, 10, "times"),
    "longest_s": (0.01, 365 * _DAY_S, "seconds"),
    "recovery": (1, 1000, "consecutive successes"),
    "unavailable_after_s": (1, 3650 * _DAY_S, "seconds"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitBreaker:
    """When a breaker opens, and for how long (SPEC section 4).

    Raises:
        ConfigError: a value is out of its range, or the longest quarantine is shorter than the first; names the field,
            the value and what is allowed.
    """

    threshold: int = 10
    """Consecutive failures that open it."""
    first_s: float = _HOUR_S
    """The first quarantine."""
    growth: float = 2.0
    """How much longer each quarantine is than the one before it."""
    longest_s: float = 7 * _DAY_S
    """The longest quarantine."""
    recovery: int = 8
    """Consecutive successes, one delivery at a time, after which a host that was open is as good as any other."""
    unavailable_after_s: float = 30 * _DAY_S
    """A host in the longest quarantine without a success for so long is unavailable."""
    scope: BreakerScope = BreakerScope.HOST
    """What a breaker is kept for."""

    def __post_init__(self) -> None:
        for name, (low, high, unit) in _RANGES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise ConfigError(f"{name} is {value!r}; allowed is {low:g} to {high:g} {unit}")
        for name in ("threshold", "recovery"):
            if not isinstance(getattr(self, name), int):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; allowed is a whole number")
        if self.longest_s < self.first_s:
            raise ConfigError(f"longest_s is {self.longest_s!r}; allowed is first_s ({self.first_s:g}) or more")
        if not isinstance(self.scope, BreakerScope):
            raise ConfigError(f"scope is {self.scope!r}; allowed is a BreakerScope")

    @classmethod
    def configured(cls, config: DelivererConfig) -> Self:
        """The rules that a configuration names."""
        return cls(
            threshold=config.breaker_threshold,
            first_s=config.breaker_first_s,
            growth=config.breaker_growth,
            longest_s=config.breaker_longest_s,
            recovery=config.breaker_recovery,
            unavailable_after_s=config.unavailable_after_s,
            scope=BreakerScope(config.breaker_scope),
        )

    def quarantine_s(self, step: int) -> float:
        """How long quarantine number `step`, counted from 1, lasts."""
        return min(self.longest_s, self.first_s * self.growth ** (min(step, _STEPS) - 1))

    def next_step(self, step: int) -> int:
        """The number of the quarantine after number `step`; the longest is not counted on."""
        return step if step >= _STEPS or (step and self.quarantine_s(step) >= self.longest_s) else step + 1
