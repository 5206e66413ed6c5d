# SPDX-License-Identifier: Apache-2.0
"""A `Deliverer` in an event loop of its own, in a thread of its own, for callers in other threads."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from ojak.deliverer import Deliverer
from ojak.errors import ConfigError

T = TypeVar("T")

_CLOSE_S: Final = 10.0


class Background:
    """Runs what is asked of a `Deliverer` in a thread, which starts with the first call.

    It belongs to the process that made it: in a forked child there is no such thread, and whoever finds that makes
    another one.

    Args:
        deliverer: what is asked. Nobody else uses it.
        close_client: closes the database's client where that is not the deliverer's own, or None.
    """

    def __init__(self, deliverer: Deliverer, *, close_client: Callable[[], Awaitable[None]] | None = None) -> None:
        self.pid = os.getpid()
        self._deliverer = deliverer
        self._close_client = close_client
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._asked: set[asyncio.Task[Any]] = set()

    def ask(self, what: Callable[[Deliverer], Coroutine[Any, Any, T]]) -> T:
        """Have something done in the loop, and wait for it. Interrupted, it is cancelled there.

        Raises:
            ConfigError: it is closed, or the caller is the loop's own thread, which would wait for itself.
        """
        if threading.current_thread() is self._thread:
            raise ConfigError("a sync.Deliverer is used by code that it runs itself; allowed is any other thread")
        with self._lock:
            # Under the lock: once it is closed nothing new comes into the loop, where it would never end.
            future = asyncio.run_coroutine_threadsafe(self._noted(what), self._started())
        try:
            return future.result()
        finally:
            # Does nothing where it is done.
            future.cancel()

    def close(self) -> None:
        """Let what is under way end, and let go of thread and connections. In a forked child it does nothing."""
        if os.getpid() != self.pid:
            return
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None or not thread.is_alive():
            return
        gone = asyncio.run_coroutine_threadsafe(self._let_go(), loop)
        gone.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
        if thread is threading.current_thread():
            # It was forgotten and collected there; its own end is not waited for.
            return
        with contextlib.suppress(TimeoutError):
            gone.exception(_CLOSE_S)
        gone.cancel()
        thread.join(_CLOSE_S)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise ConfigError("a sync.Deliverer that was closed is used; allowed is a new one")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="ojak-sync", daemon=True)
            self._thread.start()
        return self._loop

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()

    async def _let_go(self) -> None:
        if self._asked:
            await asyncio.wait(self._asked)
        await self._deliverer.close()
        if self._close_client is not None:
            await self._close_client()

    async def _noted(self, what: Callable[[Deliverer], Coroutine[Any, Any, T]]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._asked.add(task)
        try:
            return await what(self._deliverer)
        finally:
            self._asked.discard(task)
