# SPDX-License-Identifier: Apache-2.0
"""An application's code that raises what is no Exception, or holds on: it strands nothing and ends no `run()`."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.waiting import until

from ojak import Deliverer, DelivererConfig, DeliveryAttempt, FolderSenderKeys, Outgoing, SenderKeyring, Settled
from ojak.store.database import QueueDatabase
from ojak.store.now import EPOCH
from ojak.worker import engine as engine_module
from ojak.worker.bodies import Bodies

INBOX = "http://127.0.0.1:9/inbox"
"""The guard refuses it: a delivery ends at once, and nothing is sent anywhere."""
SENDER = "https://a.test/u"
LIKE = {"id": "https://a.test/1", "type": "Like"}
CONFIG = DelivererConfig(sweep_every_s=0.1, poll_every_s=0.1, drain_s=0.1)


class LibraryTimeout(BaseException):
    """As some libraries raise it."""


@pytest.fixture
def deliverer_with(mongod_url: str, db: QueueDatabase, tmp_path) -> Callable[..., Deliverer]:
    keys = FolderSenderKeys(tmp_path / "keys")
    keys.generate(SENDER)

    def make(**options: Any) -> Deliverer:
        return Deliverer(mongod_url, database=db.name, **{"keys": keys, "config": CONFIG, **options})

    return make


class HoldsOn:
    """Waits for ever, and makes nothing of being cancelled."""

    def __init__(self) -> None:
        self.called = asyncio.Event()

    async def __call__(self, _: Any) -> None:
        self.called.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def end(deliverer: Deliverer, run: asyncio.Task[None]) -> None:
    async with asyncio.timeout(15):
        await deliverer.close()
        await run


async def is_in(db: QueueDatabase, **fields: Any) -> bool:
    return await db.jobs.count_documents(fields) == 1


@pytest.mark.parametrize("told", ["as it ends", "by the sweep"])
async def test_a_callback_that_holds_on_does_not_keep_a_run_from_ending(db, deliverer_with, monkeypatch, told):
    monkeypatch.setattr(engine_module, "_FAREWELL_S", 0.2)
    if told == "by the sweep":
        before = deliverer_with()
        run = asyncio.create_task(before.run())
        await before.send(LIKE, SENDER, [INBOX])
        await until(lambda: is_in(db, state="refused-address"))
        await end(before, run)
        await db.jobs.update_many({}, {"$set": {"told": False, "finished_at": EPOCH}, "$unset": {"expire_at": ""}})
    on_settled = HoldsOn()
    deliverer = deliverer_with(on_settled=on_settled)
    run = asyncio.create_task(deliverer.run())
    if told == "as it ends":
        await deliverer.send(LIKE, SENDER, [INBOX])
    await asyncio.wait_for(on_settled.called.wait(), 15)
    await end(deliverer, run)
    assert await is_in(db, told=False), "whether it was told is not known"


async def test_a_callback_for_headers_that_holds_on_begins_no_request(db, deliverer_with):
    headers = HoldsOn()
    deliverer = deliverer_with(headers=headers)
    run = asyncio.create_task(deliverer.run())
    await deliverer.send(LIKE, SENDER, [INBOX])
    await asyncio.wait_for(headers.called.wait(), 15)
    await end(deliverer, run)
    assert await is_in(db, state="queued", tries=0)


@pytest.mark.parametrize("raised", [LibraryTimeout(), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_keys_that_raise_whatever_set_their_sender_aside(db, deliverer_with, raised):
    class Keys:
        async def keys_of(self, sender: str) -> SenderKeyring:
            raise raised

    deliverer = deliverer_with(keys=Keys())
    run = asyncio.create_task(deliverer.run())
    queueing = deliverer_with(keys=None)
    await queueing.send(LIKE, SENDER, [INBOX])
    await queueing.close()
    await until(lambda: is_in(db, **{"state": "aside", "last.reason": "key-source-failed"}))
    await end(deliverer, run)


@pytest.mark.parametrize("raised", [LibraryTimeout(), SystemExit(3)])
async def test_headers_and_callbacks_that_raise_whatever_are_no_more_than_that(db, deliverer_with, raised, caplog):
    def raising(_: Outgoing) -> None:
        raise raised

    calls: list[str] = []

    async def once(end: Settled) -> None:
        calls.append(end.inbox)
        if len(calls) == 1:
            raise raised

    deliverer = deliverer_with(headers=raising, on_attempt=raising, on_settled=once)
    run = asyncio.create_task(deliverer.run())
    await deliverer.send(LIKE, SENDER, [INBOX])
    await until(lambda: is_in(db, state="refused-address"))
    await asyncio.wait_for(_called(calls), 15)
    await end(deliverer, run)
    assert "headers cannot be had" in caplog.text
    assert "on_attempt raised" in caplog.text
    assert "callback raised; called again later" in caplog.text


async def _called(calls: list[str]) -> None:
    async def is_called() -> bool:
        return bool(calls)

    await until(is_called)


@pytest.mark.parametrize("raised", [ZeroDivisionError(), LibraryTimeout()])
async def test_a_fault_of_this_program_spends_an_attempt_and_strands_nothing(
    db, deliverer_with, monkeypatch, raised, caplog
):
    async def fail(_: Bodies, __: bytes) -> None:
        raise raised

    monkeypatch.setattr(Bodies, "get", fail)
    deliverer = deliverer_with()
    run = asyncio.create_task(deliverer.run())
    await deliverer.send(LIKE, SENDER, [INBOX])
    await until(lambda: is_in(db, **{"state": "queued", "tries": 1, "last.reason": "internal-error"}))
    (engine,) = deliverer._running

    async def holds_nothing() -> bool:
        return not engine._held.ids()

    await until(holds_nothing)
    await end(deliverer, run)
    assert "nobody foresaw" in caplog.text


@pytest.mark.parametrize("ends", ["in time", "never"])
async def test_hosts_do_not_wait_for_what_is_told_of_attempts_at_the_end(db, deliverer_with, monkeypatch, ends):
    monkeypatch.setattr(engine_module, "_FAREWELL_S", 60.0 if ends == "in time" else 0.2)
    called, go_on = asyncio.Event(), asyncio.Event()
    told: list[DeliveryAttempt] = []

    async def slow(attempt: DeliveryAttempt) -> None:
        called.set()
        await go_on.wait()
        told.append(attempt)

    deliverer = deliverer_with(on_attempt=slow)
    run = asyncio.create_task(deliverer.run())
    await deliverer.send(LIKE, SENDER, [INBOX])
    await asyncio.wait_for(called.wait(), 15)
    await until(lambda: is_in(db, state="refused-address"))
    stopping = asyncio.create_task(deliverer.stop())

    async def left() -> bool:
        return not await db.shards.count_documents({"owner": {"$ne": None}})

    await until(left, within_s=10)
    if ends == "in time":
        assert not stopping.done()
        go_on.set()
    await asyncio.wait_for(stopping, 10)
    await end(deliverer, run)
    assert len(told) == (ends == "in time")
