# SPDX-License-Identifier: Apache-2.0
"""A delivery that kills whatever worker sends it is parked, and those that were on the wire beside it are unharmed."""

from pathlib import Path

import pytest
from tests.fault.watch import Watched
from tests.waiting import until

from ojak.deliverer import Deliverer
from ojak.farm import plan_of_words, running_farm
from ojak.signing import FolderSenderKeys

SENDER = "https://a.test/users/alice"
POISON = "https://a.test/users/poison"
HOSTS = 6
DEATHS = 2

APP = '''
import asyncio
import os
import signal

from ojak import FolderSenderKeys


class Keys:
    """Kills its worker when it is asked for a certain key, while others are on the wire."""

    def __init__(self) -> None:
        self.inner = FolderSenderKeys(os.environ["TEST_KEYS"])

    async def keys_of(self, sender):
        if sender.endswith("poison"):
            await asyncio.sleep(0.4)
            os.kill(os.getpid(), signal.SIGKILL)
        return await self.inner.keys_of(sender)


def factory():
    return {"keys": Keys()}
'''


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = FolderSenderKeys(tmp_path / "keys")
    folder.generate(SENDER)
    folder.generate(POISON)
    return tmp_path / "keys"


async def test_what_kills_its_workers_is_parked_and_its_neighbours_go_out(tmp_path: Path, keys: Path) -> None:
    (tmp_path / "poisoned.py").write_text(APP)
    plan = plan_of_words(HOSTS, {"slow:300": HOSTS}.items())
    with running_farm(plan, folder=tmp_path / "farm", keys_folders=[keys]) as farm:
        command = ["-m", "ojak.supervisor", "--data", str(tmp_path / "data"), "--workers", "2"]
        command += ["--app", "poisoned:factory", "--max-deaths", str(DEATHS), "--reap-every-s", "1"]
        command += ["--allow-networks", "127.0.0.0/8", "--resolver-map", str(farm.resolver_path)]
        with Watched(tmp_path / "data", command, env={"TEST_KEYS": str(keys)}, cwd=tmp_path) as supervisor:
            supervisor.until("ready")
            async with Deliverer(supervisor.data) as deliverer:
                for number in range(8):
                    await deliverer.send({"id": f"https://a.test/{number}", "type": "Like"}, SENDER, farm.inboxes())
                    if number == 1:
                        poison = {"id": "https://a.test/poison", "type": "Like"}
                        await deliverer.send(poison, POISON, farm.inboxes()[:2])
                jobs = deliverer._db.jobs

                async def ended() -> bool:
                    return await jobs.count_documents({"state": {"$in": ["delivered", "parked"]}}) == 8 * HOSTS + 2

                await until(ended, within_s=40)
                parked = await jobs.find({"state": "parked"}).to_list()
                assert [(row["sender"], row["deaths"]) for row in parked] == [(POISON, DEATHS)] * 2
                assert await jobs.count_documents({"state": "delivered", "deaths": {"$gt": 1}}) == 0, "one at most"
