# SPDX-License-Identifier: Apache-2.0
"""Standard streams that whoever started the program has closed."""

import os
import sys
from typing import Final

_STDOUT: Final = 1
_STDERR: Final = 2


def occupy_closed_streams() -> bool:
    """Put the null device where a standard stream is closed; answers whether standard output was.

    Otherwise what is opened next gets the stream's number, and a socket what is printed. `sys.stdin` stays None where
    it was closed: whoever reads has to tell that from an empty input.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(number)
    closed = sys.stdout is None
    if sys.stdout is None:
        sys.stdout = os.fdopen(_STDOUT, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(_STDERR, "w", encoding="utf-8", closefd=False)
    return closed
