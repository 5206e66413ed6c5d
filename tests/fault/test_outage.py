# SPDX-License-Identifier: Apache-2.0
"""Workers of one machine see together that it is cut off, where none of them alone could tell (SPEC section 4)."""

from pathlib import Path

import pytest
from tests.fault.watch import Watched
from tests.waiting import until

from ojak.deliverer import Deliverer
from ojak.farm import plan_of_words, running_farm
from ojak.signing import FolderSenderKeys

SENDER = "https://a.test/users/alice"
HOSTS = 12

APP = """
import errno
import os
from pathlib import Path

from ojak import FolderSenderKeys
from ojak.http.connector import Connector

CUT_OFF = Path(os.environ["TEST_CUT_OFF"])
dial = Connector._dial


def dial_if_up(self, addr_info):
    if CUT_OFF.exists():
        raise OSError(errno.ENETUNREACH, "Network is unreachable")
    return dial(self, addr_info)


Connector._dial = dial_if_up


def factory():
    return {"keys": FolderSenderKeys(os.environ["TEST_KEYS"])}
"""


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    FolderSenderKeys(tmp_path / "keys").generate(SENDER)
    return tmp_path / "keys"


async def test_two_workers_count_together_and_both_go_on_when_the_network_is_back(tmp_path: Path, keys: Path) -> None:
    (tmp_path / "cable.py").write_text(APP)
    cut_off = tmp_path / "cut-off"
    plan = plan_of_words(HOSTS, {"close-each": HOSTS}.items())
    with running_farm(plan, folder=tmp_path / "farm", keys_folders=[keys]) as farm:
        command = [
            "-m",
            "ojak.supervisor",
            "--data",
            str(tmp_path / "data"),
            "--workers",
            "2",
            "--app",
            "cable:factory",
        ]
        command += ["--outage-hosts", str(HOSTS), "--outage-probe-s", "0.5", "--breaker-threshold", "3"]
        command += ["--allow-networks", "127.0.0.0/8", "--resolver-map", str(farm.resolver_path)]
        variables = {"TEST_KEYS": str(keys), "TEST_CUT_OFF": str(cut_off)}
        with Watched(tmp_path / "data", command, env=variables, cwd=tmp_path) as supervisor:
            supervisor.until("ready")
            async with Deliverer(supervisor.data) as deliverer:
                db = deliverer._db

                async def delivered(name: str) -> bool:
                    there = {"state": "delivered", "activity": f"https://a.test/{name}"}
                    return await db.jobs.count_documents(there) == HOSTS

                async def send(name: str) -> None:
                    await deliverer.send({"id": f"https://a.test/{name}", "type": "Like"}, SENDER, farm.inboxes())

                await send("before")
                await until(lambda: delivered("before"))
                owners = {
                    row["owner"] async for row in db.shards.find({"_id": {"$in": await db.hosts.distinct("shard")}})
                }
                assert len(owners) == 2, "each has some of the hosts, and neither has all"
                cut_off.touch()
                await send("during")
                said = [
                    supervisor.until(
                        "this machine seems cut off: hosts that answered lately do not; nothing is sent"
                        " until some answer again"
                    )
                    for _ in range(2)
                ]
                assert {line["worker"] for line in said} == {0, 1}
                await send("later")
                cut_off.unlink()
                back = [supervisor.until("the network is back; delivery goes on") for _ in range(2)]
                assert {line["worker"] for line in back} == {0, 1}
                await until(lambda: delivered("later"))
                assert await db.hosts.count_documents({"breaker": {"$exists": True}}) == 0
