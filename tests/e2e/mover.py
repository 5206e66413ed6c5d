# SPDX-License-Identifier: Apache-2.0
"""A worker of its own process that stands still before one step of a move between gateways, so that it can be killed.

Arguments: the queue's URL and database, the folder of keys, the farm's resolver map, and the step's name.
"""

import asyncio
import sys
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from ojak import Deliverer, DelivererConfig, FolderSenderKeys, Outbound
from ojak.store import move

BEGUN_BEFORE = 3
"""It moves so many batches before it stands still."""


async def main(url: str, database: str, keys: str, resolver: str, step: str) -> None:
    original = getattr(move, step)
    moved = 0

    async def stand_still(*args: Any, **kwargs: Any) -> Any:
        nonlocal moved
        moved += 1
        if moved > BEGUN_BEFORE:
            print("here", flush=True)  # noqa: T201 - what the test waits for
            await asyncio.Event().wait()
        return await original(*args, **kwargs)

    setattr(move, step, stand_still)
    deliverer = Deliverer(
        url,
        database=database,
        keys=FolderSenderKeys(Path(keys)),
        config=DelivererConfig(poll_every_s=0.05, settle_batch=3, request_s=1, lease_s=1.5, shard_lease_s=1),
        outbound=Outbound(allow_networks=(ip_network("127.0.0.0/8"),), resolver_map=Path(resolver)),
    )
    await deliverer.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
