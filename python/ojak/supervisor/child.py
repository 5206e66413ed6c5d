# SPDX-License-Identifier: Apache-2.0
"""A worker: one event loop, the application's code, a `Deliverer` that runs until it is asked to drain.

What the supervisor says arrives on the line: obituaries, and its own end. What it sees of the worker is on the board.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import uvloop

from ojak.errors import OjakError, StoreError
from ojak.supervisor.exits import ExitCode, exit_code_of
from ojak.supervisor.frames import FrameKind, Link, Obituary, pack_number
from ojak.supervisor.logs import configure_logs
from ojak.supervisor.plan import WorkerPlan
from ojak.supervisor.signals import STOPPING
from ojak.worker.board import FlightBoard

log: Final = logging.getLogger(__name__)

BEAT_S: Final = 1.0
_COLLECT_AFTER: Final = 20_000
BURY_AGAIN_S: Final = 2.0
ORPHAN_GRACE_S: Final = 5


class Engine(Protocol):
    """What a worker runs: a `Deliverer`."""

    async def run(self) -> None:
        """Deliver until `stop`."""
        ...

    async def stop(self) -> None:
        """Begin nothing new, and answer when what was begun has ended or the drain's time is over."""
        ...

    async def close(self) -> None:
        """Let go of the database."""
        ...

    async def bury(self, stamp: bytes, begun: list[bytes]) -> None:
        """End the leases and shards of a process that died; `begun` counts as a death."""
        ...


Build = Callable[[WorkerPlan, FlightBoard], Awaitable[Engine]]


def run_worker(index: int, plan: WorkerPlan, board: FlightBoard, link: Link, *, build: Build) -> int:
    """Be a worker; answers the exit code.

    Args:
        index: The worker's number, for its log lines.
        plan: What to do.
        board: Where to write what is begun.
        link: The line to the supervisor.
        build: Makes the engine, inside the event loop.
    """
    configure_logs(plan.log_level, plan.log_format, worker=index)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_Worker(plan, board, link, build).work())
    except OjakError as error:
        _say_why(link, str(error))
        return int(exit_code_of(error))
    except Exception as error:
        log.exception("worker failed")
        _say_why(link, f"{type(error).__name__}: {error}")
        return int(ExitCode.FAILURE)
    return int(ExitCode.OK)


def _calm_the_collector() -> None:
    """What stands now stands for good, and a delivery makes hundreds of objects but hardly a cycle.

    At its defaults the collector looks through everything at every few deliveries.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)


def _say_why(link: Link, reason: str) -> None:
    link.set_timeout(1.0)
    link.send(FrameKind.FAILED, " ".join(reason.split())[:500].encode())


class _Worker:
    """The tasks of one worker."""

    def __init__(self, plan: WorkerPlan, board: FlightBoard, link: Link, build: Build) -> None:
        self._plan = plan
        self._board = board
        self._link = link
        self._build = build
        self._leave = asyncio.Event()
        self._burials: set[asyncio.Task[None]] = set()
        self._said_ready = False
        self._engine: Engine | None = None

    async def work(self) -> None:
        """Work until asked to leave, or until the engine fails."""
        loop = asyncio.get_running_loop()
        # However often it is asked, and by whom: a terminal and a service manager signal the whole group.
        for number in STOPPING:
            loop.add_signal_handler(number, self._leave.set)
        self._link.set_timeout(0)
        loop.add_reader(self._link.fileno(), self._hear)
        _calm_the_collector()
        beat = asyncio.create_task(self._beat(), name="beat")
        run = asyncio.create_task(self._run(), name="run")
        wish = asyncio.create_task(self._leave.wait(), name="wish")
        try:
            await asyncio.wait({run, wish}, return_when=asyncio.FIRST_COMPLETED)
            if self._engine is None or not self._board.ready:
                # Nothing is begun yet, and there is nothing that would hear of the wish.
                run.cancel()
            elif not run.done():
                await self._engine.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await run
            if not self._leave.is_set():
                raise OjakError("the delivery loop ended though nobody had asked it to")
            if self._burials:
                # Another worker that died while this one drained may have nobody else.
                await asyncio.wait(self._burials, timeout=BURY_AGAIN_S)
        finally:
            loop.remove_reader(self._link.fileno())
            for task in (beat, wish, run, *self._burials):
                task.cancel()
            await asyncio.gather(beat, wish, run, *self._burials, return_exceptions=True)
            if self._engine is not None:
                await self._engine.close()

    async def _run(self) -> None:
        self._engine = await self._build(self._plan, self._board)
        await self._engine.run()

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                frame = self._link.receive()
                if frame is None:
                    self._supervisor_died()
                    return
                if frame.kind is FrameKind.OBITUARY:
                    task = asyncio.create_task(self._bury(Obituary.from_bytes(frame.payload)), name="bury")
                    self._burials.add(task)
                    task.add_done_callback(self._burials.discard)

    def _supervisor_died(self) -> None:
        """The line is the second way to learn of it; the kernel's signal may come to a thread that has ended."""
        if self._plan.embedded:
            # The database died with the supervisor: nothing can be stored any more.
            os._exit(int(ExitCode.FORCED))
        asyncio.get_running_loop().remove_reader(self._link.fileno())
        log.warning("supervisor died, draining")
        # Nobody is left to end a drain that hangs.
        signal.alarm(int(self._plan.config.drain_s) + ORPHAN_GRACE_S)
        self._leave.set()

    async def _bury(self, obituary: Obituary) -> None:
        while True:
            try:
                if self._engine is not None:
                    await self._engine.bury(obituary.stamp, list(obituary.begun))
                    break
            except StoreError as error:
                log.warning("obituary not dealt with yet", extra={"reason": str(error)})
            # The database is away, or this worker is not far enough yet. The reaper would do it later, too.
            await asyncio.sleep(BURY_AGAIN_S)
        self._link.send(FrameKind.BURIED, pack_number(obituary.number))

    async def _beat(self) -> None:
        while True:
            self._board.beat()
            if self._board.ready and not self._said_ready:
                self._said_ready = self._link.send(FrameKind.READY)
            await asyncio.sleep(BEAT_S if self._said_ready else BEAT_S / 20)
