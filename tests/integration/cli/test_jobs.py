# SPDX-License-Identifier: Apache-2.0
"""`ojak jobs`, and what `ojak queue status` says of kinds."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pymongo import MongoClient

from ojak import Deliverer
from ojak.cli.kinds import span_in_words
from ojak.cli.main import main
from ojak.store.shards import join


@pytest.fixture
def where(mongod_url: str) -> Iterator[list[str]]:
    """Three archives that nobody handles, one of which ended, and two media that somebody does."""

    async def fill() -> None:
        async with Deliverer(mongod_url, database="cli-jobs") as deliverer:
            await deliverer.send({"id": "https://a.test/1", "type": "Like"}, "https://a.test/u", ["https://h.test/in"])
            for n in range(3):
                await deliverer.enqueue("archive", {"secret": n}, key=f"user {n}")
                await deliverer.enqueue("media", b"secret")
            await join(deliverer._db, b"o" * 16, kept_s=60, about="test", kinds=["media"])

    asyncio.run(fill())
    with MongoClient[dict[str, object]](mongod_url) as client:
        last = {"reason": "handler-raised", "detail": "ValueError"}
        ended = {"state": "out-of-retries", "end": 1, "told": True, "tries": 16, "last": last}
        ended["finished_at"] = datetime.now(UTC) - timedelta(hours=1)
        client["cli-jobs"].jobs.update_one({"key": "user 2"}, {"$set": ended})
        yield ["--mongo-url", mongod_url, "--database", "cli-jobs"]
        client.drop_database("cli-jobs")


def test_status_says_which_kinds_have_no_worker(where, capsys):
    assert main(["queue", "status", *where]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["1", "queued"]
    assert said[1].startswith("2 waiting, no worker for kind archive, the oldest for ")
    assert said[2].startswith("3 waiting of kind media, 1 worker, the oldest for ")
    assert main(["queue", "status", "--json", *where]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["counts"] == {"queued": 1}
    assert [(kind["kind"], kind["counts"], kind["workers"]) for kind in status["kinds"]] == [
        ("archive", {"queued": 2}, 0),
        ("media", {"queued": 3}, 1),
    ]


def test_jobs_are_listed_and_no_list_of_deliveries_has_them(where, capsys):
    assert main(["jobs", "list", "--kind", "archive", "--state", "out-of-retries", *where]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(" archive user 2")
    assert second.startswith("  out-of-retries · ")
    assert second.endswith(" · 16 attempts · last handler-raised · ValueError")
    assert main(["jobs", "list", "--json", *where]) == 0
    listed = capsys.readouterr().out
    assert len(listed.splitlines()) == 5
    assert "secret" not in listed
    assert main(["queue", "list", "--json", *where]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_cancel_and_replay(where, capsys):
    assert main(["jobs", "replay", "--kind", "archive", *where]) == 0
    assert capsys.readouterr().out == "1 job queued again\n"
    assert main(["jobs", "cancel", "--kind", "archive", *where]) == 0
    assert capsys.readouterr().out == "3 jobs cancelled\n"
    assert main(["jobs", "cancel", "--kind", "archive", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out) == {"cancelled": 0, "running": 0}
    assert main(["queue", "status", *where]) == 0
    assert "archive" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "nothing is given; allowed is exactly one of job, kind"),
        (["--kind", "archive", "--job", "0"], "job and kind is given"),
        (["--kind", "No"], "kind is 'No'"),
        (["--job", "12"], "job is '12'; allowed is an id of 32 hexadecimal digits"),
    ],
)
def test_what_cannot_be_used_is_one_line(where, capsys, flags: list[str], words: str):
    assert main(["jobs", "cancel", *flags, *where]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s"), (59.9, "59 s"), (61, "1 min"), (7300, "2 h"), (90_000, "1 day"), (3e5, "3 days")],
)
def test_spans_are_told_in_their_largest_unit(seconds: float, words: str):
    assert span_in_words(seconds) == words
