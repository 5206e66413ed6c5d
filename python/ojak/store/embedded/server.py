# SPDX-License-Identifier: Apache-2.0
"""A server for the length of a `with` block: what tests and short programs use; the supervisor spawns its own."""

import ctypes
import fcntl
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ojak.store.embedded.command import CACHE_GB, mongod_command, mongod_environment
from ojak.store.embedded.errors import EmbeddedMongodError
from ojak.store.embedded.folder import EmbeddedFolder, prepare_folder
from ojak.store.embedded.lock import FolderLock
from ojak.store.embedded.wheel import find_mongod

STOP_TIMEOUT_S = 30.0
LEFTOVER_TIMEOUT_S = 5.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedServer:
    """A running embedded server.

    Attributes:
        url: Its MongoDB URL.
        pid: Its process.
        data_dir: The data folder it runs on; a `Deliverer` takes this as well as the URL.
    """

    url: str
    pid: int
    data_dir: Path


@contextmanager
def embedded_mongod(
    data_dir: Path | str, *, program: Path | None = None, cache_gb: float = CACHE_GB
) -> Iterator[EmbeddedServer]:
    """Run an embedded server on `data_dir` while the block runs; it dies with this thread's process, however that ends.

    Call it from a thread that outlives the block: the kernel ties the server to the thread that starts it.

    Args:
        data_dir: The data folder; made if it is not there.
        program: A mongod to run instead of the wheel's.
        cache_gb: WiredTiger's cache in GB, at least 0.25.

    Raises:
        FolderInUse: Another server or supervisor runs on the folder.
        EmbeddedMongodError: What stands in the way.
    """
    # Late, so that whoever only names this module does not load the database driver.
    from ojak.store.embedded.replica import await_primary  # noqa: PLC0415

    data_dir = Path(data_dir)
    with FolderLock(data_dir):
        program = find_mongod(program)
        folder = prepare_folder(data_dir)
        await_leftover(folder)
        folder.rotate_log()
        process = _start(mongod_command(program, folder, cache_gb=cache_gb), folder)
        try:
            with os.fdopen(os.pidfd_open(process.pid)) as pidfd:

                def ended(timeout_s: float) -> int | None:
                    return process.wait() if select.select([pidfd], [], [], timeout_s)[0] else None

                await_primary(folder, ended)
                folder.publish()
                try:
                    yield EmbeddedServer(url=folder.url, pid=process.pid, data_dir=data_dir)
                finally:
                    folder.retract()
                    process.send_signal(signal.SIGTERM)
                    ended(STOP_TIMEOUT_S)
        finally:
            process.kill()
            process.wait()


def await_leftover(folder: EmbeddedFolder, *, timeout_s: float = LEFTOVER_TIMEOUT_S) -> None:
    """Wait until a server whose supervisor was just killed has let go of the database.

    Raises:
        EmbeddedMongodError: A living server holds it for longer; the message names its pid.
    """
    deadline = time.monotonic() + timeout_s
    file = folder.database / "mongod.lock"
    while True:
        try:
            with file.open("rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            holder = file.read_text("ascii", "replace").strip() or "unknown"
            raise EmbeddedMongodError(
                f"another mongod (process {holder}) runs on {str(folder.database)!r}: stop it, "
                "or name another folder with --data"
            ) from None
        return


def _start(command: list[str], folder: EmbeddedFolder) -> subprocess.Popen[bytes]:
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def bind_to_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    try:
        with folder.output.open("wb") as output:
            return subprocess.Popen(  # noqa: S603 - the program is the wheel's or the operator's, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=mongod_environment(),
                # A terminal's Ctrl-C goes to the whole group; the server ends after its clients.
                start_new_session=True,
                preexec_fn=bind_to_parent,  # noqa: PLW1509 - two system calls, nothing that locks
            )
    except OSError as error:
        raise EmbeddedMongodError(f"mongod program {command[0]!r} cannot be run here: {error.strerror}") from error
