# SPDX-License-Identifier: Apache-2.0
"""What runs other programs ends them, and what it made, however it is asked to end."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S: Final = 0.02


@contextmanager
def interruptible(say: Callable[[str], None]) -> Iterator[None]:
    """The first wish to end ends what runs, in order; more of them change nothing, so that nothing is left behind.

    Args:
        say: told that everything has ended.

    Raises:
        KeyboardInterrupt: it was asked to end.
    """
    asked = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if _makes_or_closes_a_loop(frame):
            # Raised in there, it would leave half a loop behind, and there is none yet, or no more, that could be told.
            again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        for other in _ENDS:
            signal.signal(other, signal.SIG_IGN)
        asked = True
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise KeyboardInterrupt from None
        # Raised in the middle of a step of the loop, it would leave the loop itself behind.
        loop.call_soon_threadsafe(_cancel_all, loop)

    before = {number: signal.signal(number, end) for number in _ENDS}
    try:
        yield
    except asyncio.CancelledError:
        if not asked:
            raise
    except KeyboardInterrupt:
        asked = True
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if asked:
        say("interrupted: everything that ran has ended")
        raise KeyboardInterrupt


def _makes_or_closes_a_loop(frame: FrameType | None) -> bool:
    """Whether this is a step of asyncio's own, while no loop runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        while frame is not None:
            if str(frame.f_globals.get("__name__", "")).partition(".")[0] == "asyncio":
                return True
            frame = frame.f_back
    return False


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
