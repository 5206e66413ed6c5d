# SPDX-License-Identifier: Apache-2.0
"""The signals that the supervisor takes, as something to read from a descriptor."""

import os
import signal
from typing import Final

STOPPING: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
"""Each is a wish to drain: a service manager's, a terminal's, a terminal's that was closed."""

HANDLED: Final = (*sorted(STOPPING), signal.SIGCHLD)


class SignalInbox:
    """Turns signals into readable bytes, so that the supervisor deals with them between two calls and never inside."""

    __slots__ = ("_read", "_write")

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in HANDLED:
            signal.signal(number, lambda _number, _frame: None)

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._read

    def take(self) -> list[signal.Signals]:
        """The signals that arrived since the last call, in their order."""
        try:
            return [signal.Signals(number) for number in os.read(self._read, 4096)]
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Give the signals back to their default handlers."""
        signal.set_wakeup_fd(-1)
        for number in HANDLED:
            signal.signal(number, signal.SIG_DFL)
        os.close(self._read)
        os.close(self._write)
