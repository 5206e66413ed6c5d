# SPDX-License-Identifier: Apache-2.0
"""Portable inboxes: one attempt asks the gateways in order, each in the lane of its host (SPEC section 3)."""

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from ojak import (
    AttemptOutcome,
    Batch,
    Deliverer,
    DelivererConfig,
    Outbound,
    PortableInbox,
    SentState,
    Settled,
    SettledOutcome,
)
from ojak.farm.behaviour import Respond
from ojak.farm.report import Counted
from ojak.store.counts import count_by_state

from .conftest import SENDER, running
from .gateways import ACTIVITY, CONFIG, DID, PATH, URI, authority, let_come, origins, were_tried

ROOT = Path(__file__).parents[2]


async def test_the_second_gateway_takes_what_the_first_does_not_in_the_same_attempt(farm, deliverer_to, db, told):
    here = farm({"status:500": 1, "accept": 1})
    first, second = origins(here, "status:500", "accept")
    deliverer = deliverer_to(here, config=CONFIG, **told.callbacks())
    sent = await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, [first, second], ref="bob")])
    assert [(one.state, one.url) for one in sent.inboxes.values()] == [(SentState.NEW, URI)]
    async with running(deliverer):
        end = await told.end()
    assert isinstance(end, Settled)
    assert (end.outcome, end.inbox, end.ref, end.attempts, end.status) == (
        SettledOutcome.DELIVERED,
        URI,
        "bob",
        1,
        202,
    )
    assert [(one.gateway, one.outcome, one.number, one.status) for one in told.attempts] == [
        (first, AttemptOutcome.PASSED_ON, 1, 500),
        (second, AttemptOutcome.DELIVERED, 1, 202),
    ]
    assert {one.inbox for one in told.attempts} == {URI}
    arrivals = here.ledger().arrivals
    assert [arrival.inbox for arrival in arrivals] == [f"{first}{PATH}", f"{second}{PATH}"]
    assert {arrival.verdict for arrival in arrivals} == {"verified"}, "each gateway's request is signed for it"
    row = await db.jobs.find_one()
    assert (row["dest"], row["lane"], row["at"], row["tries"]) == (URI, authority(second), 1, 1)


async def test_a_failure_of_a_gateway_counts_for_its_host_and_a_success_teaches_no_scheme(farm, deliverer_to, db, told):
    here = farm({"status:500": 1, "rfc9421-only": 1})
    first, second = origins(here, "status:500", "rfc9421-only")
    deliverer = deliverer_to(here, config=CONFIG, breakers="shared", **told.callbacks())
    async with running(deliverer):
        await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, [first, second])])
        await told.end()
        # Both knocks, at the gateway that refuses the first scheme; an ordinary inbox there would have taught it.
        assert [arrival.scheme for arrival in here.ledger().arrivals] == ["cavage", "cavage", "rfc9421"]
        failed = await db.hosts.find_one({"_id": authority(first)})
        assert failed["breaker"]["failures"] == 1
        await deliverer.send_portable(
            {"id": "https://a.test/2", "type": "Like"}, SENDER, [PortableInbox(URI, [second])]
        )
        await told.end()
    assert [arrival.scheme for arrival in here.ledger().arrivals][3:] == ["cavage", "rfc9421"], "it was not learnt"
    assert "scheme" not in await db.hosts.find_one({"_id": authority(second)})


@pytest.mark.parametrize(
    "answers",
    [(404, 410, SettledOutcome.RECIPIENT_GONE), (404, 405, SettledOutcome.REFUSED), (302, 403, SettledOutcome.REFUSED)],
)
async def test_it_is_final_when_every_gateway_answered_finally(
    farm, deliverer_to, db, told, answers: tuple[int, int, SettledOutcome]
):
    *statuses, outcome = answers
    here = farm({f"status:{status}": 1 for status in statuses})
    gateways = origins(here, *(f"status:{status}" for status in statuses))
    deliverer = deliverer_to(here, config=CONFIG, **told.callbacks())
    async with running(deliverer):
        await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, gateways)])
        end = await told.end()
    assert (end.outcome, end.attempts, end.status) == (outcome, 1, statuses[1])
    row = await db.jobs.find_one()
    assert [(one["at"], one["status"]) for one in row["last"]["tried"]] == list(enumerate(statuses))
    assert "tried" not in row
    assert told.attempts[-1].outcome.value == outcome.value


