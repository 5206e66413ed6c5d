# SPDX-License-Identifier: Apache-2.0
"""CPU time of processes, as the kernel counts it (Linux)."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_UTIME: Final = 11
"""Place of utime among the fields after the command's name (proc(5), field 14); stime, cutime and cstime follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTime:
    """CPU time of a process and of the children that it has reaped, in seconds."""

    own_s: float
    reaped_s: float


def cpu_time(pid: int) -> CpuTime | None:
    """The CPU time of a process up to now, None if there is none of that number."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    # The command's name stands in parentheses and may hold anything, parentheses too.
    user, system, child_user, child_system = (
        int(field) for field in text.rpartition(")")[2].split()[_UTIME : _UTIME + 4]
    )
    return CpuTime(own_s=(user + system) / _TICKS_PER_S, reaped_s=(child_user + child_system) / _TICKS_PER_S)
