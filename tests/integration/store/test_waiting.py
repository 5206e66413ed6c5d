# SPDX-License-Identifier: Apache-2.0
"""What finding the lanes of waiting portable deliveries costs: it is done every few seconds, by every worker."""

from ojak.store.database import QueueDatabase
from ojak.store.gateways import PORTABLE_INDEX
from ojak.store.waiting import LANES, waiting_lanes

LANE_COUNT, ROWS = 3, 300


async def test_finding_the_lanes_reads_an_entry_of_the_index_a_lane_and_no_row(db: QueueDatabase):
    rows = [
        {"_id": number.to_bytes(16, "big"), "state": state, "lane": f"g{number % LANE_COUNT}.test", "portable": True}
        for number, state in enumerate(["queued"] * ROWS + ["delivered"] * ROWS)
    ]
    rows += [
        {"_id": (2 * ROWS + number).to_bytes(16, "big"), "state": "queued", "lane": f"h{number}.test"}
        for number in range(ROWS)
    ]
    await db.jobs.insert_many(rows)
    assert sorted(await waiting_lanes(db)) == [f"g{number}.test" for number in range(LANE_COUNT)]
    plan = await db.client[db.name].command(
        "explain",
        {"aggregate": db.jobs.name, "pipeline": list(LANES), "cursor": {}, "hint": PORTABLE_INDEX},
        verbosity="executionStats",
    )
    stats = plan["stages"][0]["$cursor"]["executionStats"]
    assert (stats["totalKeysExamined"], stats["totalDocsExamined"]) == (LANE_COUNT, 0)
