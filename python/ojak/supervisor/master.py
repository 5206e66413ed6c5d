# SPDX-License-Identifier: Apache-2.0
"""The supervisor's own process, from its first child to its last. Standard library and pure modules.

```
STARTING ── plan, lock, mongod, set up ──► RUNNING ── TERM ──► DRAINING ── workers gone ──► CLOSING ── mongod gone
```
"""

import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from ojak.clock import Clock, SystemClock
from ojak.store.embedded.errors import EmbeddedMongodError, FolderInUse
from ojak.store.embedded.lock import FolderLock
from ojak.supervisor.exits import ExitCode, describe_end
from ojak.supervisor.fleet import Fleet
from ojak.supervisor.frames import FrameKind, Link, pack_number
from ojak.supervisor.lines import log_lines, say
from ojak.supervisor.mongod import Mongod
from ojak.supervisor.plan import MongodPlan, SupervisorPlan
from ojak.supervisor.poll import Poller
from ojak.supervisor.process import ChildProcess, fork_child, reap_orphans
from ojak.supervisor.signals import STOPPING, SignalInbox
from ojak.supervisor.slot import WorkerMain
from ojak.supervisor.status import SupervisorStatus, WorkerStatus, remove_status

log: Final = logging.getLogger(__name__)

PreflightMain = Callable[[list[str], Link], int]

DRAIN_GRACE_S: Final = 5.0
SAME_WISH_S: Final = 1.0
"""Two signals so close together are one wish: some senders signal the process and then its whole group."""


