# SPDX-License-Identifier: Apache-2.0
"""Quarantines outlive restarts, a newer version and the database's death (field report R38)."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure
from tests.fault.newer import NEWER_SCHEMA, later
from tests.fault.watch import Watched
from tests.waiting import until

from ojak import Deliverer, FolderSenderKeys
from ojak.control import url_of
from ojak.farm import FarmHandle, plan_of_words, running_farm
from ojak.farm.behaviour import Silent
from ojak.farm.report import Counted
from ojak.store.database import Document
from ojak.store.embedded import EmbeddedMongodError
from ojak.store.migrations.runner import MIGRATIONS

SENDER = "https://a.test/users/alice"
DEAD, LIVING = "black-hole", "accept:20"
SAME = ["-m", "ojak.supervisor"]
NEWER = [str(Path(__file__).with_name("newer.py"))]


class Site:
    """A queue, and the farm that it sends to."""

    def __init__(self, folder: Path, farm: FarmHandle, workers: int) -> None:
        self.data = folder / "data"
        self.farm = farm
        self.living = {host.name for host in farm.labelled(LIVING)}
        self.sent = 0
        self.flags = ["--data", str(self.data), "--workers", str(workers), "--keys", str(folder / "keys")]
        self.flags += ["--allow-networks", "127.0.0.0/8", "--resolver-map", str(farm.resolver_path)]
        self.flags += ["--connect-s", "0.2", "--breaker-threshold", "2", "--concurrency", "64"]

    @contextmanager
    def supervisor(self, program: list[str]) -> Iterator[Watched]:
        with Watched(self.data, [*program, *self.flags]) as watched:
            watched.until("ready")
            yield watched
            watched.process.send_signal(signal.SIGTERM)
            assert watched.end() == 0

    async def send(self, count: int, *words: str) -> None:
        inboxes = [inbox for word in words for inbox in self.farm.inboxes(word)]
        async with Deliverer(self.data) as deliverer:
            for _ in range(count):
                self.sent += 1
                activity = {"id": f"https://a.test/{self.sent}", "type": "Like"}
                assert (await deliverer.send(activity, SENDER, inboxes)).new == len(inboxes)

    async def p95_s(self, count: int) -> float:
        """Send so many activities to everybody, each when the living have the one before: how soon they have it."""
        took = []
        for _ in range(count):
            accepted = self.farm.report().accepted
            began_s = time.monotonic()
            await self.send(1, DEAD, LIVING)
            assert self.farm.client.wait(Counted.ACCEPTED, LIVING, at_least=accepted + len(self.living), timeout_s=20)
            arrivals = self.farm.ledger().arrivals[-len(self.living) :]
            took += [arrival.arrived_s - began_s for arrival in arrivals if arrival.host in self.living]
        return sorted(took)[len(took) * 95 // 100]

    def connects(self) -> int:
        """How many connections the dead have seen, now that they can see them."""
        return sum(host.connections for host in self.farm.client.hosts(DEAD))

    def count(self, collection: str, row: Document) -> int:
        with MongoClient[Document](url_of(self.data)) as client:
            return client["ojak"][collection].count_documents(row)

    async def check(self, *, before: int, tried: int, dead: int) -> None:
        """Not one connection, attempt or longer quarantine came of it, and nothing that waited is gone."""
        await until(self.nothing_is_under_way)
        assert self.connects() == before
        assert self.count("hosts", {"breaker.open": True, "breaker.step": 1}) == dead
        waits = {"lane": {"$in": lanes_of(self.farm, DEAD)}}
        assert self.count("jobs", {**waits, "tries": {"$gt": 0}}) == tried
        assert self.count("jobs", {**waits, "state": "queued"}) == self.sent * dead

    async def is_there(self) -> bool:
        with contextlib.suppress(EmbeddedMongodError, ConnectionFailure):
            self.count("hosts", {})
            return True
        return False

    async def nothing_is_under_way(self) -> bool:
        return not self.count("jobs", {"state": "leased"})


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("dead", "living", "waiting", "workers"),
    [(40, 10, 400, 1), pytest.param(200, 50, 20_000, 2, marks=pytest.mark.long)],
    ids=["scaled", "full"],
)
@pytest.mark.parametrize("what", [pytest.param("restart", marks=pytest.mark.long), "newer", "mongod"])
async def test_r38_nothing_that_starts_again_tries_the_dead_before_their_time(
    tmp_path: Path, *, dead: int, living: int, waiting: int, workers: int, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are black holes until they are quarantined. Then they listen, say nothing, and count who connects."""
    FolderSenderKeys(tmp_path / "keys").generate(SENDER)
    plan = plan_of_words(dead + living, {DEAD: dead, LIVING: living}.items())
    with running_farm(plan, folder=tmp_path / "farm", keys_folders=[tmp_path / "keys"]) as farm:
        site = Site(tmp_path, farm, workers)

        async def all_dead_are_quarantined() -> bool:
            return site.count("hosts", {"breaker.open": True}) == dead

        with site.supervisor(SAME) as first:
            await site.send(waiting // dead, DEAD)
            await until(all_dead_are_quarantined, within_s=60)
            await until(site.nothing_is_under_way)
            farm.client.behave(DEAD, Silent())
            tried = site.count("jobs", {"tries": {"$gt": 0}})
            before = site.connects()
            enough_s = max(2.0, await site.p95_s(3) * 2)
            if what == "mongod":
                os.kill(first.status()["mongod_pid"], signal.SIGKILL)
                first.until("embedded MongoDB died")
                await until(site.is_there)
                # The first finds its workers in the pause after a try in vain.
                assert await site.p95_s(1) < enough_s + 10
                assert await site.p95_s(3) < enough_s
                await site.check(before=before, tried=tried, dead=dead)
        if what == "newer":
            # Whoever still sends with the old version is refused, so this process comes along.
            monkeypatch.setitem(MIGRATIONS, NEWER_SCHEMA, later)
        if what != "mongod":
            with site.supervisor(NEWER if what == "newer" else SAME):
                migrated = site.count("hosts", {"later": {"$exists": True}})
                assert migrated >= (dead if what == "newer" else 0)
                assert await site.p95_s(3) < enough_s
                await site.check(before=before, tried=tried, dead=dead)


def lanes_of(farm: FarmHandle, word: str) -> list[str]:
    return [inbox.split("/")[2] for inbox in farm.inboxes(word)]
