# SPDX-License-Identifier: Apache-2.0
"""The protocol alone, on a transport that only remembers."""

import asyncio
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ojak.farm import HostPlan, Ledger
from ojak.farm.connection import Connection
from ojak.farm.floor import Floor
from ojak.farm.host import Host
from ojak.farm.inspector import Inspector
from ojak.farm.ledger_book import LedgerBook
from ojak.farm.senders import KnownSenders


class Remembering(asyncio.Transport):
    def __init__(self, address: str = "127.1.0.1") -> None:
        super().__init__({"sockname": (address, 80)})
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class Table:
    """A farm of one host that looks at no signature."""

    def __init__(self, folder: Path) -> None:
        self.book = LedgerBook(folder / "ledger")
        host = Host(HostPlan(name="h.test", address="127.1.0.1", signed=False), seed=1)
        self.floor = Floor(
            hosts={"h.test": host}, inspector=Inspector(KnownSenders()), book=self.book, connections_max=10
        )
        self.floor.admit(host, 80, tls=False)
        self.loop = asyncio.new_event_loop()

    def connect(self, address: str = "127.1.0.1") -> tuple[Connection, Remembering]:
        connection, transport = Connection(self.floor, self.loop, tls=False), Remembering(address)
        connection.connection_made(transport)
        return connection, transport

    def ledger(self) -> Ledger:
        self.book.flush()
        return Ledger.load(self.book.path)

    def close(self) -> None:
        self.book.close()
        self.loop.close()


def request(path: str, body: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: h.test\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@given(
    bodies=st.lists(st.binary(max_size=60) | st.just(b'\r\n\r\n{"id":"a"}'), min_size=1, max_size=5),
    cuts=st.lists(st.integers(0, 600), max_size=12),
)
def test_however_the_bytes_are_cut_the_same_requests_arrive(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(request(f"/{number}", body) for number, body in enumerate(bodies))
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    with TemporaryDirectory() as folder:
        table = Table(Path(folder))
        try:
            connection, transport = table.connect()
            for start, end in pairwise(edges):
                connection.data_received(stream[start:end])
            assert transport.written.count(b"HTTP/1.1 202 ") == len(bodies)
            assert not transport.closed
            assert [one.inbox for one in table.ledger()] == [f"http://h.test/{n}" for n in range(len(bodies))]
        finally:
            table.close()


@given(st.lists(st.binary(max_size=80) | st.sampled_from([b"POST / HTTP/1.1\r\n", b"Host: h.test\r\n", b"\r\n\r\n"])))
def test_no_bytes_break_it(pieces: list[bytes]) -> None:
    with TemporaryDirectory() as folder:
        table = Table(Path(folder))
        try:
            connection, transport = table.connect()
            for piece in pieces:
                if not transport.closed:
                    connection.data_received(piece)
            connection.connection_lost(None)
            assert not table.floor.connections
            assert all(host.open == 0 for host in table.floor.hosts.values())
        finally:
            table.close()


def test_a_connection_too_many_or_not_from_loopback_is_closed(tmp_path: Path) -> None:
    table = Table(tmp_path)
    try:
        assert table.connect(address="192.0.2.1")[1].closed
        kept = [table.connect() for _ in range(11)]
        assert [transport.closed for _, transport in kept] == [False] * 10 + [True]
        assert table.floor.rejected == {"not-loopback": 1, "too-many-connections": 1}
    finally:
        table.close()


def test_sweeping_closes_what_is_idle_and_spares_what_speaks(tmp_path: Path) -> None:
    table = Table(tmp_path)
    try:
        (_, idle), (speaking, spared) = table.connect(), table.connect()
        for _ in range(3):
            speaking.data_received(b"POST")
            table.floor.sweep(2, 100)
        assert idle.closed
        assert not spared.closed
    finally:
        table.close()
