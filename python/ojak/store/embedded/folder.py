# SPDX-License-Identifier: Apache-2.0
"""The embedded server's part of a data folder: its database, its socket, its log, and the address it answers at."""

import contextlib
import errno
import hashlib
import json
import os
import re
import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ojak.store.embedded.errors import EmbeddedMongodError
from ojak.store.embedded.lock import holder_of

# sun_path holds 108 bytes with its end; mongod takes a comma and a colon as separators, and the rest is not worth
# finding out.
SOCKET_PATH_MAX_BYTES = 100
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._+-]+")

# A fresh folder takes 301 MB before the first row: WiredTiger allocates three journal files of 100 MB ahead.
FRESH_MIN_BYTES = 400 * 1024 * 1024
FREE_MIN_BYTES = 64 * 1024 * 1024
LOG_KEEP = 3
LOG_ROTATE_BYTES = 16 * 1024 * 1024
CONNECT_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedFolder:
    """Where the embedded server keeps what it keeps, inside one data folder.

    Attributes:
        root: `<data folder>/mongod`, readable by its user alone.
        socket: The Unix socket that the server listens on; outside of `root` only where `root` cannot hold one.
    """

    root: Path
    socket: Path

    @property
    def database(self) -> Path:
        """The server's dbpath."""
        return self.root / "db"

    @property
    def log(self) -> Path:
        """The server's own log."""
        return self.root / "mongod.log"

    @property
    def output(self) -> Path:
        """What the server, or the loader before it, wrote to its standard streams."""
        return self.root / "mongod.out"

    @property
    def address(self) -> Path:
        """The file that says where a running server answers."""
        return self.root / "address.json"

    @property
    def url(self) -> str:
        """The MongoDB URL of the server on this folder."""
        return f"mongodb://{quote(str(self.socket), safe='')}/?directConnection=true"

    def publish(self) -> None:
        """Write the address file, whole or not at all, once the server takes writes."""
        draft = self.address.with_suffix(".new")
        draft.write_text(json.dumps({"url": self.url, "socket": str(self.socket)}) + "\n")
        draft.replace(self.address)

    def retract(self) -> None:
        """Remove the address file when the server has stopped."""
        self.address.unlink(missing_ok=True)

    def rotate_log(self) -> None:
        """Put a long log aside and keep the last few. Only while no server writes to it."""
        with contextlib.suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_ROTATE_BYTES:
                for number in range(LOG_KEEP - 1, 0, -1):
                    with contextlib.suppress(FileNotFoundError):
                        self.log.with_suffix(f".log.{number}").replace(self.log.with_suffix(f".log.{number + 1}"))
                self.log.replace(self.log.with_suffix(".log.1"))


def prepare_folder(data_dir: Path) -> EmbeddedFolder:
    """Make the folder ready for a server: there, private, with room on its disk and a socket path that works.

    Raises:
        EmbeddedMongodError: Says which of these fails.
    """
    root = data_dir.absolute() / "mongod"
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_own(root)
        root.chmod(0o700)
        (root / "db").mkdir(mode=0o700, exist_ok=True)
        free_bytes = os.statvfs(root).f_bavail * os.statvfs(root).f_frsize
    except OSError as error:
        raise EmbeddedMongodError(
            f"data folder {str(data_dir)!r} cannot be used: {error.strerror}; "
            "name a folder that this user can write with --data"
        ) from error
    needed_bytes = FREE_MIN_BYTES if (root / "db" / "WiredTiger").exists() else FRESH_MIN_BYTES
    if free_bytes < needed_bytes:
        raise EmbeddedMongodError(
            f"the disk of data folder {str(data_dir)!r} has {free_bytes // 2**20} MB left and the embedded MongoDB "
            f"needs {needed_bytes // 2**20} MB: free some, or name a folder on another disk with --data"
        )
    folder = EmbeddedFolder(root=root, socket=_socket_path(root))
    with contextlib.suppress(FileNotFoundError):
        mode = folder.socket.lstat().st_mode
        if not stat.S_ISSOCK(mode):
            raise EmbeddedMongodError(
                f"{str(folder.socket)!r} is where the embedded MongoDB listens and is no socket: move it away"
            )
    return folder