class Stage(StrEnum):
    """What the supervisor is doing."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    CLOSING = "closing"
    OVER = "over"


class Master:
    """The supervisor.

    Args:
        argv: The command line after the program's name, for preflight to read.
        preflight: What the first child runs.
        worker: What each worker runs.
        clock: The time.
    """

    def __init__(
        self, *, argv: list[str], preflight: PreflightMain, worker: WorkerMain, clock: Clock | None = None
    ) -> None:
        self._argv = argv
        self._preflight_main = preflight
        self._worker_main = worker
        self._clock = clock or SystemClock()
        self._signals = SignalInbox()
        # A signal to the whole group reaches this process and its workers at once. It is taken before their ends are,
        # or a worker that is quick to leave would seem to have died.
        self._poller = Poller(self._clock, self._take_signals)
        self._stage = Stage.STARTING
        self._exit = ExitCode.OK
        self._asked_s: float | None = None
        self._said_ready = False
        self._plan: SupervisorPlan | None = None
        self._lock: FolderLock | None = None
        self._preflight: ChildProcess | None = None
        self._preflight_link: Link | None = None
        self._set_up_url: str | None = None
        self._mongod: Mongod | None = None
        self._fleet: Fleet | None = None

    def run(self) -> int:
        """Run until everything has ended; answers the exit code."""
        self._poller.watch(self._signals.fileno(), self._take_signals)
        try:
            self._start_preflight()
            while self._stage is not Stage.OVER:
                self._poller.turn()
                reap_orphans(self._own_pids())
        finally:
            if self._plan is not None and self._lock is not None:
                remove_status(Path(self._plan.data_dir))
                self._lock.close()
            self._poller.close()
            self._signals.close()
        return int(self._exit)

    # Start.

    def _start_preflight(self) -> None:
        ours, theirs = Link.pair()
        child = fork_child(
            lambda: self._preflight_main(self._argv, theirs), keep=(theirs.fileno(),), death_signal=signal.SIGKILL
        )
        theirs.close()
        ours.set_timeout(0)
        self._preflight, self._preflight_link = child, ours
        self._poller.watch(ours.fileno(), self._hear_preflight)
        self._poller.watch(child.pidfd, self._preflight_died)

    def _hear_preflight(self) -> None:
        link = self._preflight_link
        if link is None:
            return
        with suppress(BlockingIOError):
            while (frame := link.receive()) is not None:
                if frame.kind is FrameKind.PLAN:
                    self._take_plan(SupervisorPlan.from_bytes(frame.payload))
                elif frame.kind is FrameKind.MONGOD:
                    self._start_mongod(MongodPlan.from_bytes(frame.payload))
                elif frame.kind is FrameKind.SET_UP:
                    self._set_up_url = frame.payload.decode()
            self._poller.unwatch(link.fileno())

    def _take_plan(self, plan: SupervisorPlan) -> None:
        log_lines(plan.worker.log_level, plan.worker.log_format)
        self._plan = plan
        try:
            self._lock = FolderLock(Path(plan.data_dir))
        except EmbeddedMongodError as error:
            say(str(error))
            self._end(ExitCode.FOLDER_IN_USE if isinstance(error, FolderInUse) else ExitCode.FAILURE)
            return
        if self._preflight_link is not None:
            self._preflight_link.send(FrameKind.LOCKED)
        self._write_status()

    def _start_mongod(self, plan: MongodPlan) -> None:
        self._mongod = Mongod(
            plan=plan,
            clock=self._clock,
            poller=self._poller,
            noted=self._write_status,
            ended=self._mongod_ended,
            stopped=self._over,
            given_up=self._mongod_given_up,
        )
        self._mongod.start()

    def _preflight_died(self) -> None:
        child = self._preflight
        if child is None:
            return
        self._poller.unwatch(child.pidfd)
        self._hear_preflight()
        code = child.reap()
        if code is None:
            self._poller.watch(child.pidfd, self._preflight_died)
            return
        self._preflight = None
        if self._preflight_link is not None:
            self._poller.unwatch(self._preflight_link.fileno())
            self._preflight_link.close()
            self._preflight_link = None
        if self._stage is not Stage.STARTING:
            self._close_mongod()
        elif code != 0 or self._plan is None or self._set_up_url is None:
            # It has said why, or has answered a question such as --help.
            self._end(_as_exit(code))
        else:
            self._start_fleet(self._plan, self._set_up_url)

    def _start_fleet(self, plan: SupervisorPlan, url: str) -> None:
        self._stage = Stage.RUNNING
        if self._mongod is not None:
            self._mongod.mark_up()
        self._fleet = Fleet(
            size=plan.workers,
            main=self._worker_main,
            clock=self._clock,
            poller=self._poller,
            noted=self._write_status,
            changed=self._fleet_changed,
        )
        self._fleet.start(replace(plan.worker, mongo_url=url))

    # Running.

    def _fleet_changed(self) -> None:
        fleet = self._fleet
        if fleet is None:
            return
        self._write_status()
        if fleet.draining:
            if fleet.living == 0:
                self._close_mongod()
            return
        if fleet.ready and not self._said_ready:
            self._said_ready = True
            log.info("ready", extra={"pid": os.getpid(), "workers": len(fleet.slots)})
        hopeless = fleet.hopeless
        if hopeless is not None:
            code = _as_exit(hopeless.returncode)
            for_good = code in {ExitCode.USAGE, ExitCode.APP}
            reason = hopeless.reason or describe_end(hopeless.returncode)
            say(f"no worker comes up: {reason}")
            self._end(code if for_good else ExitCode.BOOT_LOOP)

    def _mongod_ended(self, returncode: int) -> None:
        if self._preflight_link is not None:
            # Preflight waits for it and can read what it left behind.
            self._preflight_link.send(FrameKind.MONGOD_ENDED, pack_number(returncode))
        self._write_status()

    def _mongod_given_up(self) -> None:
        say("the embedded MongoDB does not stay up; its log says why")
        self._end(ExitCode.MONGOD)

    # Stopping.

    def _take_signals(self) -> None:
        for number in self._signals.take():
            if number in STOPPING:
                self._stop_wish(number)

    def _stop_wish(self, number: signal.Signals) -> None:
        now_s = self._clock.boot_s()
        if self._asked_s is None:
            self._asked_s = now_s
            log.info("draining", extra={"signal": number.name})
            self._drain()
        elif now_s - self._asked_s > SAME_WISH_S:
            log.warning("forced to stop", extra={"signal": number.name})
            self._force()

    def _drain(self) -> None:
        if self._stage is Stage.STARTING:
            self._end(ExitCode.OK)
            return
        if self._stage is Stage.RUNNING:
            self._drain_fleet()

    def _drain_fleet(self) -> None:
        assert self._fleet is not None
        assert self._plan is not None
        self._stage = Stage.DRAINING
        self._poller.after(self._plan.worker.config.drain_s + DRAIN_GRACE_S, self._drain_is_over)
        self._fleet.drain()

    def _drain_is_over(self) -> None:
        if self._fleet is not None and self._fleet.living:
            log.warning("drain took too long", extra={"workers": self._fleet.living})
            self._exit = self._exit or ExitCode.FORCED
            self._fleet.kill()

    def _force(self) -> None:
        if self._fleet is not None and self._fleet.living:
            self._exit = self._exit or ExitCode.FORCED
            self._fleet.kill()
        elif self._stage is Stage.CLOSING and self._mongod is not None and self._asked_s is not None:
            self._mongod.kill()

    def _end(self, code: ExitCode) -> None:
        """End for a reason of our own, or before anything runs."""
        self._exit = code
        if self._stage in {Stage.DRAINING, Stage.CLOSING, Stage.OVER}:
            return
        if self._stage is Stage.RUNNING:
            self._drain_fleet()
            return
        self._stage = Stage.DRAINING
        if self._preflight is not None:
            self._preflight.signal(signal.SIGKILL)
        else:
            self._close_mongod()

    def _close_mongod(self) -> None:
        if self._stage in {Stage.CLOSING, Stage.OVER}:
            return
        self._stage = Stage.CLOSING
        self._write_status()
        if self._mongod is None:
            self._over()
        else:
            self._mongod.stop()

    def _over(self) -> None:
        self._stage = Stage.OVER

    # What others see.

    def _own_pids(self) -> frozenset[int]:
        pids = {self._preflight.pid if self._preflight else None, self._mongod.pid if self._mongod else None}
        return frozenset(pid for pid in pids if pid is not None) | (self._fleet.pids if self._fleet else frozenset())

    def _write_status(self) -> None:
        if self._plan is None or self._lock is None:
            return
        fleet, mongod = self._fleet, self._mongod
        SupervisorStatus(
            pid=os.getpid(),
            state=str(self._stage),
            ready=self._stage is Stage.RUNNING and fleet is not None and fleet.ready,
            mongod_pid=mongod.pid if mongod else None,
            embedded_url=mongod.url if mongod else None,
            workers=tuple(
                WorkerStatus(
                    worker=slot.index,
                    state=str(slot.state),
                    pid=slot.process.pid if slot.process else None,
                    deaths=slot.deaths,
                )
                for slot in (fleet.slots if fleet else ())
            ),
            unburied=fleet.unburied if fleet else 0,
        ).write(Path(self._plan.data_dir))


def _as_exit(code: int) -> ExitCode:
    try:
        return ExitCode(code)
    except ValueError:
        return ExitCode.FAILURE
