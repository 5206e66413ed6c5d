# SPDX-License-Identifier: Apache-2.0
import asyncio
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from tests.waiting import until

from ojak import (
    DelivererConfig,
    DeliveryAttempt,
    FolderSenderKeys,
    Inbox,
    InvalidActivity,
    SentState,
    Settled,
    SettledOutcome,
    UnknownSender,
)
from ojak.farm import Delivery, judge
from ojak.store.counts import count_by_state

from .conftest import SENDER, running

ACTIVITY = (
    b'{"@context":"https://www.w3.org/ns/activitystreams",  "id":"https://a.test/1",'
    b'"type":"Like","object":"https://b.test/2"}'
)


async def test_an_activity_arrives_byte_for_byte_signed_and_is_told(farm, deliverer_to, ended, db):
    here = farm({"accept": 3})
    told: asyncio.Queue[Settled] = asyncio.Queue()
    attempts: list[DeliveryAttempt] = []
    deliverer = deliverer_to(here, on_settled=told.put, on_attempt=attempts.append)
    async with running(deliverer):
        sent = await deliverer.send(ACTIVITY, SENDER, [*here.inboxes()[:2], Inbox(here.inboxes()[2], ref="third")])
        assert sent.new == 3
        settled = [await asyncio.wait_for(told.get(), 20) for _ in range(3)]
    assert {item.outcome for item in settled} == {SettledOutcome.DELIVERED}
    assert {item.ref for item in settled} == {None, "third"}
    assert {item.inbox for item in settled} == set(here.inboxes())
    assert all((item.status, item.attempts, item.end) == (202, 1, 1) for item in settled)
    assert [(item.scheme, item.number, item.body_bytes) for item in attempts] == [("cavage", 1, len(ACTIVITY))] * 3
    arrivals = here.ledger().arrivals
    assert len(arrivals) == 3
    assert {arrival.body_sha256 for arrival in arrivals} == {sha256(ACTIVITY).hexdigest()}
    expected = [Delivery(activity="https://a.test/1", inbox=inbox) for inbox in here.inboxes()]
    assert judge(arrivals, expected=expected).clean
    assert await db.jobs.count_documents({"told": True, "expire_at": {"$exists": True}}) == 3


async def test_over_tls_with_the_farms_authority(farm, deliverer_to, ended):
    here = farm({"accept": 2}, tls=True)
    deliverer = deliverer_to(here)
    async with running(deliverer):
        await deliverer.send(ACTIVITY, SENDER, here.inboxes())
        await ended(2)
    assert judge(here.ledger().arrivals).clean


@pytest.mark.parametrize(
    ("word", "state", "reason"),
    [
        ("status:404", "refused", "status-404"),
        ("status:501", "refused", "status-501"),
        ("redirect", "refused", "status-308"),
        ("gone", "recipient-gone", "status-410"),
        ("html", "delivered", "html-answer"),
        ("no-scheme", "refused", "status-401"),
        ("cavage-only", "delivered", ""),
        ("rfc9421-only", "delivered", ""),
    ],
)
async def test_an_answer_ends_a_delivery_as_the_table_says(farm, deliverer_to, ended, db, *, word, state, reason):
    here = farm({word: 1})
    deliverer = deliverer_to(here)
    async with running(deliverer):
        await deliverer.send(ACTIVITY, SENDER, here.inboxes())
        await ended(1)
    row = await db.jobs.find_one()
    assert (row["state"], row["last"]["reason"], row["tries"]) == (state, reason, 1)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("status:500", "status-500"),
        ("status:429", "status-429"),
        ("refuse", "connect-refused"),
        ("reset", "reset"),
        ("cut", "closed-before-answer"),
    ],
)
async def test_what_may_pass_is_retried_by_the_curve(farm, deliverer_to, db, word, reason):
    here = farm({word: 1})
    deliverer = deliverer_to(here)
    async with running(deliverer):
        await deliverer.send(ACTIVITY, SENDER, here.inboxes())

        async def retried() -> bool:
            return await db.jobs.count_documents({"state": "queued", "tries": 1}) == 1

        await until(retried)
    row = await db.jobs.find_one()
    assert row["last"]["reason"] == reason
    host = await db.hosts.find_one()
    # The failure lies between the queueing and now, and each write has its own time, however long this machine stands
    # still between them.
    after = await db.server_clock()
    assert row["queued_at"] <= host["last_failure"] <= after
    assert (row["run_at"] - row["queued_at"]).total_seconds() >= 16
    assert row["run_at"] <= host["due"]["0"]
    assert (host["due"]["0"] - after).total_seconds() <= 26.5


