# SPDX-License-Identifier: Apache-2.0
"""One owner for a data folder: an advisory lock that ends with its holder, however that dies."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from ojak.store.embedded.errors import EmbeddedMongodError, FolderInUse

LOCK_FILE = "lock"


def holder_of(data_dir: Path) -> int | None:
    """The process that runs on a data folder, or None. Never in the way of one that starts."""
    try:
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        holder = _pid_in(descriptor)
        # First whether it lives: only a lock that is held for certain is tried, since to get it would be to hold it.
        if holder is None or not Path(f"/proc/{holder}").exists():
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return holder
    except OSError:
        return None
    finally:
        os.close(descriptor)
    # A number that another process has by now.
    return None


def _pid_in(descriptor: int) -> int | None:
    text = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
    return int(text) if text.isascii() and text.isdigit() else None


class FolderLock:
    """The exclusive right to run on a data folder.

    The lock belongs to an open file, so the kernel drops it when the holder dies; a stale file with a dead pid in it
    never stands in the way. The descriptor is inherited by forked children unless they close it (`fileno`).

    Args:
        data_dir: The data folder; made (0700) if it is not there.

    Raises:
        FolderInUse: Another process holds it; the message names its pid.
        EmbeddedMongodError: The folder cannot be made or written.
    """

    def __init__(self, data_dir: Path) -> None:
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise EmbeddedMongodError(
                f"data folder {str(data_dir)!r} cannot be used: {error.strerror}; "
                "name a folder that this user can write with --data"
            ) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _pid_in(self._fd) or "unknown"
            os.close(self._fd)
            raise FolderInUse(
                f"data folder {str(data_dir)!r} is in use by process {holder}; "
                "stop that one, or name another folder with --data"
            ) from error
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def fileno(self) -> int:
        """The descriptor that carries the lock."""
        return self._fd

    def close(self) -> None:
        """Give the folder free. Calling it again does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
