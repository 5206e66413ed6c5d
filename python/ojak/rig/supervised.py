# SPDX-License-Identifier: Apache-2.0
"""A supervisor as a child process, as an operator would start it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ojak.errors import OjakError
from ojak.rig.cpu import cpu_time

_START_S: Final = 60.0
_STOP_S: Final = 60.0
_LOOK_S: Final = 0.02
_LAST_LINES: Final = 12


class SupervisorFailed(OjakError):
    """The supervisor did not start, or ended by itself; with its own last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCpu:
    """CPU time by sort of process, in seconds.

    Attributes:
        workers: of all workers, those that have died included.
        mongod: of the embedded server; 0 where there is none.
        supervisor: of the supervisor itself.
    """

    workers: float
    mongod: float
    supervisor: float

    def since(self, earlier: "FleetCpu") -> "FleetCpu":
        """What was spent since an earlier reading."""
        return FleetCpu(
            workers=self.workers - earlier.workers,
            mongod=self.mongod - earlier.mongod,
            supervisor=self.supervisor - earlier.supervisor,
        )


class Supervised:
    """A supervisor that runs.

    Attributes:
        data_dir: its data folder.
        pid: its process.
    """

    def __init__(self, data_dir: Path, process: subprocess.Popen[bytes], log: Path) -> None:
        self.data_dir = data_dir
        self.pid = process.pid
        self._process = process
        self._log = log

    def worker_pids(self) -> list[int]:
        """The workers that live now."""
        return [worker["pid"] for worker in self._status().get("workers", ()) if worker["pid"]]

    def cpu(self) -> FleetCpu:
        """CPU time up to now."""
        status = self._status()
        supervisor = cpu_time(self.pid)
        mongod = cpu_time(status["mongod_pid"]) if status.get("mongod_pid") else None
        living = [cpu_time(worker["pid"]) for worker in status.get("workers", ()) if worker["pid"]]
        return FleetCpu(
            # Whoever died was reaped by the supervisor, and so was the preflight, which is in every reading alike.
            workers=sum(time.own_s for time in living if time) + (supervisor.reaped_s if supervisor else 0.0),
            mongod=mongod.own_s if mongod else 0.0,
            supervisor=supervisor.own_s if supervisor else 0.0,
        )

    def check(self) -> None:
        """See that it runs.

        Raises:
            SupervisorFailed: it has ended.
        """
        if self._process.poll() is not None:
            raise SupervisorFailed(
                f"the supervisor ended with exit code {self._process.returncode}:\n{self._last_words()}"
            )

    def await_ready(self) -> None:
        """Wait until every worker is at work.

        Raises:
            SupervisorFailed: it ended, or is not ready in time.
        """
        deadline_s = time.monotonic() + _START_S
        while not self._status().get("ready"):
            self.check()
            if time.monotonic() > deadline_s:
                raise SupervisorFailed(f"the supervisor was not ready within {_START_S:g} s:\n{self._last_words()}")
            time.sleep(_LOOK_S)

    def stop(self) -> int:
        """Drain and end it; gives its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _status(self) -> dict[str, Any]:
        try:
            status = json.loads((self.data_dir / "supervisor.json").read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return status if isinstance(status, dict) else {}

    def _last_words(self) -> str:
        try:
            return "\n".join(self._log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:])
        except OSError:
            return ""


@contextmanager
def running_supervisor(data_dir: Path, flags: Sequence[str], *, log: Path) -> Iterator[Supervised]:
    """Run a supervisor on a data folder until the block ends, and yield it once all its workers are at work.

    Args:
        data_dir: its data folder.
        flags: further flags.
        log: where its log goes.

    Raises:
        SupervisorFailed: it did not start; with its own last words.
    """
    # What the operator has set for his own queue is none of this one's business.
    own = {name: value for name, value in os.environ.items() if not name.startswith("OJAK_")}
    config = log.with_name("ojak.toml")
    config.write_text("# The settings of this run are flags.\n", "utf-8")
    with log.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
            [
                *(sys.executable, "-m", "ojak.rig.tied", str(os.getpid())),
                *("--config", str(config), "--data", str(data_dir), *flags),
            ],
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    supervised = Supervised(data_dir, process, log)
    try:
        supervised.await_ready()
        yield supervised
    finally:
        supervised.stop()
