# SPDX-License-Identifier: Apache-2.0
"""Restarts spend no attempts that were not made, and a job whose worker is killed runs again."""

import os
import signal
from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest
from pymongo import MongoClient
from tests.fault.watch import Watched
from tests.waiting import until

from ojak import Deliverer, FolderSenderKeys
from ojak.control import url_of
from ojak.farm import plan_of_words, running_farm
from ojak.farm.audit import accepted_counts
from ojak.farm.report import Counted
from ojak.store.database import Document

SENDER = "https://a.test/users/alice"
HOSTS = 10
SLOTS = HOSTS * 2


def rows(data: Path) -> list[Document]:
    with MongoClient[Document](url_of(data)) as client:
        return list(client["ojak"].jobs.find())


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("activities", "restarts"), [(4, 2), pytest.param(200, 20, marks=pytest.mark.long)], ids=["scaled", "full"]
)
async def test_r26_restarts_spend_only_attempts_that_were_begun_and_make_nothing_final(
    tmp_path: Path, activities: int, restarts: int
) -> None:
    FolderSenderKeys(tmp_path / "keys").generate(SENDER)
    plan = plan_of_words(HOSTS, {"slow:60000": HOSTS}.items())
    with running_farm(plan, folder=tmp_path / "farm", keys_folders=[tmp_path / "keys"]) as farm:
        data = tmp_path / "data"
        command = ["-m", "ojak.supervisor", "--data", str(data), "--workers", "2", "--keys", str(tmp_path / "keys")]
        command += ["--allow-networks", "127.0.0.0/8", "--resolver-map", str(farm.resolver_path), "--drain-s", "0.1"]
        command += ["--read-s", "60", "--request-s", "70", "--concurrency", "64"]
        for restart in range(restarts):
            with Watched(data, command) as supervisor:
                supervisor.until("ready")
                if not restart:
                    async with Deliverer(data) as deliverer:
                        for number in range(activities):
                            activity = {"id": f"https://a.test/a/{number}", "type": "Like"}
                            assert (await deliverer.send(activity, SENDER, farm.inboxes())).new == HOSTS
                    with MongoClient[Document](url_of(data)) as client:
                        # One try less than there are, for every one.
                        client["ojak"].jobs.update_many({}, {"$inc": {"tries": 15}})
                # Every slot of every host is taken, so that nothing is begun and not yet arrived.
                assert farm.client.wait(Counted.OPEN, at_least=SLOTS)
                if restart == restarts - 1:
                    os.kill(supervisor.worker(0), signal.SIGKILL)
                    begun = int(supervisor.until("worker died", worker=0)["begun"])
                    supervisor.until("obituary dealt with")
                    assert 0 < begun <= SLOTS
                    arrived = Counter((arrival.activity, arrival.inbox) for arrival in farm.ledger())
                    found = rows(data)
                    tries = {(row["activity"], row["inbox"]): row["tries"] - 15 for row in found}
                    # All restarts but this, each of which cut off what was on the wire: these requests, and no others.
                    assert sum(tries.values()) == SLOTS * (restarts - 1)
                    assert all(tries[which] <= arrived[which] for which in tries)
                    assert {row["state"] for row in found} <= {"queued", "leased"}
                    # What a crash returned is counted apart, and spends nothing.
                    assert sum(row["deaths"] for row in found) == begun
                    farm.client.heal()
                    supervisor.process.send_signal(signal.SIGTERM)
                    assert supervisor.end() in (0, 8)
                    continue
                supervisor.process.send_signal(signal.SIGTERM)
                assert supervisor.end() in (0, 8)
        with Watched(data, command) as supervisor:
            supervisor.until("ready")

            async def all_accepted() -> bool:
                return len(accepted_counts(farm.ledger())) == HOSTS * activities

            await until(all_accepted, within_s=20 if restarts < 20 else 200)
            supervisor.process.send_signal(signal.SIGTERM)
            assert supervisor.end() in (0, 8)


APP = """
    import os, time
    from pathlib import Path
    from ojak import Handler

    def work(job):
        with Path("ran").open("a") as file:
            file.write(f"{os.getpid()} {job.attempt} {job.deaths}\\n")
        if not job.deaths:
            time.sleep(60)

    def make():
        return {"handlers": [Handler(kind="archive", call=work)]}
"""


async def test_a_job_whose_worker_is_killed_runs_again_in_another_and_its_death_is_no_attempt(tmp_path: Path) -> None:
    FolderSenderKeys(tmp_path / "keys").generate(SENDER)
    (tmp_path / "fault_app.py").write_text(dedent(APP))
    data, ran = tmp_path / "data", tmp_path / "ran"
    command = ["-m", "ojak.supervisor", "--data", str(data), "--workers", "2", "--keys", str(tmp_path / "keys")]
    command += ["--app", "fault_app:make", "--drain-s", "0.1"]
    with Watched(data, command, cwd=tmp_path) as supervisor:
        supervisor.until("ready")
        async with Deliverer(data) as deliverer:
            queued = await deliverer.enqueue("archive", {})
            (status,) = await deliverer.kinds()
            assert status.workers == 2

            async def begun() -> bool:
                return ran.exists() and "\n" in ran.read_text()

            await until(begun)
            first = int(ran.read_text().split()[0])
            os.kill(first, signal.SIGKILL)

            async def done() -> bool:
                return (await deliverer.job(queued.id)).state == "done"

            await until(done)
            state = await deliverer.job(queued.id)
        assert (state.attempts, state.deaths) == (1, 1)
        (_, *again) = ran.read_text().splitlines()
        assert [line.split()[1:] for line in again] == [["1", "1"]]
        assert int(again[0].split()[0]) != first
        supervisor.process.send_signal(signal.SIGTERM)
        assert supervisor.end() == 0
