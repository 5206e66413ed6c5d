# SPDX-License-Identifier: Apache-2.0
"""What tests share: one real MongoDB server for the run, and a fresh database for each test."""

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ojak.store.database import QueueDatabase, connect
from ojak.store.embedded import embedded_mongod
from ojak.store.setup import set_up


@pytest.fixture(scope="session")
def mongod_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_mongod(tmp_path_factory.mktemp("mongod")) as server:
        yield server.url


@pytest.fixture
async def bare_db(mongod_url: str) -> AsyncIterator[QueueDatabase]:
    """An empty database, not set up."""
    client = connect(mongod_url)
    name = f"t{secrets.token_hex(6)}"
    try:
        yield QueueDatabase(client, name)
    finally:
        await client.drop_database(name)
        await client.close()


@pytest.fixture
async def db(bare_db: QueueDatabase) -> QueueDatabase:
    """A database ready for use."""
    await set_up(bare_db)
    return bare_db


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"
