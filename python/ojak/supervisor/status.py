# SPDX-License-Identifier: Apache-2.0
"""`supervisor.json` in the data folder: which processes there are, for people, benches and service scripts."""

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

STATUS_FILE: Final = "supervisor.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """One worker's place."""

    worker: int
    state: str
    pid: int | None
    deaths: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorStatus:
    """The supervisor and its children.

    Attributes:
        pid: The supervisor.
        state: `starting`, `running` or `draining`.
        ready: Whether every worker is at work.
        mongod_pid: The embedded server, if there is one.
        embedded_url: Where that answers. The address of another MongoDB is not told: it may hold a password.
        workers: The workers' places.
        unburied: Deaths of workers that no worker has dealt with yet.
    """

    pid: int
    state: str
    ready: bool
    mongod_pid: int | None
    embedded_url: str | None
    workers: tuple[WorkerStatus, ...]
    unburied: int

    def write(self, data_dir: Path) -> None:
        """Replace the file, whole or not at all. A disk that is full does not stop the supervisor."""
        with contextlib.suppress(OSError):
            draft = data_dir / f".{STATUS_FILE}.new"
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with open(fd, "w") as stream:  # noqa: PTH123 - a path cannot be opened with a mode and no links followed
                json.dump(asdict(self), stream)
                stream.write("\n")
            draft.replace(data_dir / STATUS_FILE)


def remove_status(data_dir: Path) -> None:
    """The supervisor has ended."""
    with contextlib.suppress(OSError):
        (data_dir / STATUS_FILE).unlink(missing_ok=True)
