# SPDX-License-Identifier: Apache-2.0
"""`ojak send`, into a real queue."""

import io
import json
import sys
from pathlib import Path

import pytest
from pymongo import MongoClient

from ojak.cli.main import main
from ojak.signing import FolderSenderKeys

SENDER = "https://a.test/users/alice"
BODY = b'{ "id": "https://a.test/a/1",  "type": "Like" , "object": "https://b.test/1"}'


@pytest.fixture
def where(mongod_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> list[str]:
    (tmp_path / "activity.json").write_bytes(BODY)
    FolderSenderKeys(tmp_path / "keys").generate(SENDER)
    database = f"cli-{abs(hash(request.node.name)) % 10**9}"
    return ["--mongo-url", mongod_url, "--database", database, "--keys", str(tmp_path / "keys")]


def sent(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> tuple[int, dict[str, object]]:
    code = main(["send", *arguments, "--json"])
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return code, answer["counts"]  # type: ignore[return-value]


def test_what_is_queued_is_queued_once_and_byte_for_byte(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "inboxes").write_text("https://b.test/inbox\n\nhttps://c.test/inbox\n")
    arguments = [str(tmp_path / "activity.json"), "--sender", SENDER, "--inboxes", str(tmp_path / "inboxes"), *where]
    arguments += ["--shared-inbox", "https://d.test/inbox"]
    assert sent(capsys, arguments) == (0, {"new": 3, "duplicate": 0, "ended": 0, "refused": 0})
    assert sent(capsys, arguments) == (0, {"new": 0, "duplicate": 3, "ended": 0, "refused": 0})
    with MongoClient[dict[str, object]](where[1]) as client:
        bodies = list(client[where[3]].bodies.find())
        assert [body["bytes"] for body in bodies] == [BODY]
        client.drop_database(where[3])


def test_one_bad_inbox_is_named_and_the_others_are_queued(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["send", str(tmp_path / "activity.json"), "--sender", SENDER, *where]
    arguments += ["--inbox", "https://b.test/inbox", "--inbox", "mailto:bob@b.test"]
    assert main(arguments) == 1
    said = capsys.readouterr()
    assert said.out == "https://a.test/a/1: 1 new, 1 refused\n"
    assert said.err.startswith("  refused mailto:bob@b.test: ")


def test_portable_inboxes_go_with_their_gateways_beside_others(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inbox = "ap://did:key:z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2/inbox"
    activity = [str(tmp_path / "activity.json"), "--sender", SENDER, *where]
    gateways = ["--gateway", "https://g1.test", "--gateway", "https://g2.test"]
    arguments = [*activity, "--portable", inbox, *gateways, "--inbox", "https://b.test/inbox"]
    assert sent(capsys, arguments) == (0, {"new": 2, "duplicate": 0, "ended": 0, "refused": 0})
    assert sent(capsys, [*activity, "--portable", inbox, *gateways])[1]["duplicate"] == 1
    with MongoClient[dict[str, object]](where[1]) as client:
        row = client[where[3]].jobs.find_one({"inbox": inbox})
        assert row is not None
        assert (row["gateways"], row["lane"]) == (["https://g1.test", "https://g2.test"], "g1.test")
    assert main(["send", *activity, "--portable", inbox]) == 1
    assert "gateways is empty; allowed: 1 to 10 origins" in capsys.readouterr().err
    assert main(["send", *activity, *gateways, "--inbox", "https://b.test/inbox"]) == 2
    assert "--portable" in capsys.readouterr().err
    assert main(["explain", "https://a.test/a/1", *where[:4]]) == 0
    assert "    https://g1.test · is next\n    https://g2.test\n" in capsys.readouterr().out


def test_standard_input_is_read(
    where: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BODY)))
    assert main(["send", "--sender", SENDER, "--inbox", "https://b.test/inbox", *where]) == 0
    assert capsys.readouterr().out == "https://a.test/a/1: 1 new\n"


@pytest.mark.parametrize(
    ("body", "sender", "code", "words"),
    [
        (BODY, "https://a.test/users/bob", 9, "sender 'https://a.test/users/bob' has no key here"),
        (b"[1]", SENDER, 2, "activity"),
        (b"{", SENDER, 2, "activity"),
    ],
)
def test_a_bad_activity_or_an_unknown_sender_queues_nothing(
    *,
    where: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    body: bytes,
    sender: str,
    code: int,
    words: str,
) -> None:
    (tmp_path / "activity.json").write_bytes(body)
    arguments = ["send", str(tmp_path / "activity.json"), "--sender", sender, "--inbox", "https://b.test/i", *where]
    assert main(arguments) == code
    said = capsys.readouterr()
    assert said.err.startswith("ojak: ")
    assert words in said.err
    assert len(said.err.splitlines()) == 1


def test_a_key_that_cannot_be_used_has_the_code_of_keys(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in FolderSenderKeys(tmp_path / "keys").paths_of(SENDER):
        path.write_text("no key")
    arguments = ["send", str(tmp_path / "activity.json"), "--sender", SENDER, "--inbox", "https://b.test/i", *where]
    assert main(arguments) == 9
    assert "the key file" in capsys.readouterr().err


def test_a_sender_with_a_byte_that_is_no_utf8_is_one_line(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["send", str(tmp_path / "activity.json"), "--inbox", "https://b.test/\udcff", *where]
    assert main([*arguments, "--sender", SENDER]) == 1
    assert main([*arguments, "--sender", "https://a.test/\udcff"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("ojak: sender is 'https://a.test/\\udcff'")


def test_a_data_folder_where_nothing_runs_says_what_to_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "activity.json").write_bytes(BODY)
    arguments = ["send", str(tmp_path / "activity.json"), "--sender", SENDER, "--inbox", "https://b.test/i"]
    assert main([*arguments, "--data", str(tmp_path / "none")]) == 5
    assert "start one with: ojak supervisor --data" in capsys.readouterr().err