async def test_one_gateway_that_may_recover_leaves_it_retried_and_the_attempt_counts_once(farm, deliverer_to, db, told):
    here = farm({"status:404": 1, "status:503": 1})
    gateways = origins(here, "status:404", "status:503")
    deliverer = deliverer_to(here, config=CONFIG, **told.callbacks())
    async with running(deliverer):
        await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, gateways)])
        await until(lambda: were_tried(db, 1))
        row = await db.jobs.find_one()
        assert (row["lane"], row["at"], row["tried"]) == (authority(gateways[0]), 0, []), "it starts over"
        assert 15 < (row["run_at"] - row["queued_at"]).total_seconds() < 30
        assert [one["status"] for one in row["last"]["tried"]] == [404, 503]
        here.client.behave("status:503", Respond(status=202))
        await let_come(db)
        end = await told.end()
    assert (end.outcome, end.attempts) == (SettledOutcome.DELIVERED, 2)
    assert [one.number for one in told.attempts] == [1, 1, 2, 2]
    assert [one.outcome for one in told.attempts[:2]] == [AttemptOutcome.PASSED_ON, AttemptOutcome.RETRY]


async def test_two_a_host_holds_when_many_come_to_one_gateway_from_elsewhere(farm, deliverer_to, db, told):
    """Fifty whose first gateways are many hosts, in other shards and other workers, and whose second is one."""
    here = farm({"status:500": 25, "accept:60": 1})
    firsts, (second,) = origins(here, "status:500"), origins(here, "accept:60")
    config = DelivererConfig(poll_every_s=0.05, concurrency=32, concurrency_max=32)
    workers = [deliverer_to(here, config=config, expected=3, **told.callbacks()) for _ in range(3)]
    inboxes = [PortableInbox(f"{URI}/{n}", [firsts[n % 25], second]) for n in range(50)]
    async with running(*workers):
        await until(lambda: _owners(db, 3))
        await workers[0].send_portable(ACTIVITY, SENDER, inboxes)
        ends = [await told.end() for _ in inboxes]
    assert {(end.outcome, end.attempts) for end in ends} == {(SettledOutcome.DELIVERED, 1)}
    arrivals = here.ledger().arrivals
    assert len(arrivals) == 100, "each gateway was asked once"
    assert max(arrival.open_requests for arrival in arrivals) == 2


@pytest.mark.parametrize("step", ["announce_rows", "queue_rows"])
async def test_a_worker_killed_in_the_middle_of_a_move_loses_nothing(
    farm, deliverer_to, db, mongod_url, keys_dir, *, told, step
):
    here = farm({"status:500": 1, "accept": 1})
    gateways = origins(here, "status:500", "accept")
    config = DelivererConfig(
        poll_every_s=0.05, request_s=1, lease_s=1.5, shard_lease_s=1, reap_every_s=0.2, breaker_threshold=1000
    )
    heir = deliverer_to(here, config=config, **told.callbacks())
    inboxes = [PortableInbox(f"{URI}/{n}", gateways) for n in range(30)]
    await heir.send_portable(ACTIVITY, SENDER, inboxes)
    arguments = ["-m", "tests.e2e.mover", mongod_url, db.name, str(keys_dir), str(here.resolver_path), step]
    worker = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert worker.stdout is not None
    assert await asyncio.wait_for(worker.stdout.readline(), 20) == b"here\n"
    worker.kill()
    await worker.wait()
    had = [row["inbox"] async for row in db.jobs.find({"state": "leased"})]
    assert had
    async with running(heir):
        await until(lambda: _all_ended(db, 30))
    assert await count_by_state(db) == {"delivered": 30}
    assert {row["tries"] async for row in db.jobs.find()} == {1}, "one attempt, though two workers made it"
    accepted = Counter(arrival.inbox for arrival in here.ledger().arrivals if arrival.accepted)
    assert len(accepted) == 30
    twice = [inbox for inbox, count in accepted.items() if count > 1]
    assert max(accepted.values()) <= 2
    assert {inbox.removeprefix(gateways[1]) for inbox in twice} <= {f"{PATH}{uri.removeprefix(URI)}" for uri in had}
    assert max(arrival.open_requests for arrival in here.ledger().arrivals) <= 2


