# SPDX-License-Identifier: Apache-2.0
"""A delivery that kills its workers is parked, and those beside it go on (SPEC section 2)."""

import signal
from collections import Counter
from pathlib import Path
from textwrap import dedent

from pymongo import MongoClient
from tests.fault.watch import Watched
from tests.waiting import until

from ojak import Deliverer, FolderSenderKeys
from ojak.control import url_of
from ojak.farm import plan_of_words, running_farm
from ojak.farm.audit import accepted_counts
from ojak.farm.report import Counted
from ojak.store.database import Document

INNOCENT, POISON = "https://a.test/users/alice", "https://a.test/users/poison"
HOSTS, EACH, DEATHS = 6, 6, 3

APP = """
    import os
    from ojak import FolderSenderKeys

    class Keys:
        def __init__(self):
            self.inner = FolderSenderKeys("keys")

        async def keys_of(self, sender):
            if sender.endswith("poison"):
                os._exit(1)
            return await self.inner.keys_of(sender)

    def make():
        return {"keys": Keys()}
"""


async def test_what_kills_its_workers_is_parked_and_its_neighbours_are_delivered(tmp_path: Path) -> None:
    for sender in (INNOCENT, POISON):
        FolderSenderKeys(tmp_path / "keys").generate(sender)
    (tmp_path / "poison_app.py").write_text(dedent(APP))
    plan = plan_of_words(HOSTS, {"accept:300": HOSTS}.items())
    with running_farm(plan, folder=tmp_path / "farm", keys_folders=[tmp_path / "keys"]) as farm:
        data = tmp_path / "data"
        command = ["-m", "ojak.supervisor", "--data", str(data), "--workers", "2", "--app", "poison_app:make"]
        command += ["--allow-networks", "127.0.0.0/8", "--resolver-map", str(farm.resolver_path)]
        command += ["--max-deaths", str(DEATHS)]
        with Watched(data, command, cwd=tmp_path) as supervisor:
            supervisor.until("ready")
            async with Deliverer(data) as deliverer:
                for number in range(EACH):
                    if number == 1:
                        # While others are on the wire, of its worker and of the other one, and before others.
                        assert farm.client.wait(Counted.OPEN, at_least=HOSTS)
                        await deliverer.send({"id": "https://a.test/p", "type": "Like"}, POISON, farm.inboxes()[:1])
                    await deliverer.send({"id": f"https://a.test/{number}", "type": "Like"}, INNOCENT, farm.inboxes())

                async def all_ended() -> bool:
                    counts = await deliverer.counts()
                    return counts == {"parked": 1, "delivered": HOSTS * EACH}

                await until(all_ended)
            with MongoClient[Document](url_of(data)) as client:
                rows = list(client["ojak"].jobs.find())
            supervisor.process.send_signal(signal.SIGTERM)
            assert supervisor.end() == 0
        (poison,) = [row for row in rows if row["sender"] == POISON]
        assert (poison["deaths"], poison["tries"], poison["last"]["reason"]) == (DEATHS, 0, "crashed-workers")
        innocent = {(row["activity"], row["inbox"]): row for row in rows if row["sender"] == INNOCENT}
        # Nobody is near a second death: what died with it once goes apart from it.
        assert Counter(row["deaths"] for row in innocent.values()).keys() <= {0, 1}
        assert {row["tries"] for row in innocent.values()} == {1}, "a death is no attempt"
        assert all(
            count <= 1 + innocent[which.activity, which.inbox]["deaths"]
            for which, count in accepted_counts(farm.ledger()).items()
        )
