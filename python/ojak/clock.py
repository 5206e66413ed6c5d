# SPDX-License-Identifier: Apache-2.0
"""Time, in the two kinds that Ojak keeps apart (DESIGN section 3, "Time").

Stored times come from the database's clock alone. Deadlines and trust, which never leave the process, are counted on a
clock that no operator can set and that goes on while the machine sleeps.
"""

import time
from typing import Protocol

# CLOCK_BOOTTIME counts suspended time, which CLOCK_MONOTONIC does not: a lease runs out while a laptop sleeps.
# macOS has no such name; its monotonic clock is the nearest.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """What pure parts ask for the time, so that tests can turn it."""

    def boot_s(self) -> float:
        """Seconds on the clock for local deadlines; only differences mean anything."""
        ...

    def wall_s(self) -> float:
        """Seconds since the epoch, for the Date field and `created` of a signature; never stored."""
        ...


class SystemClock:
    """The machine's own clocks."""

    __slots__ = ()

    def boot_s(self) -> float:
        """Seconds since boot, suspended time included."""
        return time.clock_gettime(_BOOTTIME)

    def wall_s(self) -> float:
        """Seconds since the epoch."""
        return time.time()


class ManualClock:
    """A clock that stands still until it is turned, for tests and simulations."""

    __slots__ = ("_boot_s", "_wall_s")

    def __init__(self, *, wall_s: float = 1_750_000_000.0) -> None:
        self._boot_s = 0.0
        self._wall_s = wall_s

    def boot_s(self) -> float:
        """Seconds turned since the clock was made."""
        return self._boot_s

    def wall_s(self) -> float:
        """Seconds since the epoch, as started and turned."""
        return self._wall_s

    def turn(self, seconds: float) -> None:
        """Let `seconds` pass on both clocks."""
        self._boot_s += seconds
        self._wall_s += seconds
