# SPDX-License-Identifier: Apache-2.0
"""Floors: what no sender can go below, measured on the same machine in the same minutes."""

import asyncio
import time
from collections.abc import Sequence
from ipaddress import ip_address
from itertools import cycle
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from ojak.http.resolver_map import ResolverMap
from ojak.signing import PrivateKey, sign

SIGNATURES: Final = 300
POSTS: Final = 2000
_AT_A_TIME: Final = 8


def signature_us(key: PrivateKey) -> float:
    """CPU time of one signature, in microseconds: that of the shortest request, whose rest is some microseconds."""
    before_s = time.process_time()
    for now_s in range(SIGNATURES):
        sign(key, "k", "cavage", "GET", "http://h/", None, now_s)
    return (time.process_time() - before_s) / SIGNATURES * 1e6


class _Map(AbstractResolver):
    def __init__(self, known: ResolverMap) -> None:
        self._known = known

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family or 2, proto=0, flags=0)
            for address in self._known[host]
            if ip_address(address).is_loopback
        ]

    async def close(self) -> None:
        """Nothing is open."""


async def post_us(inboxes: Sequence[str], known: ResolverMap, body: bytes, *, posts: int = POSTS) -> float:
    """CPU time of one bare aiohttp POST, unsigned, on kept connections, in microseconds.

    As aiohttp comes: a session, its connector, eight at a time, the answer read. Only the map of names is ours, since
    the farm's are in no DNS.
    """
    connector = aiohttp.TCPConnector(resolver=_Map(known), limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def post(url: str) -> None:
            async with session.post(url, data=body, headers={"Content-Type": "application/activity+json"}) as answer:
                await answer.read()
                answer.raise_for_status()

        async def work(urls: Sequence[str]) -> None:
            for url in urls:
                await post(url)

        # Every connection once before it counts.
        for _ in range(2):
            await work(inboxes)
        lots: list[list[str]] = [[] for _ in range(_AT_A_TIME)]
        turn = cycle(inboxes)
        for n in range(posts):
            lots[n % _AT_A_TIME].append(next(turn))
        before_s = time.process_time()
        await asyncio.gather(*(work(lot) for lot in lots))
        return (time.process_time() - before_s) / posts * 1e6
