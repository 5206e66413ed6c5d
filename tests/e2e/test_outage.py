# SPDX-License-Identifier: Apache-2.0
"""Our own outage is not the world's: nothing is held against hosts or spent, and delivery resumes by itself."""

import errno
import socket
from typing import Any

import pytest
from tests.waiting import until

from ojak import AttemptOutcome, DelivererConfig, DeliveryAttempt
from ojak.http.connector import Connector
from ojak.store.counts import count_by_state

from .conftest import SENDER, running

CONFIG = DelivererConfig(
    poll_every_s=0.05, outage_probe_s=0.2, outage_hosts=10, concurrency=32, concurrency_max=32, breaker_threshold=3
)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Whether there is one; without, the system has no route."""
    state = {"up": True}
    dial = Connector._dial

    def dial_if_up(self: Connector, addr_info: Any) -> socket.socket:
        if not state["up"]:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")
        return dial(self, addr_info)

    monkeypatch.setattr(Connector, "_dial", dial_if_up)
    return state


def like(name: object) -> dict[str, str]:
    return {"id": f"https://a.test/{name}", "type": "Like"}


async def test_while_we_are_cut_off_nothing_is_spent_and_no_breaker_opens_and_then_all_goes_out(
    farm, deliverer_to, db, network, caplog
):
    caplog.set_level("INFO", logger="ojak.worker.outage")
    here = farm({"close-each": 12})
    attempts: list[DeliveryAttempt] = []
    deliverer = deliverer_to(here, config=CONFIG, breakers="shared", on_attempt=attempts.append)
    async with running(deliverer):
        await deliverer.send(like("before"), SENDER, here.inboxes())
        await until(lambda: _delivered(db, 12))
        network["up"] = False
        for n in range(10):
            await deliverer.send(like(n), SENDER, here.inboxes())
        await until(lambda: _says(caplog, "seems cut off"))
        await until(lambda: _says(caplog, "still unreachable"))
        assert await db.hosts.count_documents({"breaker.open": True}) == 0
        spent = sum([row["tries"] async for row in db.jobs.find({"state": {"$ne": "delivered"}})])
        assert spent <= 24, "what failed before it was noticed"
        failed = len(attempts)
        await until(lambda: _is_idle(db))
        seen = len(attempts)
        await deliverer.send(like("during"), SENDER, here.inboxes())
        await until(lambda: _says(caplog, "still unreachable", at_least=20))
        assert len(attempts) == seen, "nothing is attempted"
        assert seen - failed <= 32
        network["up"] = True
        await until(lambda: _says(caplog, "the network is back"))
        await db.jobs.update_many({"state": "queued"}, [{"$set": {"run_at": "$$NOW"}}])
        await db.hosts.update_many(
            {}, [{"$set": {"due": {"0": "$$NOW", "1": "$$NOW"}, "ready": {"0": "$$NOW", "1": "$$NOW"}}}]
        )
        await until(lambda: _delivered(db, 144))
    assert await count_by_state(db) == {"delivered": 144}
    assert any(attempt.outcome is AttemptOutcome.OWN_FAULT for attempt in attempts)
    assert await db.hosts.count_documents({"breaker": {"$exists": True}}) == 0


async def _says(caplog: pytest.LogCaptureFixture, text: str, *, at_least: int = 1) -> bool:
    return caplog.text.count(text) >= at_least


async def _delivered(db: Any, count: int) -> bool:
    return await db.jobs.count_documents({"state": "delivered"}) == count


async def _is_idle(db: Any) -> bool:
    return await db.jobs.count_documents({"state": "leased"}) == 0


async def test_ten_dead_hosts_are_no_outage_while_others_answer(farm, deliverer_to, db, ended):
    here = farm({"reset": 12, "accept": 12})
    deliverer = deliverer_to(here, config=CONFIG, breakers="shared")
    async with running(deliverer):
        for n in range(3):
            await deliverer.send(like(n), SENDER, here.inboxes())
        await ended(36)
        await until(lambda: _all_tried(db))
    assert await db.jobs.count_documents({"state": "queued", "tries": 1}) == 36


async def _all_tried(db: Any) -> bool:
    return await db.jobs.count_documents({"tries": 0}) == 0


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOBUFS, errno.ENETDOWN])
async def test_a_fault_of_this_machine_spends_no_attempt_and_opens_no_breaker(
    farm, deliverer_to, db, monkeypatch, number
):
    here = farm({"accept": 3})
    attempts: list[DeliveryAttempt] = []
    deliverer = deliverer_to(here, config=CONFIG, breakers="shared", on_attempt=attempts.append)

    def lacking(self: Connector, addr_info: Any) -> socket.socket:
        raise OSError(number, "this machine lacks something")

    monkeypatch.setattr(Connector, "_dial", lacking)
    async with running(deliverer):
        for n in range(6):
            await deliverer.send(like(n), SENDER, here.inboxes())
        await until(lambda: _local(db, 18))
    assert {attempt.outcome for attempt in attempts} == {AttemptOutcome.OWN_FAULT}
    assert await db.jobs.count_documents({"tries": 0, "state": "queued"}) == 18
    assert await db.hosts.count_documents({"breaker": {"$exists": True}}) == 0
    assert await db.hosts.count_documents({"proven": False}) == 0


async def _local(db: Any, count: int) -> bool:
    return await db.jobs.count_documents({"last.reason": "local"}) == count
