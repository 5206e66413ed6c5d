# SPDX-License-Identifier: Apache-2.0
"""R56: a pause holds when workers are killed and started again, and when one was stopped while it was made."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fault.watch import Watched
from tests.waiting import until

from ojak.deliverer import Deliverer
from ojak.farm import FarmHandle, plan_of_words, running_farm
from ojak.farm.behaviour import Respond
from ojak.signing import FolderSenderKeys

SENDER = "https://a.test/users/alice"
HOSTS = 4
ACTIVITIES = 10
SLOW = "slow:400"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    FolderSenderKeys(tmp_path / "keys").generate(SENDER)
    return tmp_path / "keys"


@pytest.fixture
def farm(tmp_path: Path, keys: Path) -> Iterator[FarmHandle]:
    plan = plan_of_words(HOSTS, {SLOW: HOSTS}.items())
    with running_farm(plan, folder=tmp_path / "farm", keys_folders=[keys]) as here:
        yield here


@pytest.fixture
def supervisor(tmp_path: Path, keys: Path, farm: FarmHandle) -> Iterator[Watched]:
    command = ["-m", "ojak.supervisor", "--data", str(tmp_path / "data"), "--workers", "2", "--keys", str(keys)]
    command += ["--shard-lease-s", "2", "--allow-networks", "127.0.0.0/8", "--resolver-map", str(farm.resolver_path)]
    with Watched(tmp_path / "data", command) as watched:
        watched.until("ready")
        yield watched


async def send(deliverer: Deliverer, farm: FarmHandle) -> None:
    for number in range(ACTIVITIES):
        await deliverer.send({"id": f"https://a.test/{number}", "type": "Like"}, SENDER, farm.inboxes())


async def under_way(farm: FarmHandle) -> bool:
    return len(farm.ledger().arrivals) >= 2 * HOSTS


async def landed(deliverer: Deliverer) -> bool:
    return await deliverer._db.jobs.count_documents({"state": "leased"}) == 0


async def delivered(deliverer: Deliverer) -> bool:
    return await deliverer.counts() == {"delivered": ACTIVITIES * HOSTS}


async def test_r56_everything_stays_paused_when_every_worker_is_killed(farm: FarmHandle, supervisor: Watched) -> None:
    async with Deliverer(supervisor.data) as deliverer:
        await send(deliverer, farm)
        await until(lambda: under_way(farm))
        await asyncio.wait_for(deliverer.pause_everything(by="ann"), 20)
        await until(lambda: landed(deliverer))
        arrived = len(farm.ledger().arrivals)
        assert arrived < ACTIVITIES * HOSTS
        for index in range(2):
            os.kill(supervisor.worker(index), signal.SIGKILL)
        for _ in range(2):
            supervisor.until("worker died")
        for _ in range(2):
            # Those that take their place say so before they claim anything.
            supervisor.until("everything is paused; nothing is sent")
        # They look for work at once when they are told of some.
        await deliverer.send({"id": "https://a.test/later", "type": "Like"}, SENDER, farm.inboxes()[:1])
        (pause,) = await deliverer.pauses()
        assert (pause.by, pause.waiting) == ("ann", ACTIVITIES * HOSTS + 1 - arrived)
        assert len(farm.ledger().arrivals) == arrived
        await deliverer.cancel(activity="https://a.test/later")
        assert await deliverer.resume_everything()
        farm.client.behave(SLOW, Respond(status=202))
        await until(lambda: _all_ended(deliverer))
    assert sum(arrival.accepted for arrival in farm.ledger().arrivals) == ACTIVITIES * HOSTS


async def _all_ended(deliverer: Deliverer) -> bool:
    return await deliverer.counts() == {"delivered": ACTIVITIES * HOSTS, "cancelled": 1}


async def test_a_worker_that_was_stopped_while_a_host_was_paused_begins_nothing_to_it(
    farm: FarmHandle, supervisor: Watched
) -> None:
    """It has jobs of the host in hand, and answers to read, when it goes on."""
    async with Deliverer(supervisor.data) as deliverer:
        await send(deliverer, farm)
        await until(lambda: under_way(farm))
        stopped = [supervisor.worker(index) for index in range(2)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            for inbox in farm.inboxes():
                host = inbox.partition("://")[2].partition("/")[0]
                await asyncio.wait_for(deliverer.pause_host(host, by="ann"), 20)
            arrived = len(farm.ledger().arrivals)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        await until(lambda: landed(deliverer))
        assert len(farm.ledger().arrivals) == arrived < ACTIVITIES * HOSTS
        farm.client.behave(SLOW, Respond(status=202))
        for inbox in farm.inboxes():
            assert await deliverer.resume_host(inbox.partition("://")[2].partition("/")[0])
        await until(lambda: delivered(deliverer))
