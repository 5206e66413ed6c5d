# SPDX-License-Identifier: Apache-2.0
"""Where a request goes, in the words of aiohttp's connector."""

import asyncio

import aiohttp
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL


class Door(aiohttp.ClientRequest):
    """What the connector reads of a request: whom to dial, and how. One does for all requests to an authority.

    It is never sent. What is sent is ours (`ojak.http.exchange`).

    Attributes:
        authority: host and port, as the canonical URL has them.
        asks_a_proxy: whether the request itself goes to a proxy, which wants the whole URL and, where it has one, its
            password. For TLS there is a tunnel through it instead.
    """

    def __init__(self, origin: str, *, proxy: URL | None, loop: asyncio.AbstractEventLoop) -> None:
        scheme, _, authority = origin.partition("://")
        # The authority is cut out by hand, since yarl's decodes A-labels, and fails where they cannot be decoded.
        super().__init__(
            "POST", URL.build(scheme=scheme, authority=authority, path="/", encoded=True), proxy=proxy, loop=loop
        )
        self.authority = authority
        self.asks_a_proxy = proxy is not None and not self.is_ssl()
        self._key = super().connection_key

    @property
    def connection_key(self) -> ConnectionKey:
        """What the pool keeps its connections by. It never changes, and is read for each request."""
        return self._key
