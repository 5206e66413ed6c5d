# SPDX-License-Identifier: Apache-2.0
"""A `Deliverer` that has handlers and delivers nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from ojak import Deliverer, DelivererConfig, Handler
from ojak.store.database import QueueDatabase


class NoKeys:
    async def keys_of(self, sender: str):
        raise RuntimeError("nothing is to be sent in these tests")


SHORT = DelivererConfig(lease_s=1.5, request_s=1.0, reap_every_s=0.2, shard_lease_s=2.0, poll_every_s=0.2)
"""Leases that three of pass in a test."""

Make = Callable[..., Deliverer]


@pytest.fixture
async def make(mongod_url: str, db: QueueDatabase) -> AsyncIterator[Make]:
    """Make Deliverers, closed at the end."""
    async with AsyncExitStack() as stack:

        def make(*handlers: Handler, config: DelivererConfig | None = None, **options: Any) -> Deliverer:
            options.setdefault("keys", NoKeys())
            deliverer = Deliverer(mongod_url, database=db.name, handlers=handlers, config=config or SHORT, **options)
            stack.push_async_callback(deliverer.close)
            return deliverer

        yield make


@asynccontextmanager
async def running(*deliverers: Deliverer) -> AsyncIterator[Sequence[asyncio.Task[None]]]:
    """Have deliverers run until the block ends; what they raise comes out of it."""
    loops = [asyncio.create_task(deliverer.run()) for deliverer in deliverers]
    try:
        yield loops
    finally:
        await asyncio.gather(*(deliverer.stop() for deliverer in deliverers))
        await asyncio.gather(*loops)
