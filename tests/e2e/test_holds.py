# SPDX-License-Identifier: Apache-2.0
"""Senders that are paused or cannot sign, and shared inboxes that are gone: what waits for them, over real sockets."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from ojak import DelivererConfig, FolderSenderKeys, Inbox, Settled, SettledOutcome, WaitsFor
from ojak.farm import FarmHandle
from ojak.farm.behaviour import Respond
from ojak.http.knock import Knocker
from ojak.model.hold import HoldKind, hold_id
from ojak.signing import SigningKey
from ojak.store.counts import count_by_state
from ojak.store.now import EPOCH

from .conftest import SENDER, running

OTHER = "https://a.test/users/other"
WORKS = Respond(status=202, latency_ms=20)
CONFIG = DelivererConfig(poll_every_s=0.05, key_retry_s=0.3)


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch, keys_dir: Path) -> list[str]:
    """The key of each attempt that begins, as it begins."""
    FolderSenderKeys(keys_dir).generate(OTHER)
    keys: list[str] = []
    knock = Knocker.knock

    async def noted(self: Knocker, *args: Any, key: SigningKey, **options: Any) -> Any:
        keys.append(key.key_id)
        return await knock(self, *args, key=key, **options)

    monkeypatch.setattr(Knocker, "knock", noted)
    return keys


def like(name: object) -> dict[str, str]:
    return {"id": f"https://a.test/{name}", "type": "Like"}


async def in_state(db: Any, state: str, count: int) -> bool:
    return await db.jobs.count_documents({"state": state}) == count


async def is_still(db: Any) -> bool:
    return await db.jobs.count_documents({"state": {"$in": ["leased", "queued"]}}) == 0


async def test_after_a_pause_returned_no_request_of_that_sender_begins_and_others_go_on(
    farm, deliverer_to, db, ended, began
):
    here: FarmHandle = farm({"slow:100": 6})
    deliverers = [deliverer_to(here, config=CONFIG) for _ in range(2)]
    async with running(*deliverers):
        for n in range(10):
            await deliverers[0].send(like(n), SENDER, here.inboxes())
        await until(lambda: _arrived(here, 6))
        await deliverers[0].pause_sender(SENDER, by="ops")
        begun = began.count(f"{SENDER}#main-key")
        await deliverers[1].send(like("other"), OTHER, here.inboxes())
        await deliverers[1].send(like("more"), SENDER, here.inboxes())
        await until(lambda: is_still(db))
        of_sender = {arrival.activity for arrival in here.ledger().arrivals if arrival.activity != like("other")["id"]}
        assert like("more")["id"] not in of_sender
        delivered = await db.jobs.count_documents({"state": "delivered", "sender": SENDER})
        assert delivered == begun == began.count(f"{SENDER}#main-key"), "only what had begun"
        assert await db.jobs.count_documents({"state": "delivered", "sender": OTHER}) == 6
        assert await db.jobs.count_documents({"state": "aside", "tries": 0}) == 66 - delivered
    after_restart = deliverer_to(here, config=CONFIG)
    async with running(after_restart):
        await after_restart.send(like("later"), SENDER, here.inboxes())
        await until(lambda: in_state(db, "aside", 72 - delivered))
        assert len(here.ledger().arrivals) == delivered + 6
        (pause,) = await after_restart.sender_pauses()
        assert (pause.sender, pause.reason, pause.by, pause.until) == (SENDER, "paused", "ops", None)
        assert pause.waiting == 72 - delivered
        explanation = await after_restart.explain(like("more")["id"])
        assert {delivery.waits_for for delivery in explanation.deliveries} == {WaitsFor.SENDER}
        assert await after_restart.resume_sender(SENDER)
        await ended(78)
        assert not await after_restart.resume_sender(SENDER)
        await until(lambda: _no_holds(db))
    assert await count_by_state(db) == {"delivered": 78}
    assert await db.jobs.count_documents({"behind": {"$exists": True}}) == 0


async def _arrived(farm: FarmHandle, count: int) -> bool:
    return len(farm.ledger().arrivals) >= count


async def _no_holds(db: Any) -> bool:
    return await db.holds.count_documents({}) == 0


async def test_a_pause_for_a_time_ends_by_itself(farm, deliverer_to, db, ended):
    here = farm({"accept": 1})
    deliverer = deliverer_to(here, config=CONFIG)
    async with running(deliverer):
        await deliverer.pause_sender(SENDER, by="ops", duration=timedelta(hours=1))
        await deliverer.send(like(1), SENDER, here.inboxes())
        await until(lambda: in_state(db, "aside", 1))
        # A pause for so short a time may be over before it is seen to hold anything.
        await deliverer.pause_sender(SENDER, by="ops", duration=timedelta(seconds=0.3))
        await ended(1)
    (arrival,) = here.ledger().arrivals
    row = await db.jobs.find_one()
    assert (row["state"], row["tries"]) == ("delivered", 1)
    assert arrival.accepted


async def test_what_is_paused_before_anything_runs_is_never_sent(farm, deliverer_to, db):
    here = farm({"accept": 2})
    deliverer = deliverer_to(here, config=CONFIG)
    await deliverer.send(like(1), SENDER, here.inboxes())
    await deliverer.pause_sender(SENDER, by="ops")
    async with running(deliverer):
        await until(lambda: in_state(db, "aside", 2))
    assert not here.ledger().arrivals
    assert await db.jobs.count_documents({"leases": 0}) == 2, "set aside by one write each, without a lease"


async def test_a_sender_without_a_key_waits_and_nobody_else_does(farm, deliverer_to, db, ended, keys_dir):
    keys = FolderSenderKeys(keys_dir)
    without = "https://a.test/users/without"
    keys.generate(without)
    here = farm({"accept": 2})
    (pem,) = [path for path in keys_dir.iterdir() if "without" in path.name and "ed25519" not in path.name]
    hidden = pem.rename(pem.with_suffix(".hidden"))
    told: list[Settled] = []
    deliverer = deliverer_to(here, config=CONFIG, on_settled=told.append)
    deliverer._keys, checked = None, deliverer._keys
    for n in range(20):
        await deliverer.send(like(n), without, here.inboxes())
    await deliverer.send(like("good"), SENDER, here.inboxes())
    deliverer._keys = checked
    async with running(deliverer):
        await ended(2)
        await until(lambda: in_state(db, "aside", 40))
        (pause,) = await deliverer.sender_pauses()
        assert (pause.sender, pause.reason, pause.waiting) == (without, "key-missing", 40)
        hidden.rename(pem)
        await ended(42)
    assert await count_by_state(db) == {"delivered": 42}
    assert await db.jobs.count_documents({"tries": 1}) == 42, "waiting spent no attempt"


async def test_a_shared_inbox_that_answers_410_is_held_and_then_gone(farm, deliverer_to, db, ended):
    """The first holds it; a second, an hour later, ends what waits; later sends end at once, but one a week."""
    here = farm({"status:410": 1})
    inbox = Inbox(here.inboxes()[0], shared=True)
    gone = hold_id(HoldKind.GONE, here.inboxes()[0])

    async def come() -> None:
        """The hour, or the week, is over."""
        await db.holds.update_one({"_id": gone}, {"$set": {"until": EPOCH, "look_at": EPOCH}})

    deliverer = deliverer_to(here, config=CONFIG)
    async with running(deliverer):
        await deliverer.send(like("first"), SENDER, [inbox])
        await until(lambda: in_state(db, "aside", 1))
        for n in range(20):
            await deliverer.send(like(n), SENDER, [inbox])
        await until(lambda: in_state(db, "aside", 21))
        assert len(here.ledger().arrivals) == 1
        explanation = await deliverer.explain(like("first")["id"])
        assert explanation.deliveries[0].waits_for is WaitsFor.INBOX
        await come()
        await ended(21)
        assert len(here.ledger().arrivals) == 2
        assert await count_by_state(db) == {SettledOutcome.HOST_GONE.value: 21}
        await deliverer.send(like("late"), SENDER, [inbox])
        await ended(22)
        assert len(here.ledger().arrivals) == 2, "it ended without a request"
    await come()
    after_a_week = deliverer_to(here, config=CONFIG)
    async with running(after_a_week):
        for n in range(5):
            await after_a_week.send(like(f"week{n}"), SENDER, [inbox])
        await ended(27)
        assert len(here.ledger().arrivals) == 3, "one tried it"
        here.client.behave("status:410", WORKS)
    await come()
    when_it_is_back = deliverer_to(here, config=CONFIG)
    async with running(when_it_is_back):
        await when_it_is_back.send(like("back"), SENDER, [inbox])
        await ended(28)
        await until(lambda: _no_holds(db))
        await when_it_is_back.send(like("again"), SENDER, [inbox])
        await ended(29)
    assert await db.jobs.count_documents({"state": "delivered"}) == 2


async def test_any_2xx_lets_go_what_waits_for_a_shared_inbox(farm, deliverer_to, db, ended):
    here = farm({"status:410": 1})
    inbox = Inbox(here.inboxes()[0], shared=True)
    personal = here.inboxes(path="/users/gone/inbox")[0]
    deliverer = deliverer_to(here, config=CONFIG)
    async with running(deliverer):
        for n in range(5):
            await deliverer.send(like(n), SENDER, [inbox, personal])
        await ended(5)
        await until(lambda: in_state(db, "aside", 5))
        assert await count_by_state(db) == {SettledOutcome.RECIPIENT_GONE.value: 5, "aside": 5}
        here.client.behave("status:410", WORKS)
        await db.holds.update_many({}, {"$set": {"until": EPOCH, "look_at": EPOCH}})
        await ended(10)
        await until(lambda: _no_holds(db))
    assert await db.jobs.count_documents({"state": "delivered"}) == 5
