# SPDX-License-Identifier: Apache-2.0
import asyncio

from ojak.http.wire import Wire


async def test_the_end_of_one_request_is_not_the_end_of_the_next() -> None:
    """A connection is free once its answer has ended, which its first user may learn after the next has begun."""
    wire = Wire(asyncio.get_running_loop(), lost=lambda *_, **__: None)
    first, second = object(), object()
    wire.begin(first, 1.0)
    wire.begin(second, 2.0)
    wire.end(first, 3.0)
    assert (wire.user, wire.awaiting) == (second, True)
    wire.end(second, 4.0)
    assert (wire.user, wire.awaiting) == (None, False)
