# SPDX-License-Identifier: Apache-2.0
"""The supervisor with workers that are killed, fail, hang, and are asked to leave."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.fault.watch import STAND_IN, Death, Watched

BEGUN = [bytes([number]).hex() * 16 for number in range(3)]


@contextmanager
def deaths(*pids: int) -> Iterator[list[Death]]:
    handles = [Death(pid) for pid in pids]
    try:
        yield handles
    finally:
        for handle in handles:
            handle.close()


def test_a_killed_worker_is_announced_to_a_living_one_and_started_again(tmp_path: Path) -> None:
    with Watched(tmp_path) as supervisor:
        supervisor.until("ready")
        victim = supervisor.worker(0)
        os.kill(victim, signal.SIGKILL)
        died = supervisor.until("worker died", worker=0)
        assert died["end"] == "killed by SIGKILL"
        assert died["begun"] == 3
        supervisor.until("obituary dealt with", worker=1)
        supervisor.until("worker ready", worker=0)
        assert supervisor.told("bury") == [
            {"event": "bury", "pid": supervisor.worker(1), "stamp": f"{victim:032x}", "begun": BEGUN}
        ]
        status = supervisor.status()
        assert status["workers"][0]["deaths"] == 1
        assert status["unburied"] == 0
        supervisor.process.send_signal(signal.SIGTERM)
        assert supervisor.end() == 0


def test_the_only_worker_killed_is_announced_to_its_successor(tmp_path: Path) -> None:
    with Watched(tmp_path, workers=1) as supervisor:
        supervisor.until("ready")
        victim = supervisor.worker(0)
        os.kill(victim, signal.SIGKILL)
        supervisor.until("worker died", worker=0)
        supervisor.until("obituary dealt with", worker=0)
        assert [entry["stamp"] for entry in supervisor.told("bury")] == [f"{victim:032x}"]


def test_an_obituary_whose_carrier_dies_too_goes_to_the_next(tmp_path: Path) -> None:
    with Watched(tmp_path) as supervisor:
        supervisor.until("ready")
        first, second = supervisor.worker(0), supervisor.worker(1)
        # The carrier is stopped, so that it holds the notice and cannot deal with it.
        os.kill(second, signal.SIGSTOP)
        os.kill(first, signal.SIGKILL)
        supervisor.until("worker died", worker=0)
        os.kill(second, signal.SIGKILL)
        supervisor.until("worker died", worker=1)
        supervisor.until("obituary dealt with")
        supervisor.until("obituary dealt with")
        assert {entry["stamp"] for entry in supervisor.told("bury")} == {f"{first:032x}", f"{second:032x}"}


def test_one_term_drains(tmp_path: Path) -> None:
    with Watched(tmp_path) as supervisor:
        supervisor.until("ready")
        supervisor.process.send_signal(signal.SIGTERM)
        assert supervisor.end() == 0
        assert len(supervisor.told("stop")) == 2
        assert not (tmp_path / "supervisor.json").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_whole_group_and_to_the_supervisor_is_one_drain(tmp_path: Path, number: signal.Signals) -> None:
    with Watched(tmp_path) as supervisor:
        supervisor.until("ready")
        supervisor.process.send_signal(number)
        os.killpg(supervisor.process.pid, number)
        assert supervisor.end() == 0
        assert len(supervisor.told("stop")) == 2
        assert not [line for line in supervisor.lines if "died" in line or "forced" in line]


def test_a_second_signal_forces(tmp_path: Path) -> None:
    with Watched(tmp_path, behaviour="hang") as supervisor:
        supervisor.until("ready")
        supervisor.process.send_signal(signal.SIGTERM)
        supervisor.until("draining")
        # A signal is a second wish from a second after the first on.
        with deaths(supervisor.process.pid) as [process]:
            assert not process.within(1.1)
        supervisor.process.send_signal(signal.SIGINT)
        assert supervisor.end() == 8
        assert any("forced to stop" in line for line in supervisor.lines)


def test_a_drain_that_takes_too_long_ends_in_a_kill(tmp_path: Path) -> None:
    with Watched(tmp_path, behaviour="hang", drain_s=0.0, grace_s=0.2) as supervisor:
        supervisor.until("ready")
        with deaths(supervisor.worker(0), supervisor.worker(1)) as workers:
            supervisor.process.send_signal(signal.SIGTERM)
            assert supervisor.end() == 8
            assert all(worker.within(0) for worker in workers)


def test_no_worker_outlives_a_killed_supervisor_for_long(tmp_path: Path) -> None:
    with Watched(tmp_path) as supervisor:
        supervisor.until("ready")
        with deaths(supervisor.worker(0), supervisor.worker(1)) as workers:
            supervisor.process.kill()
            assert all(worker.within(2.0) for worker in workers)
        # They had a database of their own to drain into, and did.
        assert len(supervisor.told("stop")) == 2


def test_a_second_supervisor_on_the_folder_is_refused(tmp_path: Path) -> None:
    with Watched(tmp_path) as first:
        first.until("ready")
        with Watched(tmp_path) as second:
            assert second.end() == 4
            assert second.lines[-1] == (
                f"ojak: data folder {str(tmp_path)!r} is in use by process {first.process.pid}; "
                "stop that one, or name another folder with --data"
            )
        assert first.status()["pid"] == first.process.pid
        assert first.process.poll() is None


def test_a_folder_is_free_again_after_a_kill(tmp_path: Path) -> None:
    with Watched(tmp_path) as first:
        first.until("ready")
        first.process.kill()
        first.process.wait()
        with Watched(tmp_path) as second:
            second.until("ready")


def test_workers_that_cannot_come_up_stop_the_supervisor_with_the_reason(tmp_path: Path) -> None:
    with Watched(tmp_path, behaviour="fail") as supervisor:
        assert supervisor.end() == 3
        assert supervisor.lines[-1] == "ojak: no worker comes up: the stand-in was told to fail"
        failures = [line for line in supervisor.lines if "worker died" in line]
        # Three tries of two workers, a line each, with growing pauses.
        assert len(failures) == 6
        assert [re.findall(r'"restart_in_s": ([\d.]+)', line) for line in failures][::2] == [["0.5"], ["1.0"], ["2.0"]]


def test_a_mistake_of_the_operator_is_not_tried_three_times(tmp_path: Path) -> None:
    with Watched(tmp_path, behaviour="refuse", workers=1) as supervisor:
        assert supervisor.end() == 2
        assert supervisor.lines[-1] == "ojak: no worker comes up: concurrency is 0; allowed is 1"


def test_a_worker_that_exits_at_its_start_is_a_failure_too(tmp_path: Path) -> None:
    with Watched(tmp_path, behaviour="exit", workers=1) as supervisor:
        assert supervisor.end() == 3


def test_one_worker_that_cannot_come_up_leaves_the_others_at_work(tmp_path: Path) -> None:
    with Watched(tmp_path, behaviour="one-fails") as supervisor:
        for delay_s in (0.5, 1.0, 2.0):
            died = supervisor.until("worker died", worker=1)
            assert died["reason"] == "the stand-in was told to fail"
            assert died["restart_in_s"] == delay_s
        status = supervisor.status()
        assert [worker["state"] for worker in status["workers"]] == ["ready", "waiting"]
        assert not status["ready"]
        supervisor.process.send_signal(signal.SIGTERM)
        assert supervisor.end() == 0


def test_the_supervisor_is_small_and_has_one_thread(tmp_path: Path) -> None:
    with Watched(tmp_path) as supervisor:
        supervisor.until("ready")
        os.kill(supervisor.worker(0), signal.SIGKILL)
        supervisor.until("worker ready", worker=0)
        status = Path(f"/proc/{supervisor.process.pid}/status").read_text()
        assert int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) < 25 * 1024
        assert re.findall(r"Threads:\s+(\d+)", status) == ["1"]


def test_a_worker_inherits_nothing_but_its_line(tmp_path: Path) -> None:
    with Watched(tmp_path) as supervisor:
        supervisor.until("ready")
        for index in (0, 1):
            kinds = [
                str(entry.readlink())
                for entry in Path(f"/proc/{supervisor.worker(index)}/fd").iterdir()
                if int(entry.name) > 2
            ]
            assert not [kind for kind in kinds if "pidfd" in kind or kind.endswith("/lock")], kinds


def test_the_status_file_is_for_its_user_alone(tmp_path: Path) -> None:
    with Watched(tmp_path) as supervisor:
        supervisor.until("ready")
        assert stat.S_IMODE((tmp_path / "supervisor.json").stat().st_mode) == 0o600
        assert "nowhere.invalid" not in (tmp_path / "supervisor.json").read_text()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_as_process_1_it_reaps_what_is_left_to_it(tmp_path: Path) -> None:
    space = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*space, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system lets nobody make a process namespace")
    arguments = [sys.executable, str(STAND_IN), json.dumps({"data": str(tmp_path), "behaviour": "orphan"})]
    process = subprocess.Popen([*space, *arguments], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process.stderr:
        assert any('"ready"' in line for line in iter(process.stderr.readline, ""))
        [supervisor] = (
            int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        )
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        states = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in children]
        assert len(states) == 2
        assert "Z" not in states
        os.kill(supervisor, signal.SIGTERM)
        assert process.wait() == 0


def test_children_that_are_not_its_own_are_left_alone_and_do_not_stop_it(tmp_path: Path) -> None:
    # A shell that forks a child and then becomes the supervisor leaves it a child that it did not start.
    options = f'{{"data": "{tmp_path}"}}'
    script = f"true & exec {sys.executable} {STAND_IN} '{options}'"
    process = subprocess.Popen(["/bin/sh", "-c", script], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process.stderr:
        lines = iter(process.stderr.readline, "")
        assert any('"ready"' in line for line in lines)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
