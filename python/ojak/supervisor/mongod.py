# SPDX-License-Identifier: Apache-2.0
"""The embedded server as a child of the supervisor: started first, stopped last, started again when it dies.

Standard library and pure modules.
"""

import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ojak.clock import Clock
from ojak.supervisor.exits import ExitCode, describe_end
from ojak.supervisor.plan import MongodPlan
from ojak.supervisor.poll import Poller, Timer
from ojak.supervisor.process import ChildProcess, exec_child
from ojak.supervisor.restart import RestartDelay

log: Final = logging.getLogger(__name__)

STOP_S: Final = 30.0
TRIES: Final = 5
STEADY_S: Final = 60.0
LOG_LOOK_S: Final = 600.0
LOG_MAX_BYTES: Final = 64 * 1024 * 1024


class Mongod:
    """The embedded server's process.

    Args:
        plan: How it is run.
        clock: For how long it is up.
        poller: Where it is watched.
        noted: Called when it has started, before that is logged.
        ended: Called with its exit code each time it ends by itself, before it is started again.
        stopped: Called once it has stopped as it was asked to.
        given_up: Called when it does not stay up.
    """

    def __init__(
        self,
        *,
        plan: MongodPlan,
        clock: Clock,
        poller: Poller,
        noted: Callable[[], None],
        ended: Callable[[int], None],
        stopped: Callable[[], None],
        given_up: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._poller = poller
        self._noted = noted
        self._ended = ended
        self._stopped = stopped
        self._given_up = given_up
        self._process: ChildProcess | None = None
        self._started_s = 0.0
        self._delay = RestartDelay()
        self._failures = 0
        self._stopping = False
        self._up = False
        self._timer: Timer | None = None

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""
        return self._process.pid if self._process else None

    @property
    def url(self) -> str:
        """Where it answers."""
        return self._plan.url

    def start(self) -> None:
        """Run it."""
        self._started_s = self._clock.boot_s()
        try:
            self._process = exec_child(self._plan.command, self._plan.environment, Path(self._plan.output))
        except OSError as error:
            log.error("embedded MongoDB cannot be forked", extra={"reason": error.strerror})  # noqa: TRY400 - no trace
            self._start_again(int(ExitCode.FAILURE))
            return
        self._poller.watch(self._process.pidfd, self._died)
        self._noted()
        log.info("embedded MongoDB started", extra={"pid": self._process.pid})

    def mark_up(self) -> None:
        """It has come up; from now on it is started again when it dies."""
        self._up = True
        self._poller.after(LOG_LOOK_S, self._look_at_log)

    def stop(self) -> None:
        """Ask it to stop, now that nobody uses it; it is killed if it takes over half a minute."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        if self._process is None:
            self._leave()
            return
        self._process.signal(signal.SIGTERM)
        self._poller.after(STOP_S, self.kill)

    def kill(self) -> None:
        """End it at once; its journal keeps what was acknowledged."""
        if self._process is not None:
            self._process.signal(signal.SIGKILL)

    def _died(self) -> None:
        assert self._process is not None
        self._poller.unwatch(self._process.pidfd)
        returncode = self._process.reap()
        if returncode is None:
            self._poller.watch(self._process.pidfd, self._died)
            return
        self._process = None
        if self._stopping:
            log.info("embedded MongoDB stopped", extra={"end": describe_end(returncode)})
            self._leave()
            return
        self._ended(returncode)
        if self._up:
            self._start_again(returncode)

    def _start_again(self, returncode: int) -> None:
        up_s = self._clock.boot_s() - self._started_s
        self._failures = 1 if up_s >= STEADY_S else self._failures + 1
        if self._failures >= TRIES:
            self._given_up()
            return
        delay_s = self._delay.next_s(up_s)
        self._timer = self._poller.after(delay_s, self.start)
        log.error(
            "embedded MongoDB died",
            extra={"end": describe_end(returncode), "log": self._plan.log, "restart_in_s": delay_s},
        )

    def _leave(self) -> None:
        Path(self._plan.address).unlink(missing_ok=True)
        self._stopped()

    def _look_at_log(self) -> None:
        if self._process is not None and not self._stopping:
            file = Path(self._plan.log)
            if file.exists() and file.stat().st_size > LOG_MAX_BYTES:
                file.replace(file.with_suffix(".log.1"))
                # It was told to open its log anew on this signal.
                self._process.signal(signal.SIGUSR1)
        self._poller.after(LOG_LOOK_S, self._look_at_log)
