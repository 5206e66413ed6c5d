# SPDX-License-Identifier: Apache-2.0
"""A real MongoDB that is none that Ojak can use: what it refuses is said for what it is."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pytest
from pymongo import MongoClient

from ojak import Deliverer
from ojak.errors import StoreError
from ojak.store.database import QueueDatabase, connect
from ojak.store.embedded.wheel import find_mongod
from ojak.store.setup import set_up


@pytest.fixture(scope="module")
def standalone() -> Iterator[str]:
    """The address of a server that is no replica set, asks for passwords, and stops with the block."""
    with TemporaryDirectory(prefix="ojak-t-") as name:
        socket = Path(name) / "s.sock"
        command = [str(find_mongod()), "--dbpath", name, "--bind_ip", str(socket), "--nounixsocket", "--auth"]
        with subprocess.Popen([*command, "--quiet"], stdout=subprocess.DEVNULL) as process:
            try:
                address = quote(str(socket), safe="")
                with MongoClient[dict[str, object]](f"mongodb://{address}/") as client:
                    client.admin.command("ping")
                yield address
            finally:
                process.kill()


async def test_a_standalone_server_is_told_to_be_none_before_anything_is_written(standalone: str):
    client = connect(f"mongodb://{standalone}/")
    with pytest.raises(StoreError, match=r"needs a replica set \(also of a single node\).*--replSet") as refusal:
        await set_up(QueueDatabase(client, "ojak"))
    assert type(refusal.value) is StoreError
    await client.close()


async def test_a_wrong_password_is_no_silence(standalone: str):
    with pytest.raises(StoreError, match="did not accept the user name and password") as refusal:
        async with Deliverer(f"mongodb://me:hush@{standalone}/?authSource=admin"):
            pytest.fail("it was let in")
    assert type(refusal.value) is StoreError
    assert "hush" not in str(refusal.value)
