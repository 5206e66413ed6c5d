# SPDX-License-Identifier: Apache-2.0
"""Waiting for what another process or the database comes to: no signal reaches us, so it is asked, with an end."""

import asyncio
from collections.abc import Awaitable, Callable

_LOOK_S = 0.02


async def until(condition: Callable[[], Awaitable[bool]], *, within_s: float = 20.0) -> None:
    """Wait until a condition holds; a TimeoutError says that it did not in time."""
    async with asyncio.timeout(within_s):
        while not await condition():  # noqa: ASYNC110 - there is nobody to set an event
            await asyncio.sleep(_LOOK_S)
