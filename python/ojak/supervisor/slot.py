# SPDX-License-Identifier: Apache-2.0
"""A worker's place: one process after another, with its board and its line. Standard library and pure modules."""

import contextlib
import signal
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

from ojak.supervisor.exits import ExitCode
from ojak.supervisor.frames import Frame, FrameKind, Link, Obituary
from ojak.supervisor.plan import WorkerPlan
from ojak.supervisor.process import ChildProcess, fork_child
from ojak.supervisor.restart import RestartDelay
from ojak.worker.board import FlightBoard
from ojak.worker.machine import MachinePage, MachineTallies

WorkerMain = Callable[[int, WorkerPlan, FlightBoard, Link], int]
"""What a worker runs, given its number; answers its exit code."""

BOOT_TRIES: Final = 3
REASON_MAX: Final = 500
# Starting again changes nothing about these.
_FOR_GOOD: Final = frozenset({int(ExitCode.USAGE), int(ExitCode.APP)})


class SlotState(StrEnum):
    """Where a slot stands."""

    BOOTING = "booting"
    READY = "ready"
    DRAINING = "draining"
    WAITING = "waiting"
    """Its worker died and is started again after a while."""
    GONE = "gone"
    """Its worker ended and is not started again."""


class Slot:
    """One worker's place.

    Args:
        index: Its number, from 0.
        page: What the workers of this machine share.
    """

    __slots__ = (
        "_page",
        "_process",
        "board",
        "boot_failures",
        "deaths",
        "delay",
        "index",
        "link",
        "reason",
        "returncode",
        "started_s",
        "state",
    )

    def __init__(self, index: int, page: MachinePage) -> None:
        self.index = index
        self._page = page
        self.state = SlotState.WAITING
        self.board: FlightBoard | None = None
        self.link: Link | None = None
        self.delay = RestartDelay()
        self.deaths = 0
        self.boot_failures = 0
        self.reason = ""
        self.returncode = 0
        self.started_s = 0.0
        self._process: ChildProcess | None = None

    @property
    def process(self) -> ChildProcess | None:
        """The running worker."""
        return self._process

    @property
    def hopeless(self) -> bool:
        """Whether it failed to come up so often, or in such a way, that trying on is of no use."""
        return self.boot_failures >= (1 if self.returncode in _FOR_GOOD else BOOT_TRIES)

    def start(
        self, main: WorkerMain, plan: WorkerPlan, others: Iterable["Slot"], death_signal: signal.Signals, now_s: float
    ) -> ChildProcess:
        """Fork a worker into this slot.

        Args:
            main: What it runs; answers its exit code.
            plan: What it is to do.
            others: The slots whose boards are not for this worker's eyes.
            death_signal: What it gets when the supervisor dies.
            now_s: The time, for how long it is up.

        Raises:
            OSError: The system has no room for another process, or no descriptors.
        """
        ours, theirs = Link.pair()
        # A new board for each process: what the last one had begun must not look begun by this one.
        board = FlightBoard(tallies=MachineTallies(self._page, self.index))

        def run() -> int:
            for other in others:
                if other is not self and other.board is not None:
                    other.board.close()
            return main(self.index, plan, board, theirs)

        try:
            process = fork_child(run, keep=(theirs.fileno(),), death_signal=death_signal)
        except OSError:
            ours.close()
            board.close()
            raise
        finally:
            theirs.close()
        ours.set_timeout(0)
        self.board, self.link, self._process = board, ours, process
        self.state, self.started_s, self.reason = SlotState.BOOTING, now_s, ""
        return process

    def take_frames(self) -> list[Frame]:
        """What the worker said since the last call."""
        frames: list[Frame] = []
        with contextlib.suppress(BlockingIOError):
            while self.link is not None and (frame := self.link.receive()) is not None:
                if frame.kind is FrameKind.FAILED:
                    self.reason = frame.payload.decode("utf-8", "replace")[:REASON_MAX]
                frames.append(frame)
        return frames

    def tell(self, obituary: Obituary) -> bool:
        """Hand an obituary to the worker; answers whether it went out."""
        return self.link is not None and self.link.send(FrameKind.OBITUARY, obituary.to_bytes())

    def signal(self, number: signal.Signals) -> None:
        """Send the worker a signal, if one runs."""
        if self._process is not None:
            self._process.signal(number)

    def bury(self, returncode: int) -> tuple[bytes, list[bytes]] | None:
        """Put the dead worker's things away; answers its stamp and what it had begun, if it ever held anything."""
        board, self.board = self.board, None
        link, self.link = self.link, None
        self._process = None
        self.returncode = returncode
        if link is not None:
            link.close()
        if board is None:
            return None
        stamp, begun = board.stamp, board.snapshot()
        board.close()
        return None if stamp is None else (stamp, begun)
