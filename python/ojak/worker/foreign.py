# SPDX-License-Identifier: Apache-2.0
"""What comes out of an application's own code: it may raise anything, also what would end this process."""

import asyncio


def is_own_end(error: BaseException) -> bool:
    """Whether the task that called the code is being ended itself, and it was not the code that raised.

    Callers catch `BaseException`: a library's time-out may be one, and `sys.exit()` in a callback would else end the
    worker, and again each time the same end is told. What this is true of they raise again.
    """
    task = asyncio.current_task()
    return isinstance(error, GeneratorExit) or (task is not None and task.cancelling() > 0)
