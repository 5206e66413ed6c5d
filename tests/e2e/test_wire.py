# SPDX-License-Identifier: Apache-2.0
"""What goes over the wire, from the queue to the inbox and back (field reports of family A, and R63)."""

import asyncio
import logging
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.transport.raw_inbox import ACCEPTED, Peer, RawInbox, Script, always, raw_inbox
from tests.waiting import until

from ojak import Deliverer, DelivererConfig, DeliveryAttempt, FolderSenderKeys, Outbound, deliver
from ojak.cli.main import main
from ojak.farm import FarmPlan, HostPlan, judge, running_farm
from ojak.model.job import Priority
from ojak.store.counts import count_by_state
from ojak.store.hosts import Due, lower_due

from .conftest import SENDER, running

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
LIKE = {"id": "https://a.test/1", "type": "Like"}

MakeDeliverer = Callable[..., Deliverer]


@pytest.fixture
def deliverer(mongod_url: str, db: Any, keys_dir: Path) -> MakeDeliverer:
    """Make a Deliverer that may send to inboxes on loopback."""

    def make(*, config: DelivererConfig | None = None, on_attempt: Any = None, **outbound: Any) -> Deliverer:
        return Deliverer(
            mongod_url,
            database=db.name,
            keys=FolderSenderKeys(keys_dir),
            config=config or DelivererConfig(poll_every_s=0.05),
            outbound=Outbound(**{"allow_networks": LOOPBACK, **outbound}),
            on_attempt=on_attempt,
        )

    return make


async def test_r05_a_path_is_sent_as_given_and_a_wrong_one_is_seen_at_once(
    deliverer, db, ended, tmp_path, keys_dir, *, mongod_url, capsys
):
    paths = {"a.test": "/users/ALLCAPS/inbox", "b.test": "//f/inbox", "c.test": "/f/inbox"}
    plan = FarmPlan(hosts=tuple(HostPlan(name=name, only_paths=(path,)) for name, path in paths.items()))
    with running_farm(plan, folder=tmp_path / "farm", keys_folders=[keys_dir]) as farm:
        given = [farm.host(name).inbox(path) for name, path in (paths | {"c.test": "//f/inbox"}).items()]
        sending = deliverer(resolver_map=farm.resolver_path)
        async with running(sending):
            await sending.send(LIKE, SENDER, given)
            await ended(3)
        assert [(row["state"]) for row in await db.jobs.find().sort("lane").to_list()] == [
            "delivered",
            "delivered",
            "refused",
        ]
        assert {arrival.inbox for arrival in farm.ledger()} == set(given)
    explain = ["explain", LIKE["id"], "--mongo-url", mongod_url, "--database", db.name]
    assert await asyncio.to_thread(main, explain) == 0
    (_, *told) = capsys.readouterr().out.split("\nhttp://")
    (wrong,) = [one for one in told if "refused" in one]
    where, what = wrong.splitlines()
    assert f"http://{where}" == given[2]
    assert what.startswith("  refused · ")
    assert what.endswith(" · 1 attempt · last status-404 cavage")


@pytest.mark.parametrize("first", ["cavage", "rfc9421"])
async def test_r06_the_farm_sees_the_host_that_was_signed(deliverer, db, ended, farm, first):
    """It compares the signed host with the Host field, which has a port here; `test_knock.py` has the other forms."""
    here = farm({f"{first}-only": 2})
    sending = deliverer(resolver_map=here.resolver_path, config=DelivererConfig(poll_every_s=0.05, first_scheme=first))
    async with running(sending):
        await sending.send(LIKE, SENDER, [inbox.replace("h0", "H0") for inbox in here.inboxes()])
        await ended(2)
    assert judge(here.ledger()).clean
    assert {arrival.status for arrival in here.ledger()} == {202}
    assert {arrival.inbox for arrival in here.ledger()} == set(here.inboxes())


async def test_r06_a_default_port_is_no_other_host(deliverer, db):
    queueing = deliverer()
    forms = ["http://h.test:80/i", "http://h.test/i", "http://H.Test:80/i", "http://h.test./i"]
    sent = [await queueing.send(LIKE, SENDER, [form]) for form in forms]
    await queueing.send(LIKE, SENDER, ["https://h.test:443/i", "http://h.test:8081/i", "http://[::1]:8081/i"])
    await queueing.close()
    assert [one.new for one in sent] == [1, 0, 0, 0], "one lane and one dedupe key"
    assert {(row["lane"], row["inbox"]) async for row in db.jobs.find()} == {
        ("h.test", "http://h.test/i"),
        ("h.test", "https://h.test/i"),
        ("h.test:8081", "http://h.test:8081/i"),
        ("[::1]:8081", "http://[::1]:8081/i"),
    }


async def test_r06_an_address_stands_in_brackets(deliverer, db, ended):
    sending = deliverer()
    async with raw_inbox(always(ACCEPTED), address="::1") as inbox, running(sending):
        await sending.send(LIKE, SENDER, [inbox.url(host="[::1]")])
        await ended(1)
        assert [one.field("host") for one in inbox.received] == [f"[::1]:{inbox.port}"]