def embedded_url(data_dir: Path | str) -> str:
    """The MongoDB URL of the embedded server that runs on a data folder.

    Reads a file and knocks at the socket that it names; starts nothing.

    Raises:
        EmbeddedMongodError: None runs there; says so if a supervisor is about to start it.
    """
    file = Path(data_dir) / "mongod" / "address.json"
    wanted = f"start one with: ojak supervisor --data {str(data_dir)!r}, or give the URL of a MongoDB of your own"
    try:
        address = json.loads(file.read_bytes())
        url, path = str(address["url"]), str(address["socket"])
    except FileNotFoundError as error:
        _refuse_if_it_comes(Path(data_dir))
        raise EmbeddedMongodError(f"no embedded MongoDB runs on data folder {str(data_dir)!r}: {wanted}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbeddedMongodError(
            f"{str(file)!r} cannot be read as the address of an embedded MongoDB: {wanted}"
        ) from error
    if not is_listening(path):
        _refuse_if_it_comes(Path(data_dir))
        raise EmbeddedMongodError(f"the embedded MongoDB of data folder {str(data_dir)!r} has stopped: {wanted}")
    return url


def _refuse_if_it_comes(data_dir: Path) -> None:
    """Say that a server that does not answer is about to, since whoever runs it is there: he restarts one that dies."""
    holder = holder_of(data_dir)
    if holder is not None:
        raise EmbeddedMongodError(
            f"the embedded MongoDB of data folder {str(data_dir)!r} does not answer: process {holder} runs it, and is"
            f" starting, restarting or stopping it; try again in a moment. Its log is"
            f" {str(data_dir / 'mongod' / 'mongod.log')!r}"
        )


def is_listening(path: Path | str) -> bool:
    """Whether a server accepts connections on the Unix socket at `path`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
        knock.settimeout(CONNECT_TIMEOUT_S)
        try:
            knock.connect(str(path))
        except OSError:
            return False
    return True


def _socket_path(root: Path) -> Path:
    """`root`'s own socket, or one in a short private folder where `root` is too deep or cannot hold one."""
    inside = root / "mongod.sock"
    if _fits(inside) and _holds_sockets(root):
        return inside
    name = f"ojak-{os.geteuid()}-{hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]}"
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):  # noqa: S108 - a private folder is made in it
        path = Path(base or "/nonexistent") / name / "mongod.sock"
        if not _fits(path) or not path.parent.parent.is_dir():
            continue
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            continue
        _require_private(path.parent)
        if _holds_sockets(path.parent):
            return path
    raise EmbeddedMongodError(
        f"no place for the socket of the embedded MongoDB: the path of {str(root)!r} is longer than "
        f"{SOCKET_PATH_MAX_BYTES} bytes or its file system holds no sockets; name another folder with --data"
    )


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= SOCKET_PATH_MAX_BYTES and _PLAIN_PATH.fullmatch(str(path)) is not None


def _holds_sockets(folder: Path) -> bool:
    """Whether the file system takes a socket; network and shared-folder file systems often refuse one."""
    probe = folder / f".probe{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            server.bind(str(probe))
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EROFS, errno.ENOSPC}:
                raise
            return False
        probe.unlink()
    return True


def _require_own(folder: Path) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise EmbeddedMongodError(
            f"{str(folder)!r} is where the embedded MongoDB keeps its data and is no folder: move it away"
        )
    if status.st_uid != os.geteuid() and os.geteuid() != 0:
        raise EmbeddedMongodError(
            f"{str(folder)!r} belongs to user {status.st_uid} and this process runs as {os.geteuid()}: "
            "run as that user, or name another folder with --data"
        )


def _require_private(folder: Path) -> None:
    """In a folder that everybody can write to, somebody else may have made ours first."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise EmbeddedMongodError(
            f"{str(folder)!r} is where the embedded MongoDB listens, and it is not a folder of this user alone: "
            "remove it, or set XDG_RUNTIME_DIR to a private folder"
        )
