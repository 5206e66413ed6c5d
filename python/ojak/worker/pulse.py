# SPDX-License-Identifier: Apache-2.0
"""The pulse: what a supervisor sees of a `run()`, namely who it is, that it is ready, and that its loop goes round."""

import asyncio
from typing import Final

from ojak.worker.board import FlightBoard

_BEAT_EVERY_S: Final = 1.0


class Pulse:
    """Tells a supervisor of a `run()`, if there is one.

    Args:
        board: what the supervisor reads, or None without one.
        stamp: names the `run()`.
    """

    def __init__(self, board: FlightBoard | None, *, stamp: bytes) -> None:
        self._board = board
        self._stamp = stamp

    def begin(self) -> None:
        """Say who it is."""
        if self._board is not None:
            self._board.set_stamp(self._stamp)

    def ready(self) -> None:
        """Say that it has looked for work."""
        if self._board is not None:
            self._board.mark_ready()

    async def step(self) -> None:
        """Say that the loop goes round, and wait for the next time."""
        if self._board is not None:
            self._board.beat()
        await asyncio.sleep(_BEAT_EVERY_S)
