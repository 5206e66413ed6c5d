# SPDX-License-Identifier: Apache-2.0
"""What the supervisor waits with: file descriptors and times, in one poll."""

import heapq
import itertools
import selectors
from collections.abc import Callable
from typing import Final

from ojak.clock import Clock

_IDLE_S: Final = 3600.0


class Timer:
    """One call to come."""

    __slots__ = ("at_s", "call")

    def __init__(self, at_s: float, call: Callable[[], None]) -> None:
        self.at_s = at_s
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Not any more. Calling it again, or after the call, does nothing."""
        self.call = None


class Poller:
    """Calls back when a descriptor can be read or a time has come; one thread, no tasks.

    Args:
        clock: The time.
        first: Called after each wait, before anything else.
    """

    __slots__ = ("_clock", "_first", "_numbers", "_selector", "_timers")

    def __init__(self, clock: Clock, first: Callable[[], None]) -> None:
        self._clock = clock
        self._first = first
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def watch(self, fd: int, call: Callable[[], None]) -> None:
        """Call each time `fd` can be read."""
        self._selector.register(fd, selectors.EVENT_READ, call)

    def unwatch(self, fd: int) -> None:
        """No more of that; does nothing for what is not watched."""
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def after(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Call once in `delay_s` seconds."""
        timer = Timer(self._clock.boot_s() + delay_s, call)
        heapq.heappush(self._timers, (timer.at_s, next(self._numbers), timer))
        return timer

    def turn(self) -> None:
        """Wait for the next thing to happen, and make the calls that it brings."""
        happened = self._selector.select(self._wait_s())
        self._first()
        for key, _ in happened:
            # An earlier call of this turn may have closed what a later one is about.
            if self._selector.get_map().get(key.fd) is key:
                key.data()
        now_s = self._clock.boot_s()
        while self._timers and self._timers[0][0] <= now_s:
            timer = heapq.heappop(self._timers)[2]
            if timer.call is not None:
                call, timer.call = timer.call, None
                call()

    def _wait_s(self) -> float:
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - self._clock.boot_s()) if self._timers else _IDLE_S

    def close(self) -> None:
        """Close the poll's own descriptor."""
        self._selector.close()
