# SPDX-License-Identifier: Apache-2.0
"""Pace: how many deliveries at a time, raised while the event loop keeps up (SPEC section 2).

At 200 ms an answer eight slots are forty deliveries a second, however idle the machine is.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ojak.clock import Clock
from ojak.worker.lanes import Lanes

_EVERY_S: Final = 0.1
_KEEPS_UP_S: Final = 0.02
_FALLS_BEHIND_S: Final = 0.1
_GROWTH: Final = 1.25


class Pace:
    """Turns the number of slots between its two bounds by how late the loop wakes it.

    Args:
        lanes: whose slots are turned.
        clock: to measure by.
        most: the most slots.
        on_raised: called when there are more slots.
    """

    def __init__(self, *, lanes: Lanes, clock: Clock, most: int, on_raised: Callable[[], None]) -> None:
        self._lanes = lanes
        self._clock = clock
        self._least = lanes.concurrency
        self._most = most
        self._on_raised = on_raised

    async def step(self) -> None:
        """Sleep a little, see how late that was, and turn."""
        before_s = self._clock.boot_s()
        await asyncio.sleep(_EVERY_S)
        self.turn(late_s=self._clock.boot_s() - before_s - _EVERY_S)

    def turn(self, *, late_s: float) -> None:
        """Turn by how late the loop is."""
        slots = self._lanes.concurrency
        if late_s > _FALLS_BEHIND_S:
            self._lanes.concurrency = max(self._least, int(slots / _GROWTH))
        elif late_s < _KEEPS_UP_S and self._lanes.pressed and slots < self._most:
            self._lanes.concurrency = min(self._most, int(slots * _GROWTH) + 1)
            self._on_raised()
