# SPDX-License-Identifier: Apache-2.0
"""Senders' keys on the way out. Report R35 of the field: a key is not loaded anew for each recipient."""

import asyncio

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


async def test_r35_a_fan_out_of_one_sender_loads_its_key_once_a_worker(farm, deliverer_to, keys_dir, ended):
    here = farm({"accept": 20})
    sources = [SlowKeys(FolderSenderKeys(keys_dir)) for _ in range(2)]
    deliverers: list[Deliverer] = []
    for source in sources:
        deliverer = deliverer_to(here)
        deliverer._keys = CachingSenderKeys(source)
        deliverers.append(deliverer)
    inboxes = [f"{inbox}/{n}" for inbox in here.inboxes() for n in range(20)]
    async with running(*deliverers):
        for n in range(2):
            await deliverers[0].send({"id": f"https://a.test/{n}", "type": "Like"}, SENDER, inboxes)
        await ended(800)
    assert [source.loads <= 1 for source in sources] == [True, True]
    assert here.ledger().arrivals
    assert len({(arrival.inbox, arrival.activity) for arrival in here.ledger().arrivals}) == 800
