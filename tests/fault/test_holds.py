# SPDX-License-Identifier: Apache-2.0
"""What is set aside for a paused sender outlives the workers that set it aside and those that let it go."""

import os
import signal
from pathlib import Path

from tests.fault.watch import Watched
from tests.waiting import until

from ojak.deliverer import Deliverer
from ojak.farm import plan_of_words, running_farm
from ojak.farm.report import Counted
from ojak.signing import FolderSenderKeys

SENDER = "https://a.test/users/alice"
HOSTS, ACTIVITIES = 10, 30


async def test_workers_killed_while_they_set_aside_and_let_go_leave_nothing_behind(tmp_path: Path) -> None:
    FolderSenderKeys(tmp_path / "keys").generate(SENDER)
    plan = plan_of_words(HOSTS, {"slow:100": HOSTS}.items())
    with running_farm(plan, folder=tmp_path / "farm", keys_folders=[tmp_path / "keys"]) as farm:
        command = ["-m", "ojak.supervisor", "--data", str(tmp_path / "data"), "--workers", "2"]
        command += ["--keys", str(tmp_path / "keys"), "--sweep-every-s", "1"]
        command += ["--allow-networks", "127.0.0.0/8", "--resolver-map", str(farm.resolver_path)]
        with Watched(tmp_path / "data", command) as supervisor:
            supervisor.until("ready")
            async with Deliverer(supervisor.data) as deliverer:
                jobs = deliverer._db.jobs

                async def count(state: str) -> int:
                    return await jobs.count_documents({"state": state})

                async def all_set_aside() -> bool:
                    return await count("aside") + await count("delivered") == HOSTS * ACTIVITIES

                async def some_let_go() -> bool:
                    return await count("aside") < before

                for number in range(ACTIVITIES):
                    like = {"id": f"https://a.test/{number}", "type": "Like"}
                    await deliverer.send(like, SENDER, farm.inboxes())
                assert farm.client.wait(Counted.ACCEPTED, at_least=20)
                os.kill(supervisor.worker(0), signal.SIGKILL)
                await deliverer.pause_sender(SENDER, by="ops")
                supervisor.until("obituary dealt with")
                await until(all_set_aside)
                before = await count("aside")
                seen = len(farm.ledger().arrivals)
                os.kill(supervisor.worker(1), signal.SIGKILL)
                supervisor.until("obituary dealt with")
                assert await count("aside") == before, "nobody let anything go"
                assert len(farm.ledger().arrivals) == seen
                assert await deliverer.resume_sender(SENDER)
                await until(some_let_go)
                os.kill(supervisor.worker(1), signal.SIGKILL)

                async def all_delivered() -> bool:
                    return await count("delivered") == HOSTS * ACTIVITIES

                await until(all_delivered, within_s=40)
                assert await jobs.count_documents({"behind": {"$exists": True}}) == 0
