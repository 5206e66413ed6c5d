# SPDX-License-Identifier: Apache-2.0
"""`python -m ojak.rig.tied PARENT …`: a supervisor that drains when the process that started it ends, however it does.

A program of its own, and nothing done between fork and exec: the hooks that Python runs there swallow an interrupt.
"""

import ctypes
import os
import signal
import sys
from typing import Final

from ojak.supervisor.__main__ import main

_PR_SET_PDEATHSIG: Final = 1


def run(parent: int, arguments: list[str]) -> int:
    """Tie this process to its parent, and be a supervisor; answers its exit code."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        # It ended before the knot was tied.
        return 0
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), sys.argv[2:]))
