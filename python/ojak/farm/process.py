# SPDX-License-Identifier: Apache-2.0
"""The farm as a process of its own: signals, its parent's death, the news that it is ready."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

import uvloop

from ojak.farm.errors import FarmError
from ojak.farm.farm import Farm, FarmSettings
from ojak.farm.plan import FarmPlan
from ojak.farm.report import FarmReport
from ojak.farm.site import Directory

_PR_SET_PDEATHSIG = 1


def run_farm(
    plan: FarmPlan,
    settings: FarmSettings,
    *,
    ready: Callable[[Directory], None],
    stop_with_stdin: bool = False,
) -> FarmReport:
    """Serve until TERM, INT or an order to stop; with `stop_with_stdin` also until standard input ends.

    Raises:
        FarmError: the farm cannot start or go on.
    """

    async def serve() -> FarmReport:
        farm = Farm(plan, settings)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, farm.stop)
        if stop_with_stdin:
            _watch_stdin(loop, farm.stop)
        return await farm.serve(ready)

    return uvloop.run(serve())


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that started it ends.

    Raises:
        FarmError: the kernel cannot, or `parent` is dead already.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise FarmError(f"die-with-parent is not possible here: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        raise FarmError("die-with-parent came too late: the parent is dead")


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    descriptor = sys.stdin.fileno()

    def look() -> None:
        with suppress(BlockingIOError):
            if not os.read(descriptor, 4096):
                loop.remove_reader(descriptor)
                stop()

    os.set_blocking(descriptor, False)
    loop.add_reader(descriptor, look)
