# SPDX-License-Identifier: Apache-2.0
"""The supervisor's poll."""

import os

from ojak.clock import ManualClock, SystemClock
from ojak.supervisor.poll import Poller


def test_times_come_in_their_order_and_cancelled_ones_do_not() -> None:
    clock, seen = ManualClock(), list[str]()
    poller = Poller(clock, lambda: None)
    poller.after(2, lambda: seen.append("second"))
    poller.after(1, lambda: seen.append("first"))
    poller.after(1.5, lambda: seen.append("never")).cancel()
    clock.turn(3)
    poller.turn()
    assert seen == ["first", "second"]
    poller.close()


def test_a_descriptor_that_an_earlier_call_closed_is_not_called_for() -> None:
    seen, pipes = list[str](), [os.pipe(), os.pipe()]
    poller = Poller(SystemClock(), lambda: None)

    def close_all(name: str) -> None:
        seen.append(name)
        for read, write in pipes:
            poller.unwatch(read)
            os.close(read)
            os.close(write)
        # A new descriptor has the number of an old one.
        fresh, other = os.pipe()
        poller.watch(fresh, lambda: seen.append("fresh"))
        pipes[:] = [(fresh, other)]

    for index, (read, write) in enumerate(pipes):
        poller.watch(read, lambda index=index: close_all(str(index)))  # type: ignore[misc]
        os.write(write, b"x")
    poller.turn()
    assert len(seen) == 1
    for read, write in pipes:
        os.close(read)
        os.close(write)
    poller.close()


def test_what_comes_first_comes_before_descriptors() -> None:
    seen = list[str]()
    poller = Poller(SystemClock(), lambda: seen.append("first"))
    read, write = os.pipe()
    poller.watch(read, lambda: seen.append("descriptor"))
    os.write(write, b"x")
    poller.turn()
    assert seen == ["first", "descriptor"]
    os.close(read)
    os.close(write)
    poller.close()
