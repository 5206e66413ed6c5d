# SPDX-License-Identifier: Apache-2.0
"""Rows that somebody edited by hand are in nobody's way: what reads them for all goes past them, and ends no worker."""

import logging
from typing import Any

import pytest
from bson import Regex

from ojak.model.hold import Hold, HoldKind, hold_id
from ojak.store.aside import stray_holds
from ojak.store.database import QueueDatabase
from ojak.store.holds import holds_of, holds_to_look_at, put_holds, standing_holds
from ojak.store.kind_lanes import dues_in, ready_lanes
from ojak.store.now import EPOCH
from ojak.store.sweep import mend_dues

ODD: list[Any] = [None, 7, 1.5, "x", b"x", [], {}, Regex("x")]


async def hold(db: QueueDatabase, sender: str) -> bytes:
    await put_holds(db, [Hold(kind=HoldKind.PAUSE, of=sender, reason="paused", for_s=60, by="me")])
    row_id = hold_id(HoldKind.PAUSE, sender)
    await db.holds.update_one({"_id": row_id}, {"$set": {"look_at": EPOCH}})
    return row_id


@pytest.mark.parametrize(
    ("field", "odd"),
    [
        *(("kind", odd) for odd in ODD),
        *(("until", odd) for odd in ODD),
        *(("of", odd) for odd in ODD if odd != "x"),
        ("mark", "x"),
        ("mark", None),
        ("mark", 1.5),
    ],
)
async def test_a_hold_that_cannot_be_read_holds_nothing(db: QueueDatabase, caplog, field: str, odd: Any):
    whole, broken = await hold(db, "https://a.test/whole"), await hold(db, "https://a.test/broken")
    await db.holds.update_one({"_id": broken}, {"$set": {field: odd}})
    caplog.set_level(logging.ERROR)
    assert [row.id for row in await standing_holds(db)] == [whole]
    assert [row.id for row in await holds_to_look_at(db, limit=10)] == [whole]
    assert set(await holds_of(db, [whole, broken])) == {whole}


@pytest.mark.parametrize("odd", ODD, ids=repr)
async def test_what_waits_behind_no_id_ends_no_releaser(db: QueueDatabase, odd: Any):
    await db.jobs.insert_many([{"state": "aside", "behind": odd}, {"state": "aside", "behind": b"gone" * 4}])
    assert b"gone" * 4 in await stray_holds(db)


@pytest.mark.parametrize("odd", ODD, ids=repr)
async def test_a_record_without_times_is_mended_by_the_sweep(db: QueueDatabase, odd: Any):
    job = {"state": "queued", "run_at": EPOCH, "lane": "h.test", "priority": 0}
    others = ({"lane": odd}, {"priority": odd}, {"lane": "media#00"})
    await db.jobs.insert_many([dict(job), *({**job, **other} for other in others)])
    await db.hosts.insert_one({"_id": "h.test", "due": odd, "asks": 1})
    await db.lanes.insert_one({"_id": "media#00", "due": odd, "asks": 1})
    assert await dues_in(db, ["media#00"]) in ({}, {"media#00": {}})
    assert await mend_dues(db, lease_s=1) >= 2


@pytest.mark.parametrize("odd", ODD, ids=repr)
async def test_a_lane_is_ready_by_the_times_that_it_has(db: QueueDatabase, odd: Any):
    await db.lanes.insert_one({"_id": "media#00", "due": {"0": EPOCH, "1": odd}, "asks": 1})
    assert await ready_lanes(db, ["media#00"]) == {"media#00": EPOCH}
