# SPDX-License-Identifier: Apache-2.0
"""A call of a plain function in a thread of its own.

Not in an executor's: the end of the process waits for those, and a function that hangs would keep it.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from ojak.errors import OjakError
from ojak.worker.foreign import ForeignFault


class NoThread(OjakError):
    """No thread could be started: a fault of this machine."""


async def in_thread(call: Callable[[], Any], *, name: str) -> Any:
    """Call a function in a new thread, in the caller's context; gives what it returns, raises what it raises.

    Cancelled, it leaves the thread to itself: what the function comes to then is dropped.

    Raises:
        NoThread: no thread could be started.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def tell(answer: object, error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(answer)
        else:
            done.set_exception(error)

    def work() -> None:
        answer: object = None
        fault: Exception | None = None
        try:
            answer = context.run(call)
        except BaseException as error:  # noqa: BLE001 - it is raised again where the call is awaited
            # Neither what a future does not take nor what would end the loop gets there.
            if isinstance(error, Exception) and not isinstance(error, StopIteration):
                fault = error
            else:
                fault = ForeignFault(error)
        try:
            loop.call_soon_threadsafe(tell, answer, fault)
        except RuntimeError:
            # The loop has closed: nobody waits any more.
            return

    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError as error:
        raise NoThread(str(error)) from error
    return await done
