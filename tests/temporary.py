# SPDX-License-Identifier: Apache-2.0
"""Where a run of the tests keeps its files: in memory where there is room, so that no write waits for a disk.

Every acknowledged write of the queue waits for a journal. What the tests show about it is what outlives a killed
process, and that is the same in memory; what outlives a machine is the journal's own business.
"""

import os
import shutil
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")
_PREFIX: Final = f"ojak-tests-{os.getuid()}-"
# An embedded server takes 0.4 GB, three live at once at most, and what failed is kept to be looked at.
_ROOM_BYTES: Final = 4 << 30


def in_memory() -> Path | None:
    """The folder in memory that this run may make for itself, None where there is no room for one.

    What runs that have ended left there, since a test failed or they were killed, is removed.
    """
    if not os.access(_MEMORY, os.W_OK):
        return None
    for left in _MEMORY.glob(f"{_PREFIX}*"):
        pid = left.name.removeprefix(_PREFIX)
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)
    room = os.statvfs(_MEMORY)
    free = Path("/proc/meminfo").read_text("ascii").partition("MemAvailable:")[2].split()[0]
    if min(room.f_bavail * room.f_frsize, int(free) << 10) < _ROOM_BYTES:
        return None
    return _MEMORY / f"{_PREFIX}{os.getpid()}"
