# SPDX-License-Identifier: Apache-2.0
"""The farm as a process: start, stop, death, command line, control."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.farm.conftest import plan_of
from tests.integration.farm.sender import Sender, answer, connection

from ojak.farm import (
    EVERY,
    Counted,
    Ending,
    FarmClient,
    FarmError,
    FarmGone,
    FarmHandle,
    HostPlan,
    Ledger,
    Phase,
    PlanError,
    plan_of_words,
    running_farm,
)
from ojak.farm.behaviour import Respond, Silent, Unreachable
from ojak.farm.order import Order

FARM = (sys.executable, "-m", "ojak.farm")
DEADLINE_S = 20.0


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*FARM, *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False)


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A farm by its command line, which has said that it is ready."""
    with subprocess.Popen([*FARM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def gone(pid: int) -> bool:
    """Wait for a process that need not be ours to end."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], DEADLINE_S)[0])
    finally:
        os.close(descriptor)


def test_it_says_where_it_is_and_stops_on_term(tmp_path: Path) -> None:
    with started("--dir", str(tmp_path / "f"), "--hosts", "3", "--behaviour", "gone=1", "--json") as process:
        assert process.stdout is not None
        directory = json.loads(process.stdout.readline())
        assert [host["label"] for host in directory["hosts"]] == ["gone", "accept", "accept"]
        assert directory["pid"] == process.pid
        stored = json.loads((tmp_path / "f" / "farm.json").read_text())
        assert stored == {"version": 1} | directory
        assert json.loads((tmp_path / "f" / "resolver.json").read_text()) == {
            f"h0000{number}.farm.test": f"127.1.0.{number}" for number in (1, 2, 3)
        }
        assert "BEGIN CERTIFICATE" in (tmp_path / "f" / "ca.pem").read_text()
        assert (tmp_path / "f").stat().st_mode & 0o777 == 0o700
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, errors) == (0, "")
        assert json.loads(output)["arrivals"] == 0
    assert not (tmp_path / "f" / "farm.json").exists()


def test_its_output_may_close_while_it_serves(tmp_path: Path, sender: Sender, keys_folder: Path) -> None:
    with started("--dir", str(tmp_path / "f"), "--hosts", "1", "--keys", str(keys_folder)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("farm ready: 1 hosts, http port ")
        process.stdout.close()
        client = FarmClient(tmp_path / "f" / "control.sock")
        assert client.report().hosts == 1
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(DEADLINE_S) == 0


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for purpose in ("http", "tls"):
            done = run("--dir", str(tmp_path / "f"), "--hosts", "1", f"--{purpose}-port", str(port))
            assert done.returncode == 10
            assert done.stderr == (
                f"ojak farm: {purpose} port {port} is in use; give another one, or 0 to let the system choose\n"
            )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--behaviour", "melt=1"), 2, "behaviour is 'melt', but 'melt' is none of: accept"),
        (("--behaviour", "slow"), 2, "behaviour is 'slow', but it is written WORD=COUNT"),
        (("--behaviour", "gone=3", "--hosts", "2"), 2, "behaviours name 3 hosts, but hosts is 2"),
        (("--hosts", "0"), 2, "hosts is"),
        (("--hosts", "many"), 2, "'many' is not a valid integer"),
        (("--plan", "none.json"), 2, "plan file none.json cannot be read: No such file or directory"),
        (("--plan", "none.json", "--hosts", "2"), 2, "belong into its file"),
        (("--keys", "nowhere"), 1, "keys folder nowhere is no folder"),
        (("--key-file", "none.json"), 1, "key file none.json cannot be read"),
        (("--dir", "/proc/f"), 1, "folder /proc/f cannot be used"),
    ],
)
def test_a_mistake_gets_one_sentence_and_no_traceback(
    tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    given = arguments if "--dir" in arguments else ("--dir", str(tmp_path / "f"), *arguments)
    done = run(*given)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_help_tells_every_word_and_exit_code() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "rate-limited[:N[,S]]" in done.stdout
    assert "Exit codes: 0 stopped as asked" in done.stdout


def test_running_farm_tells_why_it_did_not_start(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        plan = plan_of_words(1, [])
        with (
            pytest.raises(FarmError, match=r"^http port \d+ is in use"),
            running_farm(replace(plan, http_port=taken.getsockname()[1]), folder=tmp_path),
        ):
            pass
    with pytest.raises(PlanError), running_farm(plan_of(HostPlan(name="NO")), folder=tmp_path):
        pass


def test_the_ledger_outlives_a_killed_farm(tmp_path: Path, sender: Sender, keys_folder: Path) -> None:
    plan = plan_of(HostPlan(name="a.test"), HostPlan(name="b.test", script=(Phase(behaviour=Silent()),)))
    with running_farm(plan, folder=tmp_path, keys_folders=[keys_folder]) as farm:
        accepting, silent = farm.hosts
        assert sender.post(accepting).status == 202
        with connection(silent) as sock:
            sock.sendall(sender.request(silent))
            assert farm.client.wait(Counted.ARRIVALS, at_least=2)
            assert farm.client.flush() == 2
            farm.kill()
            with pytest.raises(FarmGone):
                farm.client.report()
            first, second = farm.ledger()
    assert (first.host, first.accepted) == ("a.test", True)
    assert (second.host, second.ending) == ("b.test", Ending.OPEN)


def test_what_came_is_in_the_file_soon_without_being_asked_for(
    tmp_path: Path, sender: Sender, keys_folder: Path
) -> None:
    with running_farm(plan_of_words(1, []), folder=tmp_path, keys_folders=[keys_folder]) as farm:
        sender.post(farm.hosts[0])
        deadline_s = time.monotonic() + DEADLINE_S
        while not len(Ledger.load(farm.site.ledger)) and time.monotonic() < deadline_s:
            farm.client.report()
        assert len(Ledger.load(farm.site.ledger)) == 1


PARENT = """
import sys
from pathlib import Path
from ojak.farm import plan_of_words, running_farm
with running_farm(plan_of_words(1, []), folder=Path(sys.argv[1])) as farm:
    print(farm.pid, flush=True)
    sys.stdin.read()
"""

FLAG_PARENT = """
import subprocess, sys
farm = subprocess.Popen([sys.executable, "-m", "ojak.farm", "--hosts", "1", "--dir", sys.argv[1], "--die-with-parent"],
                        stdout=subprocess.PIPE)
farm.stdout.readline()
print(farm.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("program", [PARENT, FLAG_PARENT])
def test_it_does_not_outlive_a_killed_parent(tmp_path: Path, program: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        assert gone(pid)


def test_a_folder_with_a_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40) / "farm"
    with running_farm(plan_of_words(1, []), folder=folder) as farm:
        assert farm.report().hosts == 1
        assert farm.site.control.stat().st_mode & 0o777 == 0o600


async def test_the_client_of_an_event_loop(tmp_path: Path, sender: Sender, keys_folder: Path) -> None:
    folder = tmp_path / ("long" * 40)
    with running_farm(plan_of_words(3, [("gone+own-port", 1)]), folder=folder, keys_folders=[keys_folder]) as farm:
        client = farm.async_client
        sender.post(farm.hosts[1])
        assert await client.wait(Counted.ACCEPTED, at_least=1)
        assert not await client.wait(Counted.ACCEPTED, at_least=2, timeout_s=0.05)
        report = await client.report()
        assert (report.pid, report.arrivals, report.accepted, report.unverified) == (farm.pid, 1, 1, 0)
        assert 0 < report.cpu_s < 30
        assert [host.label for host in await client.hosts()] == ["gone+own-port", "accept", "accept"]
        assert await client.behave("accept", Respond(status=500)) == 2
        assert await client.behave("gone+own-port", Unreachable()) == 1
        assert await client.heal(EVERY) == 3
        assert await client.flush() == 1
        with pytest.raises(FarmError, match="no host has the name or the label 'nobody'"):
            await client.heal("nobody")
        await client.forget_keys()
        await client.add_keys({})
        await client.stop()
        assert gone(farm.pid)
        with pytest.raises(FarmGone):
            await client.report()
        await client.stop()
        assert len(farm.ledger()) == 1


def test_what_a_farm_cannot_do_it_says(zoo: FarmHandle) -> None:
    with pytest.raises(FarmError, match="shares its port, so it cannot refuse connections; plan it with own_port"):
        zoo.client.behave("accept", Unreachable())
    with pytest.raises(FarmError, match=r"script\[0\].behaviour.respond.status is 42"):
        zoo.client.behave("accept", Respond(status=42))
    with pytest.raises(FarmError, match="the key of 'k' cannot be used"):
        zoo.client.add_keys({"k": "nonsense"})
    for line, words in (
        (b"nonsense\n", "an order is a JSON object a line"),
        (b"[]\n", "an order is a JSON object"),
        (b'{"order": "dance"}\n', "order is 'dance', but wait or one of"),
        (b'{"order": "wait", "counted": "sheep"}\n', "the order to wait is not usable"),
    ):
        with pytest.raises(FarmError, match=words):
            zoo.client._carry_out(Order(line=line, read=str))
    assert zoo.report().hosts == len(zoo.hosts)


def test_a_key_that_changes_or_comes_late_is_read_again(tmp_path: Path) -> None:
    sender = Sender(tmp_path / "keys")
    with running_farm(plan_of_words(1, []), folder=tmp_path / "f", keys_folders=[sender.keys.folder]) as farm:
        (host,) = farm.hosts
        assert sender.post(host).status == 202
        sender.ring = sender.keys.generate(sender.name, replace=True)
        assert sender.post(host).status == 202
        late = Sender(tmp_path / "elsewhere", name="https://sender.example/users/late")
        assert sender.post(host).status == 202
        assert late.post(host).status == 401
        assert farm.ledger().arrivals[-1].verdict == "unknown_key"
        farm.client.add_keys({late.ring.rsa.key_id: late.ring.rsa.key.public_pem()})
        assert late.post(host).status == 202


def test_a_long_sender_is_found_by_the_name_its_folder_gives_it(tmp_path: Path) -> None:
    sender = Sender(tmp_path / "keys", name="https://sender.example/" + "users/" * 60)
    with running_farm(plan_of_words(1, []), folder=tmp_path / "f", keys_folders=[sender.keys.folder]) as farm:
        assert sender.post(farm.hosts[0]).status == 202


def test_keys_from_a_file(tmp_path: Path) -> None:
    sender = Sender(tmp_path / "keys")
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({sender.ring.rsa.key_id: sender.ring.rsa.key.public_pem()}))
    with running_farm(plan_of_words(1, []), folder=tmp_path / "f", key_files=[path]) as farm:
        assert sender.post(farm.hosts[0]).status == 202


def test_idle_connections_are_closed(tmp_path: Path, sender: Sender, keys_folder: Path) -> None:
    plan = plan_of(HostPlan(name="a.test"), keep_alive_s=0.4)
    with (
        running_farm(plan, folder=tmp_path, keys_folders=[keys_folder]) as farm,
        connection(farm.hosts[0]) as sock,
    ):
        sock.sendall(sender.request(farm.hosts[0]))
        assert answer(sock).status == 202
        assert sock.recv(1) == b""


def test_thousands_of_hosts_on_one_farm(tmp_path: Path, sender: Sender, keys_folder: Path) -> None:
    with running_farm(plan_of_words(5000, []), folder=tmp_path, keys_folders=[keys_folder]) as farm:
        for host in farm.hosts[:: len(farm.hosts) // 20]:
            assert sender.post(host).status == 202
        assert len({arrival.host for arrival in farm.ledger()}) == 20
        assert farm.host("h04242.farm.test").address == "127.1.16.146"
