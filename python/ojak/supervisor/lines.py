# SPDX-License-Identifier: Apache-2.0
"""The supervisor's own log lines, in the form that its workers' have, without the library that makes theirs."""

import contextlib
import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class LineFormatter(logging.Formatter):
    """One event a line: constant text, and what belongs to it as fields.

    Args:
        log_format: `text` or `json`.
    """

    def __init__(self, log_format: str) -> None:
        super().__init__()
        self._json = log_format == "json"

    def format(self, record: logging.LogRecord) -> str:
        """The line of one event."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields = {name: value for name, value in vars(record).items() if name not in _OWN}
        if self._json:
            line = {"event": record.getMessage(), "level": record.levelname.lower(), "timestamp": time, **fields}
            text = json.dumps(line, default=str)
        else:
            words = " ".join(f"{name}={value}" for name, value in fields.items())
            text = f"{time} [{record.levelname.lower():<7}] {record.getMessage()} {words}".rstrip()
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def say(text: str) -> None:
    """Tell an operator on standard error, as the command line does. Nothing is wrong when nobody reads that."""
    with contextlib.suppress(OSError):
        for line in text.splitlines():
            print(f"ojak: {line}", file=sys.stderr, flush=True)  # noqa: T201 - what the program has to say


def log_lines(log_level: str, log_format: str) -> None:
    """Write events from `log_level` up to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(log_format))
    logger = logging.getLogger("ojak")
    logger.handlers[:] = [handler]
    logger.setLevel(log_level.upper())
    logger.propagate = False