async def _all_ended(db: Any, count: int) -> bool:
    return await db.jobs.count_documents({"state": "delivered"}) == count


async def _owners(db: Any, count: int) -> bool:
    owners = await db.shards.aggregate([{"$group": {"_id": "$owner", "count": {"$sum": 1}}}])
    found = [row async for row in owners]
    return len(found) == count and all(row["_id"] is not None and row["count"] > 50 for row in found)


async def test_the_same_inbox_in_another_form_or_with_other_gateways_is_the_same_delivery(farm, deliverer_to, db, told):
    here = farm({"accept": 1, "accept:1": 1})
    first, other = origins(here, "accept", "accept:1")
    deliverer = deliverer_to(here, config=CONFIG, **told.callbacks())
    forms = [
        PortableInbox(f"ap+ef61://{DID}/actor/inbox", [other]),
        PortableInbox(f"{other}{PATH}"),
        PortableInbox(f"ap://{DID.replace(':', '%3A')}/actor/inbox?gateways=x", [other, first]),
    ]
    sent = await deliverer.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, [first])])
    assert sent.new == 1
    for form in forms:
        again = await deliverer.send_portable(ACTIVITY, SENDER, [form])
        assert [(one.state, one.url) for one in again.inboxes.values()] == [(SentState.DUPLICATE, URI)]
    plain = await deliverer.send(ACTIVITY, SENDER, [f"{other}{PATH}"])
    assert plain.inboxes[f"{other}{PATH}"].state is SentState.DUPLICATE, "a plain inbox in the compatible form too"
    async with running(deliverer):
        await told.end()
        again = await deliverer.send_portable(ACTIVITY, SENDER, [forms[1]])
    assert [arrival.inbox for arrival in here.ledger().arrivals] == [f"{first}{PATH}"], "what waits takes over nothing"
    assert again.inboxes[f"{other}{PATH}"].state is SentState.ENDED


async def test_order_holds_across_gateways_and_a_delete_drops_its_create(farm, deliverer_to, db, ended):
    here = farm({"status:500": 1, "accept": 1, "accept:1": 1})
    bad, good, other = origins(here, "status:500", "accept", "accept:1")
    deliverer = deliverer_to(here, config=CONFIG)
    note = {"id": "https://a.test/notes/1", "type": "Note"}
    for number, gateways in enumerate([[bad, good], [other], [good, bad]]):
        activity = {"id": f"https://a.test/u{number}", "type": "Update", "object": note}
        await deliverer.send_portable(activity, SENDER, [PortableInbox(URI, gateways)])
    assert await count_by_state(db) == {"queued": 1, "blocked": 2}
    post = {"id": "https://a.test/notes/2", "type": "Note"}
    create = {"id": "https://a.test/c", "type": "Create", "object": post}
    delete = {"id": "https://a.test/d", "type": "Delete", "object": post}
    await deliverer.send_portable(create, SENDER, [PortableInbox(URI, [bad, good])])
    await deliverer.send_portable(delete, SENDER, [PortableInbox(f"{good}{PATH}")])
    async with running(deliverer):
        await ended(5)
    assert await count_by_state(db) == {"delivered": 4, "superseded": 1}
    went = [a.activity for a in sorted(here.ledger().arrivals, key=lambda one: one.seq) if a.accepted]
    assert [one for one in went if "/u" in one] == [f"https://a.test/u{n}" for n in range(3)]
    assert "https://a.test/c" not in went


