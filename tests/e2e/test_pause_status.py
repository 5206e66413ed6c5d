# SPDX-License-Identifier: Apache-2.0
"""Nobody has to remember a pause: the status and each start tell of it (field report R56)."""

import asyncio
import json
from datetime import datetime

from tests.waiting import until

from ojak import DelivererConfig
from ojak.cli.main import main

from .conftest import SENDER, running


async def test_r56_the_status_names_each_pause_and_a_start_says_that_there_are_some(
    farm, deliverer_to, db, mongod_url, capsys, *, caplog
):
    here = farm({"accept": 3})
    name = here.inboxes()[0].split("/")[2]
    queue = ["--mongo-url", mongod_url, "--database", db.name]

    async def ojak(*words: str) -> str:
        assert await asyncio.to_thread(main, [*words, *queue]) == 0
        return capsys.readouterr().out

    config = DelivererConfig(poll_every_s=0.05)
    await ojak("hosts", "pause", name, "--for", "1h", "--by", "ann")
    await ojak("queue", "pause", "--sender", SENDER, "--by", "bob")
    await ojak("hosts", "pause", "--all", "--by", "eve")
    first = deliverer_to(here, config=config)
    await first.send({"id": "https://a.test/1", "type": "Like"}, SENDER, here.inboxes())
    async with running(first):
        await until(lambda: _all_own(db))
    assert {"everything is paused; nothing is sent", "hosts are paused", "senders are paused"} <= set(caplog.messages)
    said = (await ojak("queue", "status")).splitlines()
    assert [line.split(" since ")[0] for line in said[:3]] == [
        "paused: everything",
        f"paused: {name}",
        f"paused: sender {SENDER}",
    ]
    assert ["by eve, until it is resumed; 3 deliveries wait" in said[0], "by ann, until 2" in said[1]] == [True] * 2
    assert said[1].endswith("; 1 delivery waits")
    assert "by bob, until it is resumed; 0 deliveries set aside so far" in said[2]
    told = json.loads(await ojak("queue", "status", "--json"))
    timed = told["pauses"][1]
    lasts = datetime.fromisoformat(timed["until"]) - datetime.fromisoformat(timed["since"])
    assert (told["unfinished"], round(lasts.total_seconds())) == (3, 3600)
    assert here.ledger().arrivals == ()


async def _all_own(db) -> bool:
    return await db.shards.count_documents({"owner": {"$ne": None}}) == 256
