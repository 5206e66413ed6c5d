# SPDX-License-Identifier: Apache-2.0
"""What tests share: one real MongoDB server for the run, and a fresh database for each test."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator

import pytest

from ojak.store.database import QueueDatabase, connect
from ojak.store.embedded import embedded_mongod
from ojak.store.now import EPOCH
from ojak.store.setup import set_up


@pytest.fixture(scope="session")
def mongod_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_mongod(tmp_path_factory.mktemp("mongod")) as server:
        yield server.url


@pytest.fixture
async def bare_db(mongod_url: str) -> AsyncIterator[QueueDatabase]:
    """A database of its own, not set up, for tests that change its shape."""
    client = connect(mongod_url)
    name = f"t{secrets.token_hex(6)}"
    try:
        yield QueueDatabase(client, name)
    finally:
        await client.drop_database(name)
        await client.close()


@pytest.fixture(scope="session")
def shared_name(mongod_url: str) -> str:
    """The database that tests share one after the other: making and dropping one costs more than most tests."""

    async def make() -> None:
        client = connect(mongod_url)
        await set_up(QueueDatabase(client, "shared"))
        await client.close()

    asyncio.run(make())
    return "shared"


@pytest.fixture
async def db(mongod_url: str, shared_name: str) -> AsyncIterator[QueueDatabase]:
    """A database ready for use and empty."""
    client = connect(mongod_url)
    queue = QueueDatabase(client, shared_name)
    for collection in (
        queue.jobs,
        queue.bodies,
        queue.batches,
        queue.outbox,
        queue.hosts,
        queue.lanes,
        queue.host_settings,
        queue.breakers,
        queue.holds,
        queue.workers,
        queue.settings,
    ):
        await collection.delete_many({})
    await queue.shards.update_many({}, {"$set": {"owner": None, "epoch": 0, "until": EPOCH}})
    try:
        yield queue
    finally:
        await client.close()
