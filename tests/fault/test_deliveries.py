# SPDX-License-Identifier: Apache-2.0
"""Real deliveries to a farm that verifies and counts, while what delivers them is killed (SPEC section 9)."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.fault.watch import Watched
from tests.waiting import until

from ojak.deliverer import Deliverer
from ojak.farm import FarmHandle, plan_of_words, running_farm
from ojak.farm.audit import Delivery, accepted_counts, judge
from ojak.farm.report import Counted
from ojak.signing import FolderSenderKeys

SENDER = "https://a.test/users/alice"
HOSTS = 10
# A kernel needs a moment to close the connections of a process that was killed.
GRACE_S = 0.25


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    FolderSenderKeys(tmp_path / "keys").generate(SENDER)
    return tmp_path / "keys"


@contextmanager
def sending(tmp_path: Path, keys: Path, behaviour: str) -> Iterator[tuple[FarmHandle, Watched]]:
    """A farm, and a supervisor with two workers and an embedded server that delivers to it."""
    plan = plan_of_words(HOSTS, {behaviour: HOSTS}.items())
    with running_farm(plan, folder=tmp_path / "farm", keys_folders=[keys]) as farm:
        command = ["-m", "ojak.supervisor", "--data", str(tmp_path / "data"), "--workers", "2", "--keys", str(keys)]
        command += ["--allow-networks", "127.0.0.0/8", "--resolver-map", str(farm.resolver_path)]
        with Watched(tmp_path / "data", command) as supervisor:
            supervisor.until("ready")
            yield farm, supervisor


async def queue(data: Path, farm: FarmHandle, activities: int) -> list[Delivery]:
    """Queue activities for every host, and answer what is to arrive."""
    async with Deliverer(data) as deliverer:
        for number in range(activities):
            activity = {"id": f"https://a.test/a/{number}", "type": "Like", "object": f"https://b.test/{number}"}
            sent = await deliverer.send(activity, SENDER, farm.inboxes())
            assert sent.new == HOSTS
    return [
        Delivery(activity=f"https://a.test/a/{number}", inbox=inbox)
        for number in range(activities)
        for inbox in farm.inboxes()
    ]


async def all_accepted(farm: FarmHandle, expected: list[Delivery]) -> bool:
    return len(accepted_counts(farm.ledger())) == len(expected)


async def test_a_worker_killed_in_the_middle_loses_nothing_and_doubles_no_more_than_it_had_begun(
    tmp_path: Path, keys: Path
) -> None:
    with sending(tmp_path, keys, "slow:300") as (farm, supervisor):
        expected = await queue(supervisor.data, farm, 12)
        assert farm.client.wait(Counted.ACCEPTED, at_least=20)
        os.kill(supervisor.worker(0), signal.SIGKILL)
        begun = int(supervisor.until("worker died", worker=0)["begun"])
        supervisor.until("obituary dealt with")
        # Each of them, and not so many: what the dead worker had begun may be accepted twice.
        await until(lambda: all_accepted(farm, expected), within_s=30)
        supervisor.process.send_signal(signal.SIGTERM)
        assert supervisor.end() == 0
        arrivals = list(farm.ledger())
        verdict = judge(arrivals, expected=expected, limit=2, grace_s=GRACE_S)
        assert (verdict.lost, verdict.unverified, verdict.over_limit) == (0, 0, 0), verdict
        # Two to each host on the wire, and as many whose outcome was not stored yet.
        assert 0 < begun <= HOSTS * 4
        assert verdict.double <= begun


async def test_a_drain_ends_what_is_on_the_wire_and_the_next_start_sends_the_rest_once(
    tmp_path: Path, keys: Path
) -> None:
    with sending(tmp_path, keys, "slow:300") as (farm, supervisor):
        expected = await queue(supervisor.data, farm, 6)
        assert farm.client.wait(Counted.ACCEPTED, at_least=5)
        supervisor.process.send_signal(signal.SIGTERM)
        assert supervisor.end() == 0
        assert 0 < accepted_counts(farm.ledger()).total() < len(expected)
        command = [str(argument) for argument in supervisor.process.args[1:]]  # type: ignore[index]
        with Watched(supervisor.data, command) as again:
            again.until("ready")
            assert farm.client.wait(Counted.ACCEPTED, at_least=len(expected), timeout_s=30)
            again.process.send_signal(signal.SIGTERM)
            assert again.end() == 0
        verdict = judge(farm.ledger(), expected=expected, limit=2, grace_s=GRACE_S)
        assert verdict.clean, verdict


async def test_a_killed_database_loses_nothing_that_was_acknowledged(tmp_path: Path, keys: Path) -> None:
    with sending(tmp_path, keys, "slow:300") as (farm, supervisor):
        expected = await queue(supervisor.data, farm, 6)
        assert farm.client.wait(Counted.ACCEPTED, at_least=5)
        os.kill(supervisor.status()["mongod_pid"], signal.SIGKILL)
        supervisor.until("embedded MongoDB started")
        assert farm.client.wait(Counted.ACCEPTED, at_least=len(expected), timeout_s=40)
        supervisor.process.send_signal(signal.SIGTERM)
        assert supervisor.end() == 0
        verdict = judge(farm.ledger(), expected=expected, limit=2, grace_s=GRACE_S)
        assert verdict.clean, verdict
