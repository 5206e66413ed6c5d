# SPDX-License-Identifier: Apache-2.0
"""Calls of an application's own code: it may raise anything, also what would end this process, and hold on to life."""

import asyncio
from types import TracebackType
from typing import Any, Final

from ojak.errors import OjakError

CALLBACK_S: Final = 30.0
"""An asynchronous callback that takes longer counts as one that raised."""


class ForeignFault(OjakError):
    """An application's code raised what is no `Exception`: a library's time-out may be one, and `sys.exit()` is.

    Attributes:
        name: of the type that it raised.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"an application's code raised {type(error).__name__}")
        self.name = type(error).__name__
        self.__cause__ = error


def name_of(error: BaseException) -> str:
    """The name of what an application's code raised, for a log."""
    return error.name if isinstance(error, ForeignFault) else type(error).__name__


class ForeignCall:
    """A block that calls an application's code and waits for it. Its time-outs belong inside.

    Out of the block comes an `Exception`, or `CancelledError` if the task was cancelled meanwhile, whatever the code
    made of that: one that swallows it, or raises something else, would keep a `run()` from ending.
    """

    __slots__ = ("_cancels", "_task")

    def __enter__(self) -> None:
        self._task: asyncio.Task[Any] | None = asyncio.current_task()
        # A `run()` that was cancelled goes on for a while: only what comes from now on is for this call.
        self._cancels = self._task.cancelling() if self._task is not None else 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = self._task
        if isinstance(error, GeneratorExit) and asyncio.current_task() is not task:
            # It is thrown away half way, by somebody else, and may not wait for anything more.
            return
        if task is not None and task.cancelling() > self._cancels:
            if isinstance(error, asyncio.CancelledError):
                return
            raise asyncio.CancelledError from error
        if error is not None and not isinstance(error, Exception):
            raise ForeignFault(error) from error
