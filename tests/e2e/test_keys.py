# SPDX-License-Identifier: Apache-2.0
"""Senders' keys on the way out. Report R35 of the field: a key is not loaded anew for each recipient."""

import asyncio

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.waiting import until

from ojak import CachingSenderKeys, Deliverer, FolderSenderKeys, SenderKeyring

from .conftest import SENDER, running


class SlowKeys:
    """A source that counts its loads and takes 50 ms for each."""

    def __init__(self, inner: FolderSenderKeys) -> None:
        self.inner = inner
        self.loads = 0

    async def keys_of(self, sender: str) -> SenderKeyring:
        self.loads += 1
        await asyncio.sleep(0.05)
        return await self.inner.keys_of(sender)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("paths", [20, pytest.param(250, marks=pytest.mark.long)], ids=["400", "5000"])
async def test_r35_a_fan_out_of_one_sender_loads_its_key_once_a_worker(
    farm, deliverer_to, keys_dir, ended, *, paths: int
):
    here = farm({"accept": 20})
    sources = [SlowKeys(FolderSenderKeys(keys_dir)) for _ in range(2)]
    deliverers: list[Deliverer] = []
    for source in sources:
        deliverer = deliverer_to(here)
        deliverer._keys = CachingSenderKeys(source)
        deliverers.append(deliverer)
    inboxes = [f"{inbox}/{n}" for inbox in here.inboxes() for n in range(paths)]
    async with running(*deliverers):
        for n in range(2):
            await deliverers[0].send({"id": f"https://a.test/{n}", "type": "Like"}, SENDER, inboxes)
        await ended(2 * len(inboxes), within_s=20 if paths == 20 else 240)
    assert [source.loads <= 1 for source in sources] == [True, True]
    assert here.ledger().arrivals
    assert len({(arrival.inbox, arrival.activity) for arrival in here.ledger().arrivals}) == 2 * len(inboxes)


async def test_r19_a_key_that_cannot_be_used_any_more_stops_its_sender_and_nobody_else(
    farm, deliverer_to, db, keys_dir, ended
):
    here = farm({"accept": 4})
    broken = "https://a.test/users/broken"
    folder = FolderSenderKeys(keys_dir)
    folder.generate(broken)
    deliverer = deliverer_to(here)
    await deliverer.send({"id": "https://a.test/1", "type": "Like"}, broken, here.inboxes())
    wrong = ec.generate_private_key(ec.SECP256R1())
    folder.paths_of(broken)[0].write_bytes(wrong.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    async def it_waits() -> bool:
        return await db.jobs.count_documents({"sender": broken, "state": "aside", "tries": 0, "deaths": 0}) == 4

    async with running(deliverer):
        await deliverer.send({"id": "https://a.test/2", "type": "Like"}, SENDER, here.inboxes())
        await ended(4)
        await until(it_waits)
    assert {arrival.activity for arrival in here.ledger().arrivals} == {"https://a.test/2"}
    assert await db.hosts.count_documents({"breaker": {"$exists": True}}) == 0
    for path in folder.paths_of(broken):
        path.unlink(missing_ok=True)
