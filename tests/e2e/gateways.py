# SPDX-License-Identifier: Apache-2.0
"""A portable inbox and its gateways in a farm, for tests that deliver to it."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from ojak import DelivererConfig, DeliveryAttempt
from ojak.farm import FarmHandle

KEY = "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2"
DID = f"did:key:{KEY}"
PATH = f"/.well-known/apgateway/{DID}/actor/inbox"
URI = f"ap://{DID}/actor/inbox"
ACTIVITY = {"id": "https://a.test/1", "type": "Like"}
CONFIG = DelivererConfig(poll_every_s=0.05)


def origins(farm: FarmHandle, *labels: str) -> list[str]:
    """The gateways of these labels, as their actor lists them."""
    return [host.inbox("/").removesuffix("/") for label in labels for host in farm.labelled(label)]


def authority(origin: str) -> str:
    return origin.partition("://")[2]


async def hold(db: Any, *gateways: str, hours: float = 1) -> None:
    """Have hosts held, as a gate does."""
    until = datetime.now(UTC) + timedelta(hours=hours)
    for origin in gateways:
        await db.hosts.update_one(
            {"_id": authority(origin)},
            {
                "$set": {
                    "shard": 0,
                    "due": {"0": until, "1": until},
                    "asks": 1,
                    "gate_until": until,
                    "hold_until": until,
                    "ready": {"0": until, "1": until},
                }
            },
            upsert=True,
        )


class Told:
    """What the application is told."""

    def __init__(self) -> None:
        self.attempts: list[DeliveryAttempt] = []
        self.ends: asyncio.Queue[Any] = asyncio.Queue()

    def callbacks(self) -> dict[str, Any]:
        return {"on_attempt": self.attempts.append, "on_settled": self.ends.put, "on_failure": self.ends.put}

    async def end(self) -> Any:
        return await asyncio.wait_for(self.ends.get(), 20)


async def were_tried(db: Any, count: int) -> bool:
    return await db.jobs.count_documents({"state": "queued", "tries": 1}) == count


async def let_come(db: Any) -> None:
    """Let come what waits for its time."""
    await db.jobs.update_many({"state": "queued"}, [{"$set": {"run_at": "$$NOW"}}])
    await db.hosts.update_many({}, [{"$set": {f"{due}.{n}": "$$NOW" for due in ("due", "ready") for n in (0, 1)}}])
