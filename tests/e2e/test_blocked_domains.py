# SPDX-License-Identifier: Apache-2.0
"""Nothing goes to a blocked domain: not what is sent now, not what waits, and not without the queue."""

import pytest

from ojak import DeliveryAttempt, FolderSenderKeys, InvalidInbox, Outbound, SettledOutcome, deliver
from ojak.signing import SigningKey
from ojak.store.counts import count_by_state

from .conftest import SENDER, running

ACTIVITY = {"id": "https://a.test/1", "type": "Like"}


async def test_what_waits_settles_as_blocked_and_the_others_go(farm, deliverer_to, db, ended):
    here = farm({"accept": 3})
    first, *others = here.inboxes()
    before = deliverer_to(here)
    await before.send(ACTIVITY, SENDER, here.inboxes())
    await before.close()
    attempts: list[DeliveryAttempt] = []
    after = deliverer_to(here, on_attempt=attempts.append)
    after._blocked = Outbound(blocked_domains=(here.hosts[0].name.upper() + ".",)).blocked
    async with running(after):
        await ended(3)
        sent = await after.send(ACTIVITY | {"id": "https://a.test/2"}, SENDER, here.inboxes())
        assert list(sent.refused) == [first]
        assert "blocked" in sent.refused[first]
        await ended(5)
    assert await count_by_state(db) == {SettledOutcome.BLOCKED.value: 1, "delivered": 4}
    row = await db.jobs.find_one({"state": SettledOutcome.BLOCKED.value})
    assert (row["inbox"], row["tries"], row["last"]["reason"]) == (first, 0, "blocked-domain")
    assert {arrival.inbox for arrival in here.ledger().arrivals} == set(others)
    assert len(attempts) == 4


async def test_deliver_refuses_it_too(keys_dir):
    key: SigningKey = (await FolderSenderKeys(keys_dir).keys_of(SENDER)).rsa
    blocked = Outbound(blocked_domains=("bad.example",)).blocked
    with pytest.raises(InvalidInbox, match="blocked"):
        await deliver(b"{}", "https://www.bad.example/inbox", key, blocked=blocked)
