# SPDX-License-Identifier: Apache-2.0
"""A portable delivery on its way from one gateway's lane to another's, with whatever may come in between."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from ojak.model.activity import activity_of
from ojak.model.domains import BlockedDomains
from ojak.model.failover import Came, Tried
from ojak.model.job import Job, Priority
from ojak.model.outcome import SettledOutcome
from ojak.model.portable import PortableInbox
from ojak.model.selection import Selection
from ojak.store import claim as claim_module
from ojak.store import move as move_module
from ojak.store.cancel import cancel_selected, still_undecided
from ojak.store.claim import ReadyHost
from ojak.store.database import Document, QueueDatabase
from ojak.store.enqueue import enqueue
from ojak.store.handover import hand_over
from ojak.store.lane import NextDue
from ojak.store.move import Moved, announce_rows, move_rows, queue_rows, write_moves
from ojak.store.now import EPOCH
from ojak.store.order import promote
from ojak.store.reap import reap_expired
from ojak.store.recipients import new_job
from ojak.store.settle import Retried
from ojak.store.supersede import superseded
from ojak.store.sweep import mend_dues
from ojak.store.waiting import hold_waiting, waiting_in, waiting_lanes

from .claiming import Hand

URI = "ap://did:key:z6Mk/inbox"
GATEWAYS = ("https://g0.test", "https://g1.test", "https://g2.test")
LEASE_S = 120.0
SENDER = "https://a.test/u"

Send = Callable[..., Awaitable[None]]


@pytest.fixture
def timed(db: QueueDatabase) -> QueueDatabase:
    """The queue, with a clock that only the test turns."""
    db.now.turn(datetime.now(UTC).replace(microsecond=0))
    return db


@pytest.fixture
def send(db: QueueDatabase) -> Send:
    async def send(
        uri: str = URI, *, activity: str = "https://a.test/1", kind: str = "Like", about: str | None = None
    ) -> None:
        content = {"id": activity, "type": kind} | ({"object": {"id": about}} if about else {})
        handover = await hand_over(
            db, activity_of(content, max_bytes=1000), sender=SENDER, priority=Priority.FANOUT, kept_s=600
        )
        async for _ in enqueue(db, [new_job(PortableInbox(uri, GATEWAYS), BlockedDomains())], handover):
            pass

    return send


def to_next(job: Job, *, delay_s: float = 0.0, spent: bool = False) -> Moved:
    assert job.route is not None
    place = job.route.place + 1
    last = Tried(place=job.route.place, came=Came.FAILED, status=500, reason="status-500", scheme="cavage")
    return Moved(
        job=job,
        place=place,
        lane=f"g{place}.test",
        tried=(*job.route.tried, last),
        retry=Retried(
            job=job,
            delay_s=delay_s,
            spent=spent,
            status=500,
            reason="status-500",
            scheme="cavage",
            maybe_delivered=True,
        ),
    )


async def claims(hand: Hand) -> list[Job]:
    """What a worker claims that owns every host now, whoever did before."""
    await hand.db.shards.update_many({}, {"$set": {"until": EPOCH}})
    return await hand.claim()


async def only_row(db: QueueDatabase) -> Document:
    (row,) = [row async for row in db.jobs.find()]
    return row


def pass_time(db: QueueDatabase, seconds: float) -> None:
    assert db.now.literal is not None
    db.now.turn(db.now.literal + timedelta(seconds=seconds))


async def test_a_delivery_goes_on_at_the_next_gateway_with_what_was_tried(timed: QueueDatabase, send: Send):
    await send()
    hand = Hand(timed)
    for place in range(2):
        (job,) = await claims(hand)
        assert job.route is not None
        assert (job.lane, job.route.place, job.tries, job.url) == (
            f"g{place}.test",
            place,
            0,
            f"https://g{place}.test/.well-known/apgateway/did:key:z6Mk/inbox",
        )
        assert [one.place for one in job.route.tried] == list(range(place))
        assert await write_moves(timed, [to_next(job)], lease_s=LEASE_S) == {job.id}
    row = await only_row(timed)
    assert (row["state"], row["lane"], row["at"], row["tries"], row["maybe"]) == ("queued", "g2.test", 2, 0, 2)
    assert [(one["at"], one["came"], one["status"]) for one in row["tried"]] == [(0, "failed", 500), (1, "failed", 500)]
    assert await mend_dues(timed, lease_s=LEASE_S) == 0


STEPS = ["move_rows", "announce_rows", "queue_rows"]


@pytest.mark.parametrize("died_before", STEPS)
@pytest.mark.parametrize("looked", ["never", "after each step"])
async def test_wherever_its_mover_dies_the_delivery_is_found_within_a_lease(
    timed: QueueDatabase, send: Send, died_before: str, looked: str
):
    """In between, the new lane is claimed again and again: it must not be shown as idle for ever."""
    await send()
    mover, other = Hand(timed), Hand(timed)
    (job,) = await mover.claim(lease_s=LEASE_S)
    steps: dict[str, Callable[[], Awaitable[object]]] = {
        "move_rows": lambda: move_rows(timed, [to_next(job)]),
        "announce_rows": lambda: announce_rows(timed, [to_next(job)], lease_s=LEASE_S),
        "queue_rows": lambda: queue_rows(timed, [to_next(job)]),
    }
    for name in STEPS[: STEPS.index(died_before)]:
        await steps[name]()
        if looked != "never":
            assert await claims(other) == [], "it is held"
    pass_time(timed, LEASE_S + 1)
    if died_before != "queue_rows" or looked == "never":
        # Whoever looks before the reaper does finds the lease, and looks again when it ends.
        assert await claims(other) == []
    assert await reap_expired(timed, max_deaths=5) == 1
    assert await mend_dues(timed, lease_s=LEASE_S) == 0, "nothing is left to the sweep"
    (found,) = await claims(other)
    assert found.route is not None
    assert found.route.place == (0 if died_before == "move_rows" else 1)
    assert (found.tries, found.deaths) == (0, 1)


async def test_a_claim_that_read_the_lane_before_the_move_does_not_hide_it(
    timed: QueueDatabase, send: Send, monkeypatch: pytest.MonkeyPatch
):
    """Forced: a claim of the new lane pauses after reading it; the whole move comes before it writes when it is due."""
    await send()
    mover, other = Hand(timed), Hand(timed)
    (job,) = await claims(mover)
    # The lane of the next gateway has had work, and is being looked at.
    await announce_rows(timed, [to_next(job)], lease_s=0)
    read, go_on = asyncio.Event(), asyncio.Event()
    show = claim_module._show

    async def paused(
        db: QueueDatabase, hosts: Sequence[ReadyHost], dues: Sequence[NextDue], *, priority: Priority, lease_s: float
    ) -> None:
        read.set()
        await go_on.wait()
        await show(db, hosts, dues, priority=priority, lease_s=lease_s)

    monkeypatch.setattr(claim_module, "_show", paused)
    claiming = asyncio.create_task(claims(other))
    await asyncio.wait_for(read.wait(), 10)
    await write_moves(timed, [to_next(job)], lease_s=LEASE_S)
    go_on.set()
    assert await claiming == []
    assert [found.id for found in await claims(other)] == [job.id], "due now, not in a lease"


async def test_what_is_cancelled_on_its_way_asks_no_further_gateway(timed: QueueDatabase, send: Send):
    for step in range(3):
        await timed.jobs.delete_many({})
        await send()
        (job,) = await claims(Hand(timed))
        moves = [to_next(job)]
        if step > 0:
            await move_rows(timed, moves)
        if step > 1:
            await announce_rows(timed, moves, lease_s=LEASE_S)
        cancelling = await cancel_selected(timed, Selection(activity="https://a.test/1"))
        assert await still_undecided(timed, cancelling) == 1
        assert await write_moves(timed, moves, lease_s=LEASE_S) == {job.id}
        assert await still_undecided(timed, cancelling) == 0
        row = await only_row(timed)
        assert (row["state"], row["told"]) == (SettledOutcome.CANCELLED.value, False)
        assert await claims(Hand(timed)) == []


async def test_a_move_of_a_lease_that_was_taken_changes_nothing(timed: QueueDatabase, send: Send):
    await send()
    (job,) = await claims(Hand(timed))
    pass_time(timed, LEASE_S + 1)
    await reap_expired(timed, max_deaths=5)
    before = await only_row(timed)
    assert await write_moves(timed, [to_next(job)], lease_s=LEASE_S) == set()
    assert await only_row(timed) == before
    (again,) = await claims(Hand(timed))
    assert await write_moves(timed, [to_next(job)], lease_s=LEASE_S) == set()
    assert await write_moves(timed, [to_next(again)], lease_s=LEASE_S) == {job.id}


@pytest.mark.parametrize("lost_after", STEPS)
async def test_a_move_whose_answer_was_lost_may_be_written_again(
    timed: QueueDatabase, send: Send, monkeypatch: pytest.MonkeyPatch, lost_after: str
):
    await send()
    (job,) = await claims(Hand(timed))
    original = getattr(move_module, lost_after)

    async def lost(*args: object, **kwargs: object) -> None:
        await original(*args, **kwargs)
        raise ConnectionError("the answer did not come")

    moves = [to_next(job, delay_s=60, spent=True)]
    with monkeypatch.context() as patched, contextlib.suppress(ConnectionError):
        patched.setattr(move_module, lost_after, lost)
        await write_moves(timed, moves, lease_s=LEASE_S)
    assert await write_moves(timed, moves, lease_s=LEASE_S) == {job.id}
    row = await only_row(timed)
    assert (row["state"], row["lane"], row["tries"], row["maybe"]) == ("queued", "g1.test", 1, 1), "counted once"
    (host,) = [host async for host in timed.hosts.find({"_id": "g1.test"})]
    assert host["due"]["1"] == row["run_at"]


async def test_moves_of_many_are_a_few_statements(timed: QueueDatabase, send: Send):
    for number in range(20):
        await send(f"{URI}/{number}")
    jobs = await claims(Hand(timed))
    assert len(await write_moves(timed, [to_next(job) for job in jobs], lease_s=LEASE_S)) == 20
    assert len(await claims(Hand(timed))) == 20


async def test_a_row_in_another_lane_than_its_gateways_is_parked_and_not_sent(timed: QueueDatabase, send: Send):
    """It would be sent beside the limit of the host that it goes to."""
    await send()
    await timed.jobs.update_one({}, {"$set": {"at": 1}})
    assert await claims(Hand(timed)) == []
    row = await only_row(timed)
    assert (row["state"], row["last"]["reason"]) == ("parked", "unreadable")
    assert "allowed is that of its gateway, 'g1.test'" in row["last"]["detail"]


@pytest.mark.parametrize(
    "bad",
    [{"gateways": "g"}, {"gateways": [7]}, {"gateways": []}, {"at": 3}, {"at": None}, {"gateways": ["ftp://g0.test"]}],
)
async def test_gateways_that_cannot_be_read_park_the_row(timed: QueueDatabase, send: Send, bad: dict[str, object]):
    await send()
    await timed.jobs.update_one({}, {"$set": bad})
    assert await claims(Hand(timed)) == []
    assert (await only_row(timed))["state"] == "parked"


async def test_what_waits_is_taken_hold_of_where_it_stands_and_counts_as_never_leased(timed: QueueDatabase, send: Send):
    await send(activity="https://a.test/c", kind="Create", about="https://a.test/n")
    assert await waiting_lanes(timed) == ["g0.test"]
    stamp, owner = secrets.token_bytes(16), secrets.token_bytes(16)
    (page,) = [page async for page in waiting_in(timed, "g0.test", stamp=stamp, at_a_time=10)]
    (waiting,) = page
    assert waiting.wait_s == 0
    jobs = [waiting.job]
    held = await hold_waiting(timed, jobs, lane="g0.test", owner=owner, stamp=stamp, lease_s=LEASE_S)
    assert held == jobs
    others = await hold_waiting(timed, jobs, lane="g0.test", owner=owner, stamp=b"x" * 16, lease_s=LEASE_S)
    assert others == [], "one holds it"
    move = Moved(job=waiting.job, place=1, lane="g1.test", tried=(), retry=None)
    assert await write_moves(timed, [move], lease_s=LEASE_S) == {waiting.job.id}
    row = await only_row(timed)
    assert (row["state"], row["lane"], row["leases"], row["tries"]) == ("queued", "g1.test", 0, 0)
    assert "last" not in row
    await send(activity="https://a.test/d", kind="Delete", about="https://a.test/n")
    states = {row["activity"]: row["state"] async for row in timed.jobs.find()}
    assert states == {"https://a.test/c": "superseded", "https://a.test/d": "queued"}


async def test_a_create_that_a_gateway_was_asked_for_is_not_superseded_at_the_next(timed: QueueDatabase, send: Send):
    await send(activity="https://a.test/c", kind="Create", about="https://a.test/n")
    hand = Hand(timed)
    (job,) = await claims(hand)
    await send(activity="https://a.test/d", kind="Delete", about="https://a.test/n")
    assert await superseded(timed, [job]) == {job.id}, "nothing of it was begun"
    await write_moves(timed, [to_next(job)], lease_s=LEASE_S)
    (again,) = await claims(hand)
    assert again.has_begun
    assert await superseded(timed, [again]) == set(), "the first gateway may have it"
    await hand.end(again)
    await promote(timed, [again.order] if again.order else [])
    assert [found.activity_id for found in await claims(hand)] == ["https://a.test/d"]
