# SPDX-License-Identifier: Apache-2.0
"""A Deliverer on a real MongoDB, sending over real sockets to a farm that checks every signature."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from ojak import Deliverer, DelivererConfig, FolderSenderKeys, Outbound
from ojak.farm import FarmHandle, plan_of_words, running_farm
from ojak.model.job import UNFINISHED
from ojak.store.database import QueueDatabase

from .gateways import Told

SENDER = "https://a.test/users/alice"

Farm = Callable[..., FarmHandle]
Deliver = Callable[..., Any]


@pytest.fixture(scope="session")
def keys_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    FolderSenderKeys(folder).generate(SENDER)
    return folder


@pytest.fixture
def farm(tmp_path: Path, keys_dir: Path) -> Iterator[Farm]:
    """Start a farm of hosts by words: `farm(accept=3, **{"status:503": 1})`."""
    with ExitStack() as stack:

        def start(words: Mapping[str, int] | None = None, *, tls: bool = False) -> FarmHandle:
            counts = dict(words or {"accept": 1})
            plan = plan_of_words(sum(counts.values()), counts.items(), tls=tls)
            return stack.enter_context(running_farm(plan, folder=tmp_path / "farm", keys_folders=[keys_dir]))

        yield start


@pytest.fixture
def deliverer_to(mongod_url: str, db: QueueDatabase, keys_dir: Path) -> Callable[..., Deliverer]:
    """Make a Deliverer that may send to a farm."""

    def make(
        farm: FarmHandle, *, queue: Any = mongod_url, config: DelivererConfig | None = None, **options: Any
    ) -> Deliverer:
        return Deliverer(
            queue,
            database=db.name,
            keys=FolderSenderKeys(keys_dir),
            config=config or DelivererConfig(),
            outbound=Outbound(
                allow_networks=(ip_network("127.0.0.0/8"),),
                resolver_map=farm.resolver_path,
                extra_ca=farm.ca_path,
            ),
            **options,
        )

    return make


@pytest.fixture
def told() -> Told:
    return Told()


@asynccontextmanager
async def running(*deliverers: Deliverer) -> AsyncIterator[None]:
    """Have deliverers run until the block ends; what they raise comes out of it."""
    loops = [asyncio.create_task(deliverer.run()) for deliverer in deliverers]
    try:
        yield
    finally:
        await asyncio.gather(*(deliverer.close() for deliverer in deliverers))
        await asyncio.gather(*loops)


@pytest.fixture
def ended(db: QueueDatabase) -> Callable[[int], Awaitable[None]]:
    """Wait until so many deliveries have ended."""

    async def wait(count: int, *, within_s: float = 20.0) -> None:
        async def enough() -> bool:
            unfinished = {"$in": list(UNFINISHED)}
            return await db.jobs.count_documents({"state": {"$not": unfinished}}) >= count

        await until(enough, within_s=within_s)

    return wait
