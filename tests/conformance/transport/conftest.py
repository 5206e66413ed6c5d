# SPDX-License-Identifier: Apache-2.0
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_network
from typing import Any

import pytest

from ojak.http.aiohttp_transport import AiohttpTransport
from ojak.http.guard import Guard
from ojak.http.transport import Transport

LOOPBACK = Guard((ip_network("127.0.0.0/8"),))

MakeTransport = Callable[..., Transport]


@pytest.fixture(params=[AiohttpTransport])
async def make_transport(request: pytest.FixtureRequest) -> AsyncIterator[MakeTransport]:
    """Makes transports of each kind with short times, and closes them."""
    made: list[Transport] = []

    def make(**options: Any) -> Transport:
        short = {"guard": LOOPBACK, "connect_s": 0.5, "dns_s": 0.5, "read_s": 0.6, "request_s": 1.5}
        transport: Transport = request.param(**{**short, **options})
        made.append(transport)
        return transport

    yield make
    for transport in made:
        await transport.close()


@pytest.fixture
async def transport(make_transport: MakeTransport) -> Transport:
    return make_transport()
