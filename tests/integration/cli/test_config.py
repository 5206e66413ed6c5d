# SPDX-License-Identifier: Apache-2.0
"""`ojak config`: settings in effect with where they came from, and what the queue itself has set."""

import asyncio
import json
from pathlib import Path

import pytest

from ojak.cli.main import main
from ojak.settings import settings_class
from ojak.store.database import QueueDatabase, connect
from ojak.store.migrations.runner import MIGRATIONS
from ojak.store.outbox import mark_outbox
from ojak.store.telling import set_telling


@pytest.fixture
def where(mongod_url: str, shared_name: str) -> list[str]:
    async def clear() -> None:
        client = connect(mongod_url)
        db = QueueDatabase(client, shared_name)
        await db.settings.delete_many({})
        await db.outbox.delete_many({})
        await client.close()

    asyncio.run(clear())
    return ["--mongo-url", mongod_url, "--database", shared_name]


def test_every_setting_is_shown_with_where_it_came_from_and_no_secret_is(capsys, monkeypatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ojak.toml").write_text(
        'workers = 3\nproxy = "http://user:hidden@proxy:3128"\nallow_networks = ["10.0.0.0/8"]\n', "utf-8"
    )
    monkeypatch.setenv("OJAK_PER_HOST", "4")
    monkeypatch.setenv("OJAK_PER_HOTS", "4")
    monkeypatch.setenv("OJAK_WORKERS", "2")
    monkeypatch.setenv("OJAK_MONGO_URL", "mongodb://user:hidden@db/")
    arguments = ["config", "show", "--database", "mine"]
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert "hidden" not in said.out + said.err
    lines = set(said.out.splitlines())
    assert {
        "database = mine  (--database)",
        "workers = 2  (OJAK_WORKERS)",
        "per_host = 4  (OJAK_PER_HOST)",
        "mongo_url = set, and not shown  (OJAK_MONGO_URL)",
        "proxy = set, and not shown  (ojak.toml)",
        "allow_networks = 10.0.0.0/8  (ojak.toml)",
        "lease_s = 120.0  (default)",
        "final_statuses = 501, 505, 508, 510  (default)",
        "keys =   (default)",
    } <= lines
    assert said.err == "OJAK_PER_HOTS looks like a setting and is none\n"
    assert main([*arguments, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert set(shown["settings"]) == set(settings_class().model_fields)
    assert shown["settings"]["per_host"] == {"value": 4, "from": "OJAK_PER_HOST"}
    assert shown["unknown_variables"] == ["OJAK_PER_HOTS"]
    assert main(["config", "show", "--per-host", "0"]) == 2


def test_what_the_queue_has_set_is_shown_and_cleared(capsys, where, mongod_url, shared_name):
    assert main(["config", "queue", *where]) == 0
    assert capsys.readouterr().out == f"callbacks: no\noutbox: not used\nschema: {max(MIGRATIONS)}\n"

    async def use() -> None:
        client = connect(mongod_url)
        db = QueueDatabase(client, shared_name)
        await set_telling(db, on=True)
        await mark_outbox(db)
        await db.outbox.insert_many([{"state": "waiting"}, {"state": "parked"}, {"state": "parked"}])
        await client.close()

    asyncio.run(use())
    assert main(["config", "queue", *where]) == 0
    said = capsys.readouterr().out
    assert said.startswith("callbacks: yes: ends are kept until they were told, since 20")
    assert "\noutbox: 1 send waiting, 2 parked\n" in said
    assert main(["config", "queue", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["callbacks"] is True
    assert main(["config", "clear", "callbacks", *where]) == 0
    assert capsys.readouterr().out == "callbacks cleared\n"
    assert main(["config", "clear", "callbacks", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out) == {"setting": "callbacks", "was_set": False}
    assert main(["config", "clear", "everything", *where]) == 2
