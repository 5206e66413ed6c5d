# SPDX-License-Identifier: Apache-2.0
"""What a behaviour can do with one request: the face of the connection that it came on."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Protocol

Player = Callable[["Exchange"], None]
"""A behaviour made ready: called once for each request, when the request has been read whole."""


class Exchange(Protocol):
    """One request that waits for its answer.

    Every player must bring it to an end: by `answer`, `finish`, `close` or `reset`, now or by a call that it left with
    `later` or `stream`. Those calls are dropped when the sender goes away first.
    """

    @property
    def random(self) -> Random:
        """The host's own source of chance, seeded by the plan."""
        ...

    def answer(self, wire: bytes, status: int, *, close: bool = False) -> None:
        """Write a whole answer, count its status, and end."""

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""

    def head_written(self, status: int) -> None:
        """Say that a final head has been written whole: from here on the sender may rely on `status`."""

    def finish(self, *, close: bool = False) -> None:
        """End: the answer is complete. `close` closes the connection after it."""

    def close(self) -> None:
        """End by closing the connection in order (FIN), whatever is unsaid."""

    def reset(self) -> None:
        """End by resetting the connection (RST)."""

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call back after `delay_s` seconds. One call may be outstanding."""

    def stream(self, chunks: Iterator[bytes], then: Callable[[], None]) -> None:
        """Write chunks no faster than the sender reads them, then call `then`."""
