# SPDX-License-Identifier: Apache-2.0
"""What tests share: one real MongoDB server for the run, and a fresh database for each test."""

import asyncio
import os
import secrets
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pymongo.asynchronous.collection import AsyncCollection
from tests.temporary import in_memory

from ojak.store.database import Document, QueueDatabase, connect
from ojak.store.embedded import embedded_mongod
from ojak.store.now import EPOCH
from ojak.store.setup import set_up

_OURS = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Before any folder is made, and before any program is started."""
    if config.option.basetemp is None and (folder := in_memory()) is not None:
        config.option.basetemp = str(folder)
        config.stash[_OURS] = folder
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Started in the background: its programs would ignore what tests send them.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hundreds of programs are started: where nothing may be written beside the sources, each would compile them."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        os.environ["PYTHONPYCACHEPREFIX"] = str(tmp_path_factory.mktemp("compiled"))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """What failed stays to be looked at, until the next run."""
    folder = session.config.stash.get(_OURS, None)
    if folder is not None and exitstatus == 0:
        shutil.rmtree(folder, ignore_errors=True)


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


def _emptied(queue: QueueDatabase) -> list[AsyncCollection[Document]]:
    return [
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
    ]


@pytest.fixture
async def db(mongod_url: str, shared_name: str) -> AsyncIterator[QueueDatabase]:
    """A database ready for use and empty."""
    client = connect(mongod_url)
    queue = QueueDatabase(client, shared_name)
    # Nearly all of these are empty after nearly every test, and asking costs less than deleting nothing.
    held = await asyncio.gather(*(collection.find_one({}, {"_id": 1}) for collection in _emptied(queue)))
    for collection, row in zip(_emptied(queue), held, strict=True):
        if row is not None:
            await collection.delete_many({})
    free = {"owner": None, "epoch": 0, "until": EPOCH}
    await queue.shards.update_many({"epoch": {"$ne": 0}}, {"$set": free})
    try:
        yield queue
    finally:
        await client.close()
