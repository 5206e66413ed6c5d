# SPDX-License-Identifier: Apache-2.0
"""`ojak keys` on a folder and on a collection: made, shown, listed, retired while something waits and after it."""

import asyncio
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymongo import MongoClient

from ojak import CollectionSenderKeys, Deliverer
from ojak.cli.main import main
from ojak.settings import load_settings
from ojak.supervisor.preflight import plan_of

SENDER = "https://a.test/u"


@pytest.fixture
def name(mongod_url: str) -> Iterator[str]:
    name = f"keys-{secrets.token_hex(4)}"
    yield name
    with MongoClient[dict[str, object]](mongod_url) as client:
        client.drop_database(name)


@pytest.fixture(params=["folder", "collection"])
def where(request, mongod_url: str, name: str, tmp_path: Path) -> list[str]:
    queue = ["--mongo-url", mongod_url, "--database", name]
    if request.param == "folder":
        return [*queue, "--keys", str(tmp_path / "keys")]
    return [*queue, "--keys-collection", "actors", "--keys-fields", "sender=id,rsa=keys.rsa,ed25519=keys.ed"]


def test_keys_are_made_shown_and_listed(where, capsys):
    assert main(["keys", "generate", SENDER, *where]) == 0
    made = capsys.readouterr().out
    assert made.count("BEGIN PUBLIC KEY") == 2
    assert f"{SENDER}#main-key\n" in made
    assert main(["keys", "show", SENDER, *where]) == 0
    assert capsys.readouterr().out == made
    assert main(["keys", "show", SENDER, "--json", *where]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["sender"] == SENDER
    assert shown.get("collection", "").endswith(".actors") or shown["folder"].endswith("keys")
    assert [key["id"] for key in shown["keys"]] == [f"{SENDER}#main-key", f"{SENDER}#ed25519-key"]
    assert main(["keys", "generate", SENDER, *where]) == 9
    assert main(["keys", "show", "https://a.test/nobody", *where]) == 9
    capsys.readouterr()
    assert main(["keys", "list", *where]) == 0
    assert capsys.readouterr().out == f"{SENDER}\n"
    assert main(["keys", "generate", SENDER, *where, "--keys", "x", "--keys-collection", "y"]) == 2
    assert "keys and keys_collection are both given; allowed is one of them" in capsys.readouterr().err


def test_retired_keys_go_when_nothing_of_their_sender_waits(where, capsys, mongod_url, name):
    other = "https://a.test/other"
    for sender in (SENDER, other):
        assert main(["keys", "generate", sender, *where]) == 0

    async def send() -> None:
        async with Deliverer(mongod_url, database=name) as deliverer:
            body = {"id": "https://a.test/1", "type": "Delete"}
            await deliverer.send(body, SENDER, [f"https://b.test/{n}" for n in range(3)])

    asyncio.run(send())
    capsys.readouterr()
    assert main(["keys", "retire", SENDER, *where]) == 0
    assert capsys.readouterr().out == f"{SENDER}: retired; its keys are kept for 3 deliveries that wait\n"
    assert main(["keys", "list", "--json", *where]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"sender": SENDER, "retired": True} in listed
    assert {"sender": other, "retired": False} in listed
    with MongoClient[dict[str, object]](mongod_url) as client:
        client[name].jobs.update_many({}, {"$set": {"state": "delivered"}})
        client[name].outbox.insert_one({"state": "waiting", "sender": SENDER})
        assert main(["keys", "retire", "--json", *where]) == 0
        assert json.loads(capsys.readouterr().out) == {"sender": SENDER, "removed": False, "waiting": 1}
        client[name].outbox.delete_many({})
    assert main(["keys", "retire", "--wait", *where]) == 0
    assert capsys.readouterr().out == f"{SENDER}: keys removed\n"
    assert main(["keys", "retire", *where]) == 0
    assert capsys.readouterr().out == ""
    assert main(["keys", "list", *where]) == 0
    assert capsys.readouterr().out == f"{other}\n"
    assert main(["keys", "retire", SENDER, *where]) == 9


@pytest.mark.parametrize("command", [["list"], ["retire"], ["retire", SENDER], ["retire", "--json"]], ids=" ".join)
def test_a_folder_that_is_not_there_is_named(mongod_url, name, tmp_path, capsys, command):
    gone = tmp_path / "typo"
    assert main(["keys", *command, "--mongo-url", mongod_url, "--database", name, "--keys", str(gone)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"ojak: keys folder {str(gone)!r} cannot be read: No such file or directory\n"
    assert not gone.exists()


def test_a_send_asks_the_collection_for_the_senders_key(mongod_url, name, capsys, tmp_path):
    where = ["--mongo-url", mongod_url, "--database", name, "--keys-collection", "actors"]
    (tmp_path / "a.json").write_text('{"type": "Like"}')
    arguments = ["send", str(tmp_path / "a.json"), "--sender", SENDER, "--inbox", "https://b.test/i", *where]
    assert main(arguments) == 9
    assert main(["keys", "generate", SENDER, *where]) == 0
    assert main(arguments) == 0


def test_the_workers_are_told_where_the_keys_are(tmp_path, name, mongod_url):
    settings = load_settings(
        {"mongo_url": mongod_url, "keys_collection": "app.actors", "keys_fields": "sender=id, rsa=k.rsa"}
    )
    plan = plan_of(settings)
    plan = type(plan).from_bytes(plan.to_bytes())
    assert (plan.worker.keys_collection, plan.worker.keys_fields) == ("app.actors", ("sender=id", "rsa=k.rsa"))


async def test_a_worker_signs_with_keys_of_the_collection(mongod_url, name, tmp_path):
    from ojak.supervisor.build import build_deliverer
    from ojak.worker.board import FlightBoard

    settings = load_settings({"mongo_url": mongod_url, "database": name, "keys_collection": f"{name}.actors"})
    deliverer = await build_deliverer(plan_of(settings).worker, FlightBoard())
    store = CollectionSenderKeys(mongod_url, database=name, collection="actors")
    made = await store.make(SENDER)
    assert deliverer._keys is not None
    assert (await deliverer._keys.keys_of(SENDER)).rsa.key.public_pem() == made.rsa.key.public_pem()
    await store.close()
    await deliverer._keys._inner.close()  # type: ignore[attr-defined]
    await deliverer.close()