async def test_a_host_that_takes_one_scheme_is_remembered_and_knocked_at_once(farm, deliverer_to, ended, db):
    here = farm({"rfc9421-only": 1})
    deliverer = deliverer_to(here)
    async with running(deliverer):
        await deliverer.send(ACTIVITY, SENDER, here.inboxes())
        await ended(1)
        await deliverer.send({"id": "https://a.test/2", "type": "Like"}, SENDER, here.inboxes())
        await ended(2)
    assert [arrival.status for arrival in here.ledger().arrivals] == [401, 202, 202]
    host = await db.hosts.find_one()
    assert host["scheme"]["name"] == "rfc9421"


async def test_retry_after_holds_the_whole_host(farm, deliverer_to, db):
    here = farm({"rate-limited:1,60": 1})
    deliverer = deliverer_to(here)
    async with running(deliverer):
        await deliverer.send(ACTIVITY, SENDER, here.inboxes())

        async def held() -> bool:
            host = await db.hosts.find_one({"last_failure": {"$exists": True}})
            return host is not None and (host["hold_until"] - host["last_failure"]).total_seconds() > 59

        await until(held)
        await deliverer.send({"id": "https://a.test/2", "type": "Like"}, SENDER, here.inboxes())
        host = await db.hosts.find_one()
        assert host["ready"]["0"] == host["hold_until"]
    assert len(here.ledger().arrivals) == 1


async def test_a_gate_holds_at_once_whatever_waits_for_the_host(farm, deliverer_to, db):
    """The worker that gets the 429 must not begin what it has leased, nor lease what it handed back."""
    here = farm({"rate-limited:1,60": 1})
    deliverer = deliverer_to(here)
    for n in range(60):
        await deliverer.send({"id": f"https://a.test/{n}", "type": "Like"}, SENDER, here.inboxes())
    async with running(deliverer):

        async def all_back() -> bool:
            return (
                await db.jobs.count_documents({"state": "queued"}) >= 58
                and await db.hosts.count_documents({"hold_until": {"$gt": datetime.now(UTC) + timedelta(seconds=30)}})
                == 1
            )

        await until(all_back)
        # A claim that was under way may still come in; nothing of it is sent.
        await deliverer.send({"id": "https://a.test/last", "type": "Like"}, SENDER, here.inboxes())
        await until(all_back)
    assert len(here.ledger().arrivals) <= 2, "the one that was answered, and one that was open beside it"


async def test_never_more_than_two_requests_to_a_host_at_once(farm, deliverer_to, ended):
    here = farm({"accept:50": 2})
    deliverers = [deliverer_to(here) for _ in range(2)]
    async with running(*deliverers):
        for n in range(12):
            await deliverers[n % 2].send({"id": f"https://a.test/{n}", "type": "Like"}, SENDER, here.inboxes())
        await ended(24)
    verdict = judge(here.ledger().arrivals, limit=2)
    assert (verdict.double, verdict.unverified, verdict.over_limit) == (0, 0, 0)
    assert max(arrival.open_requests for arrival in here.ledger().arrivals) == 2


