# SPDX-License-Identifier: Apache-2.0
"""Further headers of each attempt: asked for when it is made, signed, and never in the way of a delivery (FEP-8fcf)."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from typing import Any

import pytest
from tests.conformance.transport.raw_inbox import RawInbox, raw_inbox
from tests.integration.http.verifying import Verifying
from tests.jobs import TEMPLATE
from tests.waiting import until

from ojak import Deliverer, DelivererConfig, FolderSenderKeys, InputError, Outbound, Outgoing, Scheme
from ojak.clock import ManualClock
from ojak.store.database import QueueDatabase
from ojak.worker.headers import RequestHeaders, checked

SENDER = "https://a.test/u"
SYNCHRONIZATION = 'collectionId="https://a.test/u/followers", url="https://a.test/u/sync", digest="00"'


@pytest.fixture
def keys(tmp_path) -> FolderSenderKeys:
    folder = FolderSenderKeys(tmp_path / "keys")
    folder.generate(SENDER)
    return folder


@pytest.fixture
def deliver(db: QueueDatabase, mongod_url: str, keys: FolderSenderKeys) -> Callable[..., Any]:
    """Send one activity to an inbox that verifies; gives what arrived."""

    async def go(headers: Any, takes: tuple[Scheme, ...] = tuple(Scheme)) -> tuple[RawInbox, Verifying, Deliverer]:
        verifying = Verifying((await keys.keys_of(SENDER)).rsa, takes)
        async with raw_inbox(verifying) as inbox:
            deliverer = Deliverer(
                mongod_url,
                database=db.name,
                keys=keys,
                headers=headers,
                outbound=Outbound(allow_networks=(ip_network("127.0.0.0/8"),)),
                config=DelivererConfig(poll_every_s=0.1),
            )
            run = asyncio.create_task(deliverer.run())
            url = f"http://127.0.0.1:{inbox.port}/inbox"
            await deliverer.send({"id": "https://a.test/1", "type": "Create"}, SENDER, [url])
            await until(lambda: _ended(db))
            await deliverer.close()
            await run
        assert await db.jobs.count_documents({"state": "delivered"}) == 1
        return inbox, verifying, deliverer

    return go


async def _ended(db: QueueDatabase) -> bool:
    return await db.jobs.count_documents({"state": {"$in": ["queued", "leased"]}}) == 0


async def test_what_the_application_says_of_each_request_is_sent_and_signed_by_both_schemes(deliver):
    asked: list[Outgoing] = []

    async def headers(outgoing: Outgoing) -> Mapping[str, str]:
        asked.append(outgoing)
        return {"Collection-Synchronization": SYNCHRONIZATION}

    inbox, verifying, _ = await deliver(headers, (Scheme.RFC9421,))
    (outgoing,) = asked
    assert (outgoing.host, outgoing.sender, outgoing.number) == (f"127.0.0.1:{inbox.port}", SENDER, 1)
    assert (outgoing.activity_id, outgoing.shared, outgoing.ref) == ("https://a.test/1", False, None)
    assert outgoing.inbox == f"http://127.0.0.1:{inbox.port}/inbox"
    assert [found.scheme for found in verifying.verified] == ["cavage", "rfc9421"]
    for found in verifying.verified:
        assert any("collection-synchronization" in name for name in found.covered)
    assert [received.field("collection-synchronization") for received in inbox.received] == [SYNCHRONIZATION] * 2


@pytest.mark.parametrize(
    "answer",
    [
        ValueError("not now"),
        "text",
        {"Signature": "x"},
        {"Cookie": "x"},
        {"Proxy-Authorization": "x"},
        {"X": "a\r\nEvil: b"},
        {"X": 7},
        {"X": "y" * 9000},
        {f"X{n}": "y" for n in range(17)},
        asyncio.CancelledError(),
    ],
    ids=lambda answer: str(answer)[:20],
)
async def test_a_delivery_goes_without_them_where_they_cannot_be_had(deliver, answer, caplog):
    def headers(outgoing: Outgoing) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    inbox, verifying, _ = await deliver(headers)
    (received,) = inbox.received
    names = {name.lower() for name, _ in received.fields}
    assert not names & {"x", "x0", "cookie", "proxy-authorization", "evil"}
    assert len(verifying.verified) == 1
    (record,) = [record for record in caplog.records if record.name == "ojak.worker.headers"]
    assert record.levelno == logging.ERROR


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt()])
async def test_a_callback_that_would_end_the_process_does_not(deliver, raised):
    def leave(_: Outgoing) -> None:
        raise raised

    inbox, _, _ = await deliver(leave)
    assert len(inbox.received) == 1


async def test_none_is_none(deliver, caplog):
    inbox, _, _ = await deliver(lambda outgoing: None)
    assert len(inbox.received) == 1
    assert not [record for record in caplog.records if record.name == "ojak.worker.headers"]


async def test_a_callback_that_takes_too_long_is_not_waited_for_and_one_that_is_cut_off_ends(monkeypatch, caplog):
    monkeypatch.setattr("ojak.worker.headers.ASK_S", 0.01)
    never = asyncio.Event()

    async def slow(outgoing: Outgoing) -> None:
        await never.wait()

    clock = ManualClock()
    headers = RequestHeaders(slow, clock=clock)
    for _ in range(3):
        assert await headers.of(TEMPLATE) == ()
    assert len(caplog.records) == 1, "once a minute"
    clock.turn(60)
    assert await headers.of(TEMPLATE) == ()
    assert [record.__dict__["count"] for record in caplog.records] == [1, 3]
    monkeypatch.setattr("ojak.worker.headers.ASK_S", 60)
    asking = asyncio.create_task(headers.of(TEMPLATE))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


def test_a_value_is_never_shown():
    with pytest.raises(InputError) as refused:
        checked({"X-Token": "hidden\n"})
    assert "hidden" not in str(refused.value)
