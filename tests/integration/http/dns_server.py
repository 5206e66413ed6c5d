# SPDX-License-Identifier: Apache-2.0
"""A name server on loopback that knows a few names and is silent about others."""

import asyncio
import contextlib
import ipaddress
import struct
from collections import Counter
from collections.abc import AsyncIterator
from typing import cast

NXDOMAIN = 3
SERVFAIL = 2
_A, _AAAA = 1, 28


class NameServer(asyncio.DatagramProtocol):
    """Answers A and AAAA queries from `names`: addresses, an error code, or None for silence."""

    def __init__(self) -> None:
        self.names: dict[str, list[str] | int | None] = {}
        self.asked: Counter[str] = Counter()
        self.port = 0
        self.enough = asyncio.Event()
        """Set once 50 names were asked for."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        name = ".".join(labels).lower()
        question = data[12 : at + 5]
        kind = struct.unpack("!H", data[at + 1 : at + 3])[0]
        if kind == _A:
            self.asked[name] += 1
            if len(self.asked) >= 50:
                self.enough.set()
        known = self.names.get(name, NXDOMAIN)
        if known is None:
            return
        code = known if isinstance(known, int) else 0
        addresses = [] if isinstance(known, int) else list(map(ipaddress.ip_address, known))
        wanted = [address for address in addresses if (address.version == 4) == (kind == _A)]
        answers = b"".join(
            b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(address.packed)) + address.packed for address in wanted
        )
        head = data[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(wanted), 0, 0)
        self.transport.sendto(head + question + answers, addr)


@contextlib.asynccontextmanager
async def name_server() -> AsyncIterator[NameServer]:
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        NameServer, local_addr=("127.0.0.1", 0)
    )
    try:
        yield server
    finally:
        transport.close()
