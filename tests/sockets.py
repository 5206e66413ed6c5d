# SPDX-License-Identifier: Apache-2.0
"""What this process holds of its machine, as the kernel tells it."""

import contextlib
import os
from pathlib import Path

ESTABLISHED, SYN_SENT = "01", "02"


def sockets(port: int, *states: str) -> int:
    """This process's sockets toward a port of this machine, in whatever state unless some are given."""
    own = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            own.add(str(descriptor.readlink()))
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(
        line[2].endswith(f":{port:04X}") and (not states or line[3] in states) and f"socket:[{line[9]}]" in own
        for line in lines
    )


def resident_kib() -> int:
    """How much memory this process has now, which its peak so far would hide."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
