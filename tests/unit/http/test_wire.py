# SPDX-License-Identifier: Apache-2.0
import asyncio

import pytest

from ojak.http.wire import Wire


@pytest.fixture
async def wire() -> Wire:
    return Wire(asyncio.get_running_loop(), lost=lambda *_, **__: None)


async def test_a_request_without_an_answer_uses_its_connection_up(wire: Wire) -> None:
    """Its answer, should it still come, would be taken for that of the next request."""
    wire.begin(1.0, 9.0)
    assert (wire.idle, wire.awaiting, wire.should_close) == (False, True, False)
    wire.end()
    assert (wire.idle, wire.awaiting, wire.should_close) == (True, False, True)


async def test_a_request_with_an_answer_does_not(wire: Wire) -> None:
    wire.begin(1.0, 9.0)
    wire.set_response_params()
    wire.data_received(b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 202 OK\r\nContent-Length: 0\r\n\r\n")
    message, _ = await wire.read()
    assert (message.code, wire.interim, wire.awaiting) == (202, 1, False)
    wire.end()
    assert (wire.idle, wire.should_close) == (True, False)
