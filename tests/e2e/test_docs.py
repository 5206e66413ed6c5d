# SPDX-License-Identifier: Apache-2.0
"""What a queue shows when it runs is what the documents say that it shows."""

import re
from pathlib import Path
from typing import Any

from tests.waiting import until

from ojak import DelivererConfig, DeliveryAttempt

from .conftest import SENDER, running

OUTCOMES = (Path(__file__).parents[2] / "docs" / "outcomes.md").read_text("utf-8")
WORDS = (
    "accept",
    "status:404",
    "gone",
    "status:429",
    "status:500",
    "status:501",
    "redirect",
    "reset",
    "cut",
    "refuse",
    "html",
)


async def test_every_word_that_deliveries_and_attempts_show_is_in_the_closed_list(farm, deliverer_to, db):
    here = farm(dict.fromkeys(WORDS, 1))
    attempts: list[DeliveryAttempt] = []
    deliverer = deliverer_to(here, config=DelivererConfig(poll_every_s=0.1), on_attempt=attempts.append)

    async def all_are_tried() -> bool:
        untried = {"$or": [{"tries": 0}, {"state": "leased"}]}
        return not await db.jobs.count_documents(untried)

    async with running(deliverer):
        await deliverer.send({"id": "https://a.test/1", "type": "Like"}, SENDER, here.inboxes())
        await until(all_are_tried)
    rows: list[dict[str, Any]] = await db.jobs.find().to_list()
    shown = {row["state"] for row in rows} | {row["last"]["reason"] for row in rows}
    shown |= {attempt.outcome for attempt in attempts} | {attempt.reason for attempt in attempts}
    assert {"delivered", "refused", "recipient-gone", "queued", "retry", "html-answer"} <= shown
    shown = {re.sub(r"^status-\d+$", "status-NNN", word) for word in shown}
    assert {word for word in shown if word and f"`{word}`" not in OUTCOMES} == set()
