# SPDX-License-Identifier: Apache-2.0
"""`ojak hosts`, and what `ojak queue status` says of pauses, on a real queue."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from ojak import Deliverer
from ojak.cli.main import main

SENDER = "https://a.test/u"
INBOXES = [f"https://h{n:03}.test/in" for n in range(60)]
ABROAD = "https://blå.test/in"
DATABASE = "cli-hosts"


@pytest.fixture(scope="module")
def where(mongod_url: str) -> Iterator[list[str]]:
    """A queue with a delivery to each of sixty hosts and one abroad."""

    async def fill() -> None:
        async with Deliverer(mongod_url, database=DATABASE) as deliverer:
            await deliverer.send({"id": "https://a.test/1", "type": "Like"}, SENDER, [*INBOXES, ABROAD])

    asyncio.run(fill())
    yield ["--mongo-url", mongod_url, "--database", DATABASE]
    with MongoClient[dict[str, object]](mongod_url) as client:
        client.drop_database(DATABASE)


@pytest.fixture
def quarantined(where, mongod_url) -> Iterator[str]:
    """A host in its first quarantine."""
    with MongoClient[dict[str, Any]](mongod_url, tz_aware=True) as client:
        hosts = client[DATABASE].hosts
        row = hosts.find_one({"_id": "h001.test"})
        assert row is not None
        hosts.update_one(
            {"_id": "h001.test"},
            [
                {"$set": {"breaker": {"rev": b"1", "open": True, "step": 1, "failures": 0, "to_go": 0}}},
                {"$set": {"breaker.until": {"$add": ["$$NOW", 3_600_000]}}},
                {"$set": {"breaker.ends": "$breaker.until", "hold_until": "$breaker.until"}},
            ],
        )
        yield "h001.test"
        hosts.update_one({"_id": "h001.test"}, [{"$unset": "breaker"}, {"$set": {"hold_until": row["hold_until"]}}])


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_a_pause_is_shown_wherever_one_looks_and_ends_when_it_is_resumed(where, capsys):
    assert main(["hosts", "pause", "H000.test", "--for", "1h", "--by", "ann", *where]) == 0
    assert said(capsys) == "paused\n"
    assert main(["hosts", "pause", "--all", "--by", "bob", "--json", *where]) == 0
    assert json.loads(said(capsys)) == {"paused": True, "by": "bob"}
    assert main(["queue", "status", *where]) == 0
    status = said(capsys).splitlines()
    assert status[0].startswith("paused: everything since 20")
    assert status[0].endswith(" by bob, until it is resumed; 61 deliveries wait")
    assert status[1].startswith("paused: h000.test since 20")
    assert status[1].endswith("; 1 delivery waits")
    assert " by ann, until 20" in status[1]
    assert main(["queue", "status", "--json", *where]) == 0
    assert [(one["host"], one["by"], one["waiting"]) for one in json.loads(said(capsys))["pauses"]] == [
        (None, "bob", 61),
        ("h000.test", "ann", 1),
    ]
    assert main(["hosts", "list", "--only", "paused", *where]) == 0
    assert said(capsys).startswith("h000.test\n  paused by ann since 20")
    assert main(["queue", "list", "--host", "h000.test", *where]) == 0
    assert "queued · paused until it is resumed" in said(capsys)
    assert main(["hosts", "resume", "--all", *where]) == 0
    assert said(capsys) == "resumed\n"
    assert main(["hosts", "resume", "h000.test", "--json", *where]) == 0
    assert json.loads(said(capsys)) == {"resumed": True}
    assert main(["hosts", "resume", "h000.test", *where]) == 0
    assert said(capsys) == "it was not held by a pause or a quarantine\n"
    assert main(["queue", "status", *where]) == 0
    assert said(capsys) == "        61  queued\n"


def test_who_paused_is_the_user_unless_told(where, capsys, monkeypatch):
    monkeypatch.setenv("LOGNAME", "carol")
    assert main(["hosts", "pause", "h005.test", "--json", *where]) == 0
    assert json.loads(said(capsys))["by"] == "carol"
    assert main(["hosts", "resume", "h005.test", *where]) == 0


@pytest.mark.parametrize("given", ["h006.test:443", "h006.test:80", "https://h006.test/", "H006.test."])
def test_a_host_is_paused_by_whatever_names_it_and_called_what_it_is_kept_as(where, capsys, given):
    assert main(["hosts", "pause", given, "--by", "ann", "--json", *where]) == 0
    assert json.loads(said(capsys)) == {"paused": "h006.test", "by": "ann"}
    assert main(["hosts", "show", given, "--json", *where]) == 0
    assert json.loads(said(capsys))["state"] == "paused"
    assert main(["hosts", "resume", given, "--json", *where]) == 0
    assert json.loads(said(capsys)) == {"resumed": True}


def test_a_name_of_another_script_is_called_what_it_is_kept_as(where, capsys):
    assert main(["hosts", "pause", "blå.test", "--by", "ann", "--json", *where]) == 0
    assert json.loads(said(capsys)) == {"paused": "xn--bl-zia.test", "by": "ann"}
    assert main(["hosts", "resume", "BLÅ.test", "--json", *where]) == 0
    assert json.loads(said(capsys)) == {"resumed": True}


def test_settings_are_shown_and_taken_back(where, capsys):
    assert main(["hosts", "pin", "h002.test", "rfc9421", "--content-type", "ld+json", *where]) == 0
    assert main(["hosts", "limit", "h002.test", "6", *where]) == 0
    said(capsys)
    assert main(["hosts", "list", "--only", "set", *where]) == 0
    assert said(capsys) == ("h002.test\n  due · 1 delivery waiting · pinned to rfc9421 · 6 at a time · as ld+json\n")
    assert main(["hosts", "show", "h002.test", "--json", *where]) == 0
    shown = json.loads(said(capsys))
    assert shown["overrides"] == {"scheme": "rfc9421", "per_host": 6, "form": "ld+json"}
    assert (shown["state"], shown["waiting"], shown["total_waiting"]) == ("due", {"queued": 1}, 1)
    assert main(["hosts", "pin", "h002.test", "none", "--content-type", "none", *where]) == 0
    assert main(["hosts", "limit", "h002.test", "none", *where]) == 0
    said(capsys)
    assert main(["hosts", "list", "--only", "set", *where]) == 0
    assert said(capsys) == ""


def test_a_quarantined_host_is_shown_probed_and_reset(where, capsys, quarantined):
    assert main(["hosts", "show", quarantined, *where]) == 0
    shown = said(capsys)
    assert shown.startswith("h001.test\n  quarantined until 20")
    assert "  breaker open\n  quarantine number 1, ends 20" in shown
    assert main(["hosts", "show", quarantined, "--json", *where]) == 0
    as_json = json.loads(said(capsys))
    assert as_json["due"] < as_json["next_try"] == as_json["held_until"]
    moment = datetime.fromisoformat(as_json["next_try"]).strftime("%Y-%m-%d %H:%M:%SZ")
    assert f"  next try {moment}\n" in shown
    assert main(["hosts", "probe", quarantined, "--json", *where]) == 0
    assert json.loads(said(capsys)) == {"probe": "goes"}
    assert main(["hosts", "probe", quarantined, *where]) == 0
    assert said(capsys) == "its probe is under way already\n"
    assert main(["hosts", "probe", "h003.test", *where]) == 0
    assert said(capsys) == "it is not quarantined: nothing to probe\n"
    assert main(["hosts", "reset", quarantined, *where]) == 0
    assert said(capsys) == "reset\n"
    assert main(["hosts", "reset", quarantined, *where]) == 0
    assert said(capsys) == "nothing stood against it\n"


def test_a_breaker_that_is_kept_elsewhere_is_not_reset_here(where, capsys, quarantined, mongod_url):
    with MongoClient[dict[str, Any]](mongod_url) as client:
        client[DATABASE].hosts.update_one({"_id": quarantined}, {"$unset": {"breaker.rev": ""}})
        assert main(["hosts", "reset", quarantined, *where]) == 2
        assert "a store of the application's own" in capsys.readouterr().err
        assert main(["hosts", "probe", quarantined, *where]) == 0
        row = client[DATABASE].hosts.find_one({"_id": quarantined})
    assert row is not None
    assert row["breaker"]["asked"] is True
    assert "rev" not in row["breaker"]


def test_a_purge_ends_what_waits_for_a_host_and_no_more(where, capsys):
    assert main(["hosts", "purge", "h059.test", "--json", *where]) == 0
    assert json.loads(said(capsys)) == {"cancelled": 1, "on_wire": 0}
    assert main(["hosts", "purge", "h059.test", *where]) == 0
    assert said(capsys) == "0 deliveries cancelled\n"
    assert main(["queue", "replay", "--host", "h059.test", "--outcome", "cancelled", *where]) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["show", "none.test"], "none.test"),
        (["probe", "none.test"], "none.test"),
        (["show", "not a host"], "host is"),
        (["show", "h.test/path"], "host is"),
        (["pause"], "neither HOST nor --all"),
        (["pause", "h000.test", "--all"], "both HOST and --all"),
        (["pause", "h000.test", "--for", "soon"], "such as 90s or 1h"),
        (
            ["pause", "h000.test", "--for", "0s"],
            "'0s' is too short; allowed is more than nothing and at most ten years",
        ),
        (["pause", "h000.test", "--by", ""], "by is"),
        (["limit", "h000.test", "65"], "1 to 64, or none"),
        (["limit", "h000.test", "\u00b2"], "1 to 64, or none"),
        (["limit", "h000.test", "\u0663"], "1 to 64, or none"),
        (["pause", "h000.test", "--for", "999999999w"], "such as 90s or 1h"),
        (
            ["pause", "h000.test", "--for", "9999999w"],
            "'9999999w' is too long; allowed is more than nothing and at most ten years",
        ),
        (["pin", "h000.test"], "neither SCHEME nor --content-type"),
        (["pin", "h000.test", "rot13"], "rot13"),
        (["list", "--only", "what"], "what"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_used_is_said_and_ends_with_2(where, capsys, arguments, text):
    assert main(["hosts", *arguments, *where]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert "Traceback" not in error


PLAIN = {"PYTHONUNBUFFERED": "1", "LANG": "C", "LC_ALL": "C", "NO_COLOR": "1", "COLUMNS": "40", "TERM": "dumb"}
LISTS = pytest.mark.parametrize(
    "command", [["hosts", "list", "--json"], ["hosts", "list"], ["queue", "list", "--json"]]
)


def ojak(command: list[str], where: list[str], **options: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "ojak", *command, *where],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **PLAIN},
        **options,
    )


@LISTS
def test_r59_a_reader_that_has_read_enough_ends_a_list_quietly(where, command):
    """As in `ojak hosts list --json | head -1`."""
    with ojak(command, where, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        first = running.stdout.readline()
        running.stdout.close()
        assert running.wait(20) in {0, 141}
        assert running.stderr.read() == b""
    if "--json" in command:
        json.loads(first)


@LISTS
def test_r59_every_line_is_whole_and_plain_without_a_terminal_in_a_poor_locale(where, command):
    with ojak(command, where, stdout=subprocess.PIPE) as running:
        out, err = running.communicate(timeout=20)
    assert (running.returncode, err) == (0, b"")
    text = out.decode("ascii" if "--json" in command else "utf-8")
    assert "xn--bl-zia.test" in text
    assert "\x1b" not in text
    assert "\r" not in text
    if "--json" in command:
        assert len([json.loads(line) for line in text.splitlines()]) == 61


@LISTS
def test_r59_a_full_disk_or_a_closed_output_is_one_line(where, command):
    with Path("/dev/full").open("wb") as full, ojak(command, where, stdout=full) as running:
        _, err = running.communicate(timeout=20)
    assert running.returncode not in {0, 141}
    assert err.count(b"\n") == 1
    shell = f'exec "{sys.executable}" -m ojak {" ".join(command)} {" ".join(where)} >&-'
    ran = subprocess.run(["/bin/sh", "-c", shell], stderr=subprocess.PIPE, env={**os.environ, **PLAIN}, check=False)
    assert ran.returncode == 1
    assert ran.stderr.count(b"\n") == 1


@LISTS
def test_r59_ctrl_c_ends_a_list_without_a_traceback(where, command):
    """The reader does not read: the list stands in the middle of a line when the interrupt comes."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    while True:
        try:
            os.write(writes, b"x" * 4096)
        except BlockingIOError:
            break
    os.set_blocking(writes, True)
    with ojak(command, where, stdout=writes) as running:
        os.close(writes)
        _until_it_writes(running.pid)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=20)
    os.close(reads)
    assert running.returncode == 130
    assert b"Traceback" not in err


def _until_it_writes(pid: int) -> None:
    """Wait until a process is held up by a full pipe."""
    path = Path(f"/proc/{pid}/wchan")
    for _ in range(2000):
        if "pipe" in path.read_text("ascii"):
            return
        signal.sigtimedwait([], 0.01)
    pytest.fail("it never wrote")
