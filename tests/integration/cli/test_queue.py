# SPDX-License-Identifier: Apache-2.0
"""`ojak explain`, `ojak queue` and `ojak batch`, on a real queue."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pymongo import MongoClient

from ojak import Batch, Deliverer
from ojak.cli.main import main

SENDER = "https://a.test/u"
ONE = "https://a.test/1"
INBOXES = [f"https://h{n}.test/in" for n in range(5)]
ABROAD = "https://blå.test/in"


@pytest.fixture(scope="module")
def where(mongod_url: str) -> Iterator[list[str]]:
    """A queue with a batch of six deliveries, one of which failed, and a chain of two."""

    async def fill() -> None:
        async with Deliverer(mongod_url, database="cli-queue") as deliverer:
            batch = Batch(tag="b", deadline=timedelta(days=1))
            await deliverer.send_batch({"id": ONE, "type": "Like"}, SENDER, [*INBOXES, ABROAD], batch)
            for n in range(2):
                update = {"id": f"https://a.test/u{n}", "type": "Update", "object": "https://a.test/post"}
                await deliverer.send(update, SENDER, INBOXES[:1])

    asyncio.run(fill())
    with MongoClient[dict[str, object]](mongod_url) as client:
        last = {"status": 404, "reason": "status-404", "scheme": "cavage", "detail": "nobody here"}
        client["cli-queue"].jobs.update_one(
            {"inbox": INBOXES[4]}, {"$set": {"state": "refused", "end": 1, "told": True, "tries": 1, "last": last}}
        )
        yield ["--mongo-url", mongod_url, "--database", "cli-queue"]
        client.drop_database("cli-queue")


def test_explain(where, capsys):
    assert main(["explain", ONE, *where]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{ONE}: 6 deliveries, 5 queued, 1 refused\n")
    assert f"{INBOXES[4]}\n  refused · 1 attempt · last status-404 cavage · nobody here\n" in said
    assert "https://xn--bl-zia.test/in\n  queued · can go now\n" in said
    assert main(["explain", "https://a.test/u1", *where]) == 0
    assert "blocked · behind https://a.test/u0" in capsys.readouterr().out


def test_explain_as_json(where, capsys):
    assert main(["explain", ONE, "--json", "--limit", "2", *where]) == 0
    explained = json.loads(capsys.readouterr().out)
    assert (explained["total"], len(explained["deliveries"])) == (6, 2)
    assert explained["deliveries"][0]["waits_for"] == "turn"


def test_what_is_not_there_is_said_in_one_line(where, capsys):
    for arguments in (["explain", "https://a.test/none"], ["batch", "show", "none"]):
        assert main([*arguments, *where]) == 2
        said = capsys.readouterr().err
        assert "none" in said
        assert said.count("\n") == 1


def test_status_and_lists(where, capsys):
    assert main(["queue", "status", *where]) == 0
    assert capsys.readouterr().out == "         6  queued\n         1  blocked\n         1  refused\n"
    assert main(["queue", "status", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["unfinished"] == 7
    assert main(["queue", "list", "--host", "h4.test", "--state", "refused", *where]) == 0
    assert f"{ONE} → {INBOXES[4]}\n" in capsys.readouterr().out
    assert main(["queue", "list", "--json", "--limit", "3", *where]) == 0
    assert len([json.loads(line) for line in capsys.readouterr().out.splitlines()]) == 3


def test_a_batch(where, capsys):
    assert main(["batch", "show", "b", *where]) == 0
    said = capsys.readouterr().out
    assert said.startswith("b: 6 deliveries, 5 unfinished\n")
    assert f"  refused {INBOXES[4]}: status-404\n" in said
    assert "deadline 20" in said
    assert main(["batch", "show", "b", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"queued": 5, "refused": 1}


def test_cancel_and_replay(where, capsys):
    assert main(["queue", "cancel", "--activity", ONE, "--host", "h", *where]) == 2
    assert "exactly one" in capsys.readouterr().err
    assert main(["queue", "cancel", "--host", "h0.test", *where]) == 0
    assert capsys.readouterr().out == "3 deliveries cancelled\n"
    assert main(["batch", "cancel", "b", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out) == {"cancelled": 4, "on_wire": 0}
    assert main(["queue", "replay", "--batch", "b", *where]) == 0
    assert capsys.readouterr().out == "1 delivery queued again\n"
    assert main(["queue", "replay", "--sender", SENDER, "--outcome", "cancelled", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out) == {"replayed": 7, "without_body": 0}


@pytest.mark.parametrize("command", [["queue", "list", "--json"], ["explain", ONE], ["batch", "show", "b"]])
def test_r59_whoever_reads_no_more_ends_it_quietly(where, command):
    reads, writes = os.pipe()
    os.close(reads)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "LANG": "C", "LC_ALL": "C", "NO_COLOR": "1", "COLUMNS": "40"}
    ran = subprocess.run(
        [sys.executable, "-m", "ojak", *command, *where],
        stdout=writes,
        stderr=subprocess.PIPE,
        env=environment,
        check=False,
    )
    os.close(writes)
    assert ran.returncode in {0, 141}
    assert ran.stderr == b""


def test_r59_a_full_disk_is_one_line(where):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "ojak", "queue", "list", *where], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert ran.returncode not in {0, 141}
    assert b"Traceback" not in ran.stderr
    assert ran.stderr.count(b"\n") == 1


def test_a_sender_is_paused_shown_and_resumed(where, capsys):
    assert main(["queue", "pause", "--sender", SENDER, "--for", "1h", "--by", "ann", *where]) == 0
    assert capsys.readouterr().out == "paused\n"
    assert main(["queue", "status", *where]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"paused: sender {SENDER} since 20")
    assert " by ann, until 20" in first
    assert first.endswith("; 0 deliveries set aside so far")
    assert main(["queue", "status", "--json", *where]) == 0
    (pause,) = json.loads(capsys.readouterr().out)["sender_pauses"]
    assert (pause["sender"], pause["reason"], pause["by"]) == (SENDER, "paused", "ann")
    assert main(["queue", "resume", "--sender", SENDER, "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out) == {"resumed": SENDER, "was_held": True}
    assert main(["queue", "resume", "--sender", SENDER, *where]) == 0
    assert capsys.readouterr().out == "nothing held it\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sender", ""], "sender is ''"),
        (["--sender", SENDER, "--for", "soon"], "'soon' is no time"),
        (["--sender", SENDER, "--for", "9999999w"], "allowed is more than nothing and at most ten years"),
        (["--sender", SENDER, "--by", ""], "by is ''"),
        ([], "--sender"),
    ],
)
def test_what_cannot_be_paused_is_said(where, capsys, arguments, says):
    assert main(["queue", "pause", *arguments, *where]) == 2
    assert says in capsys.readouterr().err


def test_what_others_wrote_reaches_no_terminal_as_it_is(mongod_url: str, capsys):
    """An id, a tag, a sender or a name with control characters would move the cursor, or colour what follows."""
    odd, shown = "https://a.test/\x1b[2Jx\nfake: 0 deliveries", r"https://a.test/\x1b[2Jx\nfake: 0 deliveries"
    where = ["--mongo-url", mongod_url, "--database", "cli-odd"]

    async def fill() -> None:
        async with Deliverer(mongod_url, database="cli-odd") as deliverer:
            await deliverer.send_batch({"id": odd, "type": "Like"}, odd, INBOXES[:1], Batch(tag=odd))
            await deliverer.enqueue("media", {}, key=odd)

    asyncio.run(fill())
    try:
        assert main(["queue", "pause", "--sender", odd, "--by", odd, *where]) == 0
        for command in (
            ["explain", odd],
            ["queue", "list"],
            ["queue", "status"],
            ["batch", "show", odd],
            ["jobs", "list"],
        ):
            capsys.readouterr()
            assert main([*command, *where]) == 0
            said = capsys.readouterr().out
            assert shown in said, command
            assert "\x1b" not in said, command
            assert "\nfake" not in said, command
    finally:
        with MongoClient[dict[str, object]](mongod_url) as client:
            client.drop_database("cli-odd")


@pytest.mark.parametrize("command", [["explain"], ["batch", "show"], ["queue", "resume", "--sender"]])
def test_an_id_that_is_no_text_is_refused_in_a_line(where, capsys, command):
    assert main([*command, "\udcff", *where]) == 2
    said = capsys.readouterr().err
    assert "is '\\udcff'; allowed is" in said
    assert "Traceback" not in said
