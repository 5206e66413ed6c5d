# SPDX-License-Identifier: Apache-2.0
"""What the workers of one machine see together of good hosts, in memory that they share (`breaker.outage`).

The supervisor makes the page before it forks, and every worker writes its own part: no message, no lock. A part that
was not written for some seconds is a dead worker's, and does not count.
"""

import mmap
import struct
from typing import Final

from ojak.breaker.outage import OutageTally
from ojak.clock import Clock, SystemClock

PARTS: Final = 256
_PART: Final = struct.Struct("=dIIII")
_PARTS_AT: Final = 64
_LIVES_S: Final = 5.0


class MachinePage:
    """The page. One for all workers of a supervisor."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, _PARTS_AT + PARTS * _PART.size)
        # Read at each delivery: so without unpacking.
        self.turns = memoryview(self.memory)[:_PARTS_AT].cast("Q")


class MachineTallies:
    """One worker's part of the page.

    Args:
        page: the page, made before the fork.
        part: which part is its own, from 0.
        clock: the same for all, counted from the machine's start.
    """

    def __init__(self, page: MachinePage, part: int, *, clock: Clock | None = None) -> None:
        self._memory = page.memory
        self._turns = page.turns
        self._at = _PARTS_AT + (part % PARTS) * _PART.size
        self._clock = clock or SystemClock()

    @property
    def turns(self) -> int:
        """How often an outage began or ended; odd while there is one."""
        return self._turns[0]

    def turn(self, seen: int) -> None:
        """Begin or end an outage, unless somebody did since `seen`: two that do so at once write the same."""
        if self.turns == seen:
            self._turns[0] = seen + 1

    def post(self, tally: OutageTally) -> None:
        """Say what this worker has seen."""
        counts = (tally.tried, tally.failed, tally.back, tally.known)
        _PART.pack_into(self._memory, self._at, self._clock.boot_s(), *counts)

    def total(self) -> OutageTally:
        """What all living workers have seen."""
        oldest_s = self._clock.boot_s() - _LIVES_S
        sums = [0, 0, 0, 0]
        for at_s, *counts in _PART.iter_unpack(self._memory[_PARTS_AT : _PARTS_AT + PARTS * _PART.size]):
            if at_s >= oldest_s:
                sums = [total + count for total, count in zip(sums, counts, strict=True)]
        tried, failed, back, known = sums
        return OutageTally(tried=tried, failed=failed, back=back, known=known)
