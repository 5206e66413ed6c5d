# SPDX-License-Identifier: Apache-2.0
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_network
from typing import Any

import pytest
from tests.integration.http.verifying import signing_key

from ojak.http.aiohttp_transport import AiohttpTransport
from ojak.http.guard import Guard
from ojak.signing import SigningKey

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))

MakeTransport = Callable[..., AiohttpTransport]


@pytest.fixture(scope="session")
def key() -> SigningKey:
    return signing_key()


@pytest.fixture
async def make_transport() -> AsyncIterator[MakeTransport]:
    made: list[AiohttpTransport] = []

    def make(**options: Any) -> AiohttpTransport:
        made.append(AiohttpTransport(**{"guard": Guard(LOOPBACK), **options}))
        return made[-1]

    yield make
    for transport in made:
        await transport.close()


@pytest.fixture
async def transport(make_transport: MakeTransport) -> AiohttpTransport:
    return make_transport()
