# SPDX-License-Identifier: Apache-2.0
"""The ledger as the farm writes it: rows in memory for a moment, then lines of a file that only grows."""

import os
from pathlib import Path
from time import monotonic, time

import orjson

from ojak.farm.arrival import Ending
from ojak.farm.errors import FarmError

Row = list[int | float | str | bool | None]
"""The fields of an `Arrival` in its order, changed while the request is open."""

# places in a row of what changes after it was begun
STATUS, ENDING, ENDED = 9, 10, 13

_ANSWERED = str(Ending.ANSWERED)
_OPEN = str(Ending.OPEN)


class LedgerBook:
    """Appends rows to a file; a row that was open when it was written is written again at its end.

    Memory holds only what changed since the last `flush`, so that a long run does not grow.
    """

    __slots__ = ("_changed", "_descriptor", "_seq", "accepted", "arrivals", "path", "unverified")

    def __init__(self, path: Path) -> None:
        """Create the file `path`, empty.

        Raises:
            FarmError: it cannot be written.
        """
        self.path = path
        self.arrivals = 0
        self.accepted = 0
        self.unverified = 0
        self._seq = 0
        self._changed: dict[int, Row] = {}
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        try:
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise FarmError(f"ledger file {path} cannot be written: {error.strerror}") from error

    def begin(
        self,
        *,
        host: str,
        inbox: str,
        activity: str,
        body_sha256: str,
        scheme: str,
        key_id: str,
        verdict: str,
        takes: bool,
        connection: int,
        open_requests: int,
    ) -> Row:
        """Enter an arrival; the row is given back so that its end can be entered."""
        self._seq = seq = self._seq + 1
        self.arrivals += 1
        row: Row = [
            seq, host, inbox, activity, body_sha256, scheme, key_id, verdict, takes,
            None, _OPEN, monotonic(), time(), None, connection, open_requests,
        ]  # fmt: skip
        self._changed[seq] = row
        return row

    def status(self, row: Row, status: int) -> None:
        """Enter that a final head with `status` was written whole."""
        row[STATUS] = status
        if 200 <= status <= 299:
            self.accepted += 1

    def end(self, row: Row, ending: str = _ANSWERED) -> None:
        """Enter how and that the exchange ended."""
        row[ENDING] = ending
        row[ENDED] = monotonic()
        self._changed[row[0]] = row  # type: ignore[index]  # the first field of a row is its seq

    def flush(self) -> None:
        """Write what changed.

        Raises:
            FarmError: the file takes no more. A ledger with holes proves nothing, so the farm must stop.
        """
        if not self._changed:
            return
        changed, self._changed = self._changed, {}
        left = memoryview(b"".join([orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in changed.values()]))
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            raise FarmError(f"ledger file {self.path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Write what changed and close the file."""
        try:
            self.flush()
        finally:
            os.close(self._descriptor)
