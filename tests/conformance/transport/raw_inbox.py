# SPDX-License-Identifier: Apache-2.0
"""A listener that answers what a script says, byte for byte, and keeps what it read."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


@dataclass
class Received:
    """A request as it came."""

    head: bytes
    body: bytes

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode("latin-1")

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]

    @property
    def fields(self) -> list[tuple[str, str]]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines if line)]

    def field(self, name: str) -> str | None:
        found = [value for given, value in self.fields if given.lower() == name.lower()]
        assert len(found) < 2, f"{name} came {len(found)} times"
        return found[0] if found else None


@dataclass
class Peer:
    """One accepted connection."""

    inbox: "RawInbox"
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> Received:
        """Read one request whole."""
        head = (await self.reader.readuntil(b"\r\n\r\n"))[:-2]
        received = Received(head, b"")
        received.body = await self.reader.readexactly(int(received.field("content-length") or 0))
        self.inbox.received.append(received)
        return received

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Break the connection with a RST."""
        raw: socket.socket = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def end(self, *, reset: bool = False) -> None:
        """Close the connection and wait until that is done."""
        if reset:
            self.reset()
        self.writer.close()
        await self.writer.wait_closed()

    async def gone(self) -> None:
        """Wait until the client has closed its side, reading what it still sends."""
        with contextlib.suppress(OSError):
            while await self.reader.read(65536):
                pass
        self.inbox.left.set()


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class RawInbox:
    """A listener on loopback."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)
    faults: list[BaseException] = field(default_factory=list)

    def url(self, target: str = "/inbox", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{target}"


def always(answer: bytes) -> Script:
    """Answer each request with the same bytes, on kept connections."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(answer)

    return script


def once(answer: bytes) -> Script:
    """Answer one request, then wait until the client leaves."""

    async def script(peer: Peer) -> None:
        await peer.request()
        with contextlib.suppress(OSError):
            await peer.send(answer)
        await peer.gone()

    return script


@contextlib.asynccontextmanager
async def raw_inbox(
    script: Script, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1"
) -> AsyncIterator[RawInbox]:
    """Run a listener on loopback. What goes wrong in a script, but for connections that end, fails the test."""
    inbox = RawInbox()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        inbox.connections += 1
        try:
            await script(Peer(inbox, reader, writer))
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass
        except BaseException as error:  # noqa: BLE001
            inbox.faults.append(error)
        finally:
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(serve, address, 0, ssl=tls, limit=1 << 22)
    inbox.port = server.sockets[0].getsockname()[1]
    try:
        yield inbox
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
        assert not inbox.faults, inbox.faults