def insisting(*answers: bytes) -> Script:
    """Answers so in turn, to requests with a length; 411 to others, and 400 to what HTTP/1.0 does not know."""
    left = list(answers)

    async def script(peer: Peer) -> None:
        while True:
            received = await peer.request()
            if received.field("transfer-encoding") or received.field("expect"):
                await peer.send(b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n")
            elif received.field("content-length") != str(len(received.body)):
                await peer.send(b"HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\n\r\n")
            else:
                await peer.send(left.pop(0))

    return script


BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
OTHER_SCHEME = b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("size", [2, 70_000, 1 << 20])
async def test_r09_first_sends_retries_second_knocks_and_deliver_have_a_length(deliverer, db, ended, keys_dir, size):
    body = b"{}" if size == 2 else b'{"content":"' + b"x" * (size - 14) + b'"}'
    assert len(body) == size
    async with raw_inbox(insisting(BUSY, OTHER_SCHEME, ACCEPTED, OTHER_SCHEME, ACCEPTED)) as inbox:
        sending = deliverer()
        async with running(sending):
            await sending.send(body, SENDER, [inbox.url()])

            async def to_be_retried() -> bool:
                return await db.jobs.count_documents({"state": "queued", "tries": 1}) == 1

            await until(to_be_retried)
            await db.jobs.update_many({}, [{"$set": {"run_at": "$$NOW"}}])
            await lower_due(db, [Due(authority=f"127.0.0.1:{inbox.port}", priority=Priority.SMALL)])
            await ended(1)
        assert await count_by_state(db) == {"delivered": 1}
        keys = await FolderSenderKeys(keys_dir).keys_of(SENDER)
        await deliver(body, inbox.url(), keys.rsa, allow=LOOPBACK)
        assert [one.body for one in inbox.received] == [body] * 5


def saying(*pieces: bytes, every_s: float, endless: bool = False) -> Script:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            for piece in pieces:
                await peer.send(piece)
                await asyncio.sleep(every_s)
            while endless:
                await peer.send(pieces[-1])
                await asyncio.sleep(every_s * 5)
            await peer.gone()

    return script


def interim(status: str, *fields: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode()


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("every_s", "request_s"), [(0.02, 1.0), pytest.param(0.2, 30.0, marks=pytest.mark.long)], ids=["scaled", "full"]
)
async def test_r13_interim_answers_hold_no_slot_beyond_the_time_of_a_request(
    deliverer, db, ended, every_s: float, request_s: float
):
    """Four inboxes and one slot for each two of them: who never answers leaves it, once, and with a reason."""
    early = interim("103 Early Hints", "Link: </style.css>; rel=preload")
    scripts = {
        "patient": saying(
            interim("100 Continue"), interim("102 Processing"), early, early, early, ACCEPTED, every_s=every_s
        ),
        "endless": saying(interim("102 Processing"), every_s=every_s, endless=True),
        "unasked": saying(interim("199 What"), every_s=every_s),
        "upgrade": saying(interim("101 Switching Protocols", "Upgrade: x", "Connection: upgrade"), every_s=every_s),
    }
    attempts: list[DeliveryAttempt] = []
    config = DelivererConfig(
        poll_every_s=0.05, concurrency=2, request_s=request_s, read_s=request_s / 3, lease_s=request_s * 2
    )
    sending = deliverer(config=config, on_attempt=attempts.append)
    async with (
        raw_inbox(scripts["patient"]) as patient,
        raw_inbox(scripts["endless"]) as endless,
        raw_inbox(scripts["unasked"]) as unasked,
        raw_inbox(scripts["upgrade"]) as upgrade,
        running(sending),
    ):
        inboxes: dict[str, RawInbox] = {
            "patient": patient,
            "endless": endless,
            "unasked": unasked,
            "upgrade": upgrade,
        }
        await sending.send(LIKE, SENDER, [inbox.url() for inbox in inboxes.values()])

        async def all_came_out() -> bool:
            return len({attempt.inbox for attempt in attempts}) == 4

        await until(all_came_out, within_s=request_s * 4)
        came = {attempt.inbox: attempt for attempt in reversed(attempts)}
        reasons = {name: came[inbox.url()].reason for name, inbox in inboxes.items()}
        assert reasons == {
            "patient": "",
            "endless": "interim-only",
            "unasked": "interim-only",
            "upgrade": "bad-answer",
        }
        assert came[endless.url()].phases.post_ms < request_s * 1000 + 1000
        # What came out after a third of a request's time may have been tried again by its own, at full length.
        most = 1 if request_s < 16 else 2
        assert max(len(inbox.received) for inbox in inboxes.values()) <= most, "no hot loop"
    assert await count_by_state(db) == {"delivered": 1, "queued": 3}


NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.mark.parametrize("case", [str.upper, str.lower], ids=["upper", "lower"])
async def test_r63_a_run_uses_no_proxy_of_the_environment_and_says_so_once(
    deliverer, db, ended, farm, monkeypatch, *, caplog, case
):
    here = farm({"accept": 3})
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    async with raw_inbox(always(ACCEPTED)) as proxy:
        for name in NAMES:
            monkeypatch.setenv(case(name), "elsewhere.test" if name == "NO_PROXY" else proxy.url(""))
        caplog.set_level(logging.INFO)
        sending = deliverer(resolver_map=here.resolver_path)
        async with running(sending):
            await sending.send(LIKE, SENDER, here.inboxes())
            await ended(3)
        assert proxy.connections == 0
    assert await count_by_state(db) == {"delivered": 3}
    (told,) = [record for record in caplog.records if "not used" in record.message]
    assert told.__dict__["variables"] == sorted(map(case, NAMES))


async def test_r63_a_run_uses_the_proxy_that_is_configured_and_says_who_guards_then(deliverer, db, ended, caplog):
    caplog.set_level(logging.INFO)
    async with raw_inbox(always(ACCEPTED)) as proxy:
        # The guard lets no address through: what the proxy dials is out of its sight.
        sending = deliverer(proxy=proxy.url(""), allow_networks=())
        async with running(sending):
            await sending.send(LIKE, SENDER, ["http://far.test/inbox"])
            await ended(1)
        assert [one.line for one in proxy.received] == ["POST http://far.test/inbox HTTP/1.1"]
    assert await count_by_state(db) == {"delivered": 1}
    assert len([record for record in caplog.records if "the proxy, which has to guard" in record.message]) == 1
