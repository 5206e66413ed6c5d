# SPDX-License-Identifier: Apache-2.0
"""Two statements at the same time, of which neither is left behind."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")


async def together(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """Wait for both; what one raises is raised once the other has ended too, the first's before the second's."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    await asyncio.wait(tasks)
    for task in tasks:
        # Only one of two can be raised; the other is not to be complained of as forgotten.
        _ = task.cancelled() or task.exception()
    return tasks[0].result(), tasks[1].result()
