# SPDX-License-Identifier: Apache-2.0
"""The supervisor with its embedded server: together up, together down, and clear about what stands in the way."""

import os
import signal
import socket
from pathlib import Path

import pytest
from tests.fault.watch import Death, Watched

from ojak.store.embedded import EmbeddedMongodError, embedded_url

SUPERVISOR = ["-m", "ojak.supervisor"]


def test_nothing_outlives_a_killed_supervisor_by_two_seconds_and_the_folder_comes_up_again(tmp_path: Path) -> None:
    with Watched(tmp_path, mongod=True) as supervisor:
        supervisor.until("ready")
        status = supervisor.status()
        handles = [Death(status["mongod_pid"]), *(Death(worker["pid"]) for worker in status["workers"])]
        supervisor.process.kill()
        assert all(handle.within(2.0) for handle in handles)
        for handle in handles:
            handle.close()
        # At once, and from the journal.
        with Watched(tmp_path, mongod=True) as again:
            again.until("ready")
            again.process.send_signal(signal.SIGTERM)
            assert again.end() == 0


def test_a_killed_server_is_started_again_under_its_workers(tmp_path: Path) -> None:
    with Watched(tmp_path, mongod=True) as supervisor:
        supervisor.until("ready")
        before = supervisor.status()
        os.kill(before["mongod_pid"], signal.SIGKILL)
        assert supervisor.until("embedded MongoDB died")["end"] == "killed by SIGKILL"
        pid = supervisor.until("embedded MongoDB started")["pid"]
        after = supervisor.status()
        assert after["mongod_pid"] == pid
        assert [worker["pid"] for worker in after["workers"]] == [worker["pid"] for worker in before["workers"]]
        supervisor.process.send_signal(signal.SIGTERM)
        assert supervisor.end() == 0


def test_a_signal_to_the_group_drains_the_workers_before_their_server_stops(tmp_path: Path) -> None:
    with Watched(tmp_path, mongod=True) as supervisor:
        supervisor.until("ready")
        assert embedded_url(tmp_path) == supervisor.status()["embedded_url"]
        os.killpg(supervisor.process.pid, signal.SIGINT)
        assert supervisor.end() == 0
        order = [line for line in supervisor.lines if "worker left" in line or "MongoDB stopped" in line]
        assert "MongoDB stopped" in order[-1]
        assert len(order) == 3
        with pytest.raises(EmbeddedMongodError, match="no embedded MongoDB runs"):
            embedded_url(tmp_path)


def test_a_signal_while_it_starts_ends_it(tmp_path: Path) -> None:
    with Watched(tmp_path, mongod=True) as supervisor:
        pid = supervisor.until("embedded MongoDB started")["pid"]
        handle = Death(pid)
        supervisor.process.send_signal(signal.SIGTERM)
        assert supervisor.end() == 0
        assert handle.within(0)
        handle.close()


def test_a_server_that_cannot_start_is_explained(tmp_path: Path) -> None:
    program = tmp_path / "mongod"
    program.write_text(
        "#!/bin/sh\necho 'x: error while loading shared libraries: libfoo.so: no such file' >&2\nexit 127\n"
    )
    program.chmod(0o755)
    command = [*SUPERVISOR, "--data", str(tmp_path / "d"), "--mongod", str(program)]
    with Watched(tmp_path, command) as supervisor:
        assert supervisor.end() == 5
        assert supervisor.lines[-1].startswith(
            "ojak: the embedded MongoDB needs libfoo.so, which this system does not have"
        )
    assert not [line for line in supervisor.lines if "Traceback" in line]


def test_a_database_that_is_not_there_is_named(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        command = [*SUPERVISOR, "--data", str(tmp_path), "--mongo-url", f"mongodb://me:hush@127.0.0.1:{port}"]
        with Watched(tmp_path, command) as supervisor:
            assert supervisor.end() == 6
            assert supervisor.lines[-1].startswith(f"ojak: MongoDB did not answer (127.0.0.1:{port}")
            assert "hush" not in "".join(supervisor.lines)


@pytest.mark.parametrize(
    ("flags", "env", "line"),
    [
        (["--workers", "0"], {}, "ojak: --workers is '0'; allowed is a whole number from 1 to 256"),
        ([], {"OJAK_PER_HOST": "99"}, "ojak: OJAK_PER_HOST is 99; allowed is 1 to 64 deliveries at a time to one host"),
        (
            ["--config", "/none.toml"],
            {},
            "ojak: configuration file '/none.toml' is not there; allowed is a readable TOML file",
        ),
        (["--keys", "/none"], {}, "ojak: keys is '/none', which is not there; allowed is one that exists"),
        (["--mongo-url", "http://me:hush@x"], {}, "ojak: mongo_url is "),
    ],
)
def test_a_mistake_in_the_settings_is_one_line(
    tmp_path: Path, flags: list[str], env: dict[str, str], line: str
) -> None:
    with Watched(tmp_path, [*SUPERVISOR, "--data", str(tmp_path / "d"), *flags], env) as supervisor:
        assert supervisor.end() == 2
        assert len(supervisor.lines) == 1
        assert supervisor.lines[0].startswith(line)
        assert "hush" not in supervisor.lines[0]


def test_help_and_version_are_answers_and_no_failure(tmp_path: Path) -> None:
    for flag, answer in (("--help", b"OJAK_MONGO_URL"), ("--version", b"ojak ")):
        with Watched(tmp_path, [*SUPERVISOR, flag]) as supervisor:
            assert supervisor.end() == 0
            assert supervisor.process.stdout is not None
            assert answer in supervisor.process.stdout.read()
