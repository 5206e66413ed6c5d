# SPDX-License-Identifier: Apache-2.0
"""What is set aside for a paused sender outlives the workers that set it aside and those that let it go."""

import os
import signal
from pathlib import Path

import pytest
from tests.fault.stopping import PAGE
from tests.fault.watch import Watched
from tests.waiting import until

from ojak.deliverer import Deliverer
from ojak.farm import plan_of_words, running_farm
from ojak.farm.report import Counted
from ojak.signing import FolderSenderKeys

SENDER = "https://a.test/users/alice"
HOSTS, ACTIVITIES = 10, 20


STOPPING = str(Path(__file__).with_name("stopping.py"))


@pytest.mark.parametrize(
    ("step", "let_go"),
    [
        # Between two pages; and between queueing a page and saying that its hosts are due.
        ("let_go", PAGE),
        ("lower_due", 2 * PAGE),
    ],
)
async def test_workers_killed_while_they_set_aside_and_let_go_leave_nothing_behind(
    tmp_path: Path, step: str, let_go: int
) -> None:
    FolderSenderKeys(tmp_path / "keys").generate(SENDER)
    plan = plan_of_words(HOSTS, {"slow:100": HOSTS}.items())
    with running_farm(plan, folder=tmp_path / "farm", keys_folders=[tmp_path / "keys"]) as farm:
        stopped = tmp_path / "stopped"
        command = [STOPPING, step, str(stopped), "--data", str(tmp_path / "data"), "--workers", "2"]
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

                async def has_stopped() -> bool:
                    return stopped.exists()

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
                # One of them owns shard 0, and lets go for all.
                await until(has_stopped)
                assert await count("aside") == before - let_go
                os.kill(int(stopped.read_text()), signal.SIGKILL)

                async def all_delivered() -> bool:
                    return await count("delivered") == HOSTS * ACTIVITIES

                await until(all_delivered, within_s=40)
                assert await jobs.count_documents({"behind": {"$exists": True}}) == 0
