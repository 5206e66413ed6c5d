# SPDX-License-Identifier: Apache-2.0
"""Runs a supervisor as a process and waits for what it says, with a deadline and never by sleeping."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

DEADLINE_S = 20.0
STAND_IN = Path(__file__).with_name("stand_in.py")


class Watched:
    """A supervisor process, its log lines and its status file."""

    def __init__(
        self,
        data: Path,
        command: list[str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        **options: object,
    ) -> None:
        self.data = data
        arguments = command or [str(STAND_IN), json.dumps({"data": str(data), **options})]
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._read = b""
        assert self.process.stderr is not None
        os.set_blocking(self.process.stderr.fileno(), False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stderr, self.process.stdout):
            assert stream is not None
            stream.close()
        if error is not None:
            sys.stdout.write("\n".join(self.lines))

    def until(self, event: str, **fields: object) -> dict[str, Any]:
        """Wait for a log line with this event and these fields; lines before it are taken."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            while b"\n" in self._read:
                line, _, self._read = self._read.partition(b"\n")
                self.lines.append(line.decode())
                try:
                    entry: dict[str, Any] = json.loads(line)
                except ValueError:
                    continue
                if entry.get("event") == event and all(entry.get(name) == value for name, value in fields.items()):
                    return entry
            self._read += self._more(deadline, event)

    def end(self) -> int:
        """Wait for the process to end; its exit code."""
        deadline = time.monotonic() + DEADLINE_S
        death = Death(self.process.pid)
        assert death.within(max(0, deadline - time.monotonic())), "it does not end"
        death.close()
        assert self.process.stderr is not None
        while more := self.process.stderr.read():
            self._read += more
        self.lines += self._read.decode().splitlines()
        return self.process.wait()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.data / "supervisor.json").read_bytes())
        return found

    def worker(self, index: int) -> int:
        return int(self.status()["workers"][index]["pid"])

    def told(self, event: str) -> list[dict[str, Any]]:
        """What the workers wrote down."""
        lines = (self.data / "events").read_text().splitlines()
        return [entry for entry in map(json.loads, lines) if entry["event"] == event]

    def _more(self, deadline: float, event: str) -> bytes:
        assert self.process.stderr is not None
        stream = self.process.stderr
        assert select.select([stream], [], [], max(0, deadline - time.monotonic()))[0], f"no {event!r} in time"
        more = stream.read()
        assert more, f"it ended without {event!r}"
        return bytes(more)


class Death:
    """Knows a process by a handle, so that its end can be waited for though it is nobody's child here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._pidfd = os.pidfd_open(pid)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        signal.pidfd_send_signal(self._pidfd, number)

    def within(self, seconds: float) -> bool:
        """Whether it is dead, or dies within that time."""
        return bool(select.select([self._pidfd], [], [], seconds)[0])

    def close(self) -> None:
        os.close(self._pidfd)