async def test_a_bad_inbox_among_good_ones_is_reported_and_the_others_are_queued(farm, deliverer_to, ended):
    here = farm({"accept": 2})
    deliverer = deliverer_to(here)
    async with running(deliverer):
        sent = await deliverer.send(ACTIVITY, SENDER, [here.inboxes()[0], "not a url", here.inboxes()[1]])
        await ended(2)
    assert sent.inboxes["not a url"].state is SentState.REFUSED
    assert "not a url" in str(sent.inboxes["not a url"].reason)
    assert sent.new == 2


async def test_an_unknown_sender_and_a_bad_activity_queue_nothing(farm, deliverer_to, db):
    here = farm()
    deliverer = deliverer_to(here, config=DelivererConfig(max_body_bytes=100))
    with pytest.raises(UnknownSender, match=r"https://nobody\.test/"):
        await deliverer.send({"id": "https://a.test/1"}, "https://nobody.test/", here.inboxes())
    for bad, match in ((b"[1]", "JSON array"), (b"{", "not JSON"), (b'{"a":"%s"}' % (b"x" * 100), "108 bytes")):
        with pytest.raises(InvalidActivity, match=match):
            await deliverer.send(bad, SENDER, here.inboxes())
    await deliverer.close()
    assert await count_by_state(db) == {}


async def test_a_sender_whose_key_is_gone_waits_and_its_host_is_not_blamed(farm, deliverer_to, db, keys_dir: Path):
    leaver = "https://a.test/users/leaver"
    FolderSenderKeys(keys_dir).generate(leaver)
    here = farm()
    deliverer = deliverer_to(here)
    await deliverer.send(ACTIVITY, leaver, here.inboxes())
    for path in FolderSenderKeys(keys_dir).paths_of(leaver):
        path.unlink(missing_ok=True)
    async with running(deliverer):

        async def waits() -> bool:
            return await db.jobs.count_documents({"last.reason": "key-missing", "state": "aside"}) == 1

        await until(waits)
    row = await db.jobs.find_one()
    assert (row["tries"], row["deaths"]) == (0, 0)
    assert here.ledger().arrivals == ()


async def test_stopping_hands_back_what_was_not_begun_and_finishes_what_was(farm, deliverer_to, db):
    here = farm({"accept:300": 1})
    deliverer = deliverer_to(here)
    for n in range(6):
        await deliverer.send({"id": f"https://a.test/{n}", "type": "Like"}, SENDER, here.inboxes())
    async with running(deliverer):
        await until(lambda: _arrived(here, 1))
    states = await count_by_state(db)
    assert states["delivered"] + states["queued"] == 6
    assert states["queued"] >= 3
    blamed = [{"tries": {"$gt": 0}}, {"deaths": {"$gt": 0}}]
    assert await db.jobs.count_documents({"state": "queued", "$or": blamed}) == 0
    assert await db.shards.count_documents({"owner": {"$ne": None}}) == 0
    assert judge(here.ledger().arrivals).double == 0


async def _arrived(farm, count: int) -> bool:
    return len(farm.ledger().arrivals) >= count


async def test_a_small_send_does_not_wait_behind_a_fan_out(farm, deliverer_to, ended):
    here = farm({"accept": 40})
    deliverer = deliverer_to(here)
    for n in range(25):
        await deliverer.send({"id": f"https://a.test/f{n}", "type": "Create"}, SENDER, here.inboxes())
    async with running(deliverer):
        await until(lambda: _arrived(here, 50))
        await deliverer.send({"id": "https://a.test/direct", "type": "Follow"}, SENDER, here.inboxes()[:1])
        # On a busy machine many went before it was handed over; it is what goes after that which counts.
        before = len(here.ledger().arrivals)
        await ended(1001, within_s=60)
    order = [arrival.activity for arrival in sorted(here.ledger().arrivals, key=lambda arrival: arrival.seq)]
    assert before < 800, "there was nothing left to go before"
    assert order.index("https://a.test/direct") < before + 150
