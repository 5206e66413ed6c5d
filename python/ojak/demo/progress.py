# SPDX-License-Identifier: Apache-2.0
"""Progress: a bar on a terminal, a line now and then elsewhere."""

import time
from typing import Final, TextIO

_WIDTH: Final = 40
_LINE_EVERY_S: Final = 5.0


class Progress:
    """Tells how far a run is.

    Args:
        stream: where to; whether that is a terminal decides the form.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar = stream.isatty()
        self._shown = False
        self._next_line_s = 0.0
        self._last = ""

    def say(self, text: str) -> None:
        """A step, on a line of its own."""
        self.done()
        self._write(f"{text}\n")

    def show(self, done: int, total: int, note: str) -> None:
        """How much of the whole is done."""
        if self._bar:
            filled = _WIDTH * done // max(total, 1)
            # To the line's start, and what is longer of the last one is wiped.
            self._write(f"\r[{'#' * filled}{'.' * (_WIDTH - filled)}] {done:,} of {total:,} {note}\x1b[K")
            self._shown = True
            return
        line, now_s = f"{done:,} of {total:,} {note}", time.monotonic()
        if line != self._last and (now_s >= self._next_line_s or done == total):
            self._last, self._next_line_s = line, now_s + _LINE_EVERY_S
            self._write(f"{line}\n")

    def done(self) -> None:
        """Leave the bar's line."""
        if self._shown:
            self._shown = False
            self._write("\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