async def test_batches_cancel_and_replay_work_as_for_any_delivery(farm, deliverer_to, db, told):
    here = farm({"status:404": 1, "status:405": 1})
    gateways = origins(here, "status:404", "status:405")
    deliverer: Deliverer = deliverer_to(here, config=CONFIG, **told.callbacks())
    inboxes = [PortableInbox(f"{URI}/{n}", gateways) for n in range(3)]
    await deliverer.send_portable(ACTIVITY, SENDER, inboxes, batch=Batch(tag="b"))
    cancelled = await deliverer.cancel(batch="b")
    assert (cancelled.count, cancelled.on_wire) == (3, 0)
    await deliverer.send_portable(ACTIVITY, SENDER, inboxes, batch=Batch(tag="b"))
    async with running(deliverer):
        ends = [await told.end() for _ in range(3)]
        assert {end.outcome for end in ends} == {SettledOutcome.REFUSED}
        assert (await deliverer.follow("b")).counts == {"refused": 3}
        here.client.behave("status:404", Respond(status=202))
        replayed = await deliverer.replay(activity=ACTIVITY["id"])
        assert replayed.count == 3
        ends = [await told.end() for _ in range(3)]
    assert {(end.outcome, end.attempts) for end in ends} == {(SettledOutcome.DELIVERED, 1)}
    accepted = [arrival for arrival in here.ledger().arrivals if arrival.accepted]
    assert {arrival.host for arrival in accepted} == {here.labelled("status:404")[0].name}, "they start over"


async def test_a_drain_in_the_middle_goes_on_where_it_was(farm, deliverer_to, db, told):
    here = farm({"status:500": 1, "accept:8000": 1})
    gateways = origins(here, "status:500", "accept:8000")
    config = DelivererConfig(poll_every_s=0.05, drain_s=0.1)
    first = deliverer_to(here, config=config, **told.callbacks())
    await first.send_portable(ACTIVITY, SENDER, [PortableInbox(URI, gateways)])
    async with running(first):
        assert await asyncio.to_thread(here.client.wait, Counted.OPEN, "accept:8000", at_least=1)
    row = await db.jobs.find_one()
    assert (row["state"], row["lane"], row["tries"], row["maybe"]) == ("queued", authority(gateways[1]), 0, 1)
    here.client.heal("accept:8000")
    second = deliverer_to(here, config=config, **told.callbacks())
    async with running(second):
        end = await told.end()
    assert (end.outcome, end.attempts) == (SettledOutcome.DELIVERED, 1)
    assert len([a for a in here.ledger().arrivals if a.host == here.labelled("status:500")[0].name]) == 1


async def test_a_gateway_in_a_blocked_domain_is_as_if_it_was_not_listed(farm, deliverer_to, db, told):
    here = farm({"accept": 1, "status:404": 1})
    first, second = origins(here, "accept", "status:404")
    blocked = Outbound(blocked_domains=(here.labelled("accept")[0].name,)).blocked
    deliverer = deliverer_to(here, config=CONFIG, **told.callbacks())
    both, alone = PortableInbox(URI, [first, second]), PortableInbox(f"{URI}/2", [first])
    await deliverer.send_portable(ACTIVITY, SENDER, [both, alone])
    deliverer._blocked = blocked
    async with running(deliverer):
        ends = [await told.end() for _ in range(2)]
        assert {end.inbox: (end.outcome, end.attempts) for end in ends} == {
            URI: (SettledOutcome.RECIPIENT_GONE, 1),
            f"{URI}/2": (SettledOutcome.BLOCKED, 0),
        }
        sent = await deliverer.send_portable({"id": "https://a.test/2", "type": "Like"}, SENDER, [both, alone])
        assert list(sent.refused) == [f"{URI}/2"]
        assert "blocked domains" in sent.refused[f"{URI}/2"]
        await told.end()
    assert {arrival.inbox for arrival in here.ledger().arrivals} == {f"{second}{PATH}"}
    assert len(here.ledger().arrivals) == 2
    assert {attempt.gateway for attempt in told.attempts} == {second}


async def test_what_cannot_be_sent_to_is_told_beside_the_others(farm, deliverer_to, db):
    here = farm({"accept": 1})
    deliverer = deliverer_to(here, config=CONFIG)
    good = PortableInbox(URI, origins(here, "accept"))
    bad = PortableInbox(f"{URI}/2", ["ftp://g.example"])
    sent = await deliverer.send_portable(ACTIVITY, SENDER, [good, bad])
    assert sent.new == 1
    assert sent.refused == {
        f"{URI}/2": "inbox gateways[0] scheme is 'ftp'; allowed: http or https",
    }
    await deliverer.close()
