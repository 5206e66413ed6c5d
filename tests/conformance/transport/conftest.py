# SPDX-License-Identifier: Apache-2.0
import asyncio
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_network
from typing import Any

import pytest
import uvloop

from ojak.http.aiohttp_transport import AiohttpTransport
from ojak.http.guard import Guard
from ojak.http.transport import Transport

LOOPBACK = Guard((ip_network("127.0.0.0/8"),))

MakeTransport = Callable[..., Transport]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """A bare `run()` has whatever loop the application has; the supervisor's workers have uvloop."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=[AiohttpTransport])
async def make_transport(request: pytest.FixtureRequest) -> AsyncIterator[MakeTransport]:
    """Makes transports of each kind, and closes them."""
    made: list[Transport] = []

    def make(**options: Any) -> Transport:
        # Long enough for a busy machine; tests of what takes too long set shorter ones.
        patient = {"guard": LOOPBACK, "connect_s": 5, "dns_s": 5, "read_s": 5, "request_s": 10, "body_s": 0.2}
        transport: Transport = request.param(**{**patient, **options})
        made.append(transport)
        return transport

    yield make
    for transport in made:
        await transport.close()


@pytest.fixture
async def transport(make_transport: MakeTransport) -> Transport:
    return make_transport()
