# SPDX-License-Identifier: Apache-2.0
"""A flood of made-up host names takes next to nothing from the hosts that have answered before (SPEC section 4)."""

import time

import pytest

from ojak import DelivererConfig
from ojak.farm.report import Counted

from .conftest import SENDER, running

HOSTS = 50


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("names", "a_round", "kept_of_rate"),
    [(5_000, 500, 0.5), pytest.param(100_000, 1500, 0.9, marks=pytest.mark.long)],
    ids=["5k", "100k"],
)
async def test_a_flood_of_made_up_hosts_costs_proven_hosts_next_to_nothing(
    farm, deliverer_to, db, names, *, a_round: int, kept_of_rate: float
):
    """Each round is many activities to hosts that answer; in the rounds with the flood its names wait beside them.

    The best rates of one run are compared, since machines differ and are shared, and what else they do comes and goes;
    that is why the suite asks for half, of short rounds.
    What it rests on is asked exactly elsewhere: what a claim reads, and whose turn it is.
    """
    here = farm({"accept:20": HOSTS})
    inboxes = here.inboxes()
    deliverer = deliverer_to(here, config=DelivererConfig(concurrency=8, concurrency_max=256), breakers="shared")

    async def rate(what: str) -> float:
        """Deliveries a second of one round."""
        before = (await here.async_client.report()).accepted
        began_s = time.monotonic()
        for number in range(a_round // HOSTS):
            await deliverer.send({"id": f"https://a.test/{what}{number}", "type": "Like"}, SENDER, inboxes)
        assert await here.async_client.wait(Counted.ACCEPTED, at_least=before + a_round, timeout_s=120)
        return a_round / (time.monotonic() - began_s)

    made_up = {"dest": {"$regex": "^h[0-9]+[.]made-up[.]test$"}}
    async with running(deliverer):
        await rate("warm")
        calm = max([await rate(f"calm{n}-") for n in range(3)])
        flood = [f"https://h{n}.made-up.test/inbox" for n in range(names)]
        assert (
            len((await deliverer.send({"id": "https://a.test/flood", "type": "Like"}, SENDER, flood)).inboxes) == names
        )
        flooded = max([await rate(f"flooded{n}-") for n in range(3)])
        assert await db.jobs.count_documents({**made_up, "tries": 0}) > names // 4, "the flood was over before"
        assert await db.jobs.count_documents({**made_up, "tries": {"$gt": 0}}) > 0, "the flood has its turn too"
        # Again without the flood: the machine may have become slower, or faster, by itself.
        await db.jobs.delete_many(made_up)
        await db.hosts.delete_many({"_id": made_up["dest"]})
        calm = min(calm, max([await rate(f"after{n}-") for n in range(3)]))
    assert flooded >= kept_of_rate * calm
