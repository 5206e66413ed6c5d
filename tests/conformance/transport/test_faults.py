# SPDX-License-Identifier: Apache-2.0
"""No answer came: why, whether the body was out, and how long it held its slot."""

import asyncio
import contextlib
import gc
import os
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.transport.conftest import MakeTransport
from tests.conformance.transport.raw_inbox import ACCEPTED, Peer, Script, always, raw_inbox
from tests.sockets import resident_kib
from tests.waiting import until

from ojak.errors import DeliveryError
from ojak.http.transport import (
    ConnectError,
    ExchangeError,
    FaultReason,
    LocalError,
    PostError,
    PostRequest,
    ResolveError,
    Transport,
)


@pytest.fixture
async def transport(make_transport: MakeTransport) -> Transport:
    return make_transport(connect_s=0.4, dns_s=2, read_s=0.3, request_s=0.7)


async def fails(transport: Transport, url: str, body: bytes = b"{}", within_s: float | None = None) -> PostError:
    """POST, and return the error, which must have come within the transport's time."""
    began_s = time.monotonic()
    with pytest.raises(PostError) as caught:
        await transport.post(PostRequest(url=url, headers=[], body=body, within_s=within_s))
    assert time.monotonic() - began_s < 2.5
    error = caught.value
    assert isinstance(error, DeliveryError)
    assert str(error).isprintable()
    assert len(str(error)) < 400
    return error


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def sockets() -> int:
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += str(descriptor.readlink()).startswith("socket:")
    return count


def saying(*pieces: bytes, then: str = "close") -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        for piece in pieces:
            await peer.send(piece)
        if then == "close":
            await peer.end()
        elif then == "reset":
            peer.reset()
        else:
            await peer.gone()

    return script


def endlessly(piece: bytes, every_s: float, first: bytes = b"") -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(first)
        while True:
            await peer.send(piece)
            await asyncio.sleep(every_s)

    return script


HOSTILE = {
    "closes at once": (saying(), FaultReason.CLOSED),
    "resets": (saying(then="reset"), FaultReason.RESET),
    "closes in the status line": (saying(b"HTTP/1.1 20"), FaultReason.CLOSED),
    "closes in the head": (saying(b"HTTP/1.1 202 OK\r\nContent-Length: 0\r\n"), FaultReason.CLOSED),
    "resets in the head": (saying(b"HTTP/1.1 202 OK\r\nContent-Le", then="reset"), FaultReason.RESET),
    "says nothing": (saying(then="wait"), FaultReason.TIMEOUT),
    "stops in the head": (saying(b"HTTP/1.1 202 OK\r\nContent", then="wait"), FaultReason.TIMEOUT),
    "drips its head": (endlessly(b"X", 0.05, b"HTTP/1.1 202 OK\r\nX-Y: "), FaultReason.TIMEOUT),
    "says 102 for ever": (endlessly(b"HTTP/1.1 102 Processing\r\n\r\n", 0.1), FaultReason.INTERIM_ONLY),
    "floods with 1xx": (endlessly(b"HTTP/1.1 103 Hints\r\n\r\n" * 100, 0), FaultReason.INTERIM_ONLY),
    "says 199 and waits": (saying(b"HTTP/1.1 199 What\r\n\r\n", then="wait"), FaultReason.INTERIM_ONLY),
    "switches protocols": (saying(b"HTTP/1.1 101 Up\r\nUpgrade: x\r\n\r\n", then="wait"), FaultReason.BAD_ANSWER),
    "switches without a word": (saying(b"HTTP/1.1 101 Up\r\n\r\n", then="wait"), FaultReason.BAD_ANSWER),
    "talks garbage": (saying(b"\0\1\2\3 hello\r\n\r\n", then="wait"), FaultReason.BAD_ANSWER),
    "talks SSH": (saying(b"SSH-2.0-OpenSSH_9.2\r\n", then="wait"), FaultReason.BAD_ANSWER),
    "talks HTTP/2": (saying(b"HTTP/2 202 OK\r\n\r\n", then="wait"), FaultReason.BAD_ANSWER),
    "has a status of two digits": (saying(b"HTTP/1.1 20 OK\r\n\r\n", then="wait"), FaultReason.BAD_ANSWER),
    "has a status that is none": (saying(b"HTTP/1.1 abc OK\r\n\r\n", then="wait"), FaultReason.BAD_ANSWER),
    "has a field without a colon": (saying(b"HTTP/1.1 202 OK\r\nhello\r\n\r\n", then="wait"), FaultReason.BAD_ANSWER),
    "has a long field": (saying(b"HTTP/1.1 202 OK\r\nX: %s\r\n\r\n" % (b"x" * 20_000)), FaultReason.BAD_ANSWER),
    "has an endless field": (endlessly(b"x" * 5000, 0, b"HTTP/1.1 202 OK\r\nX: "), FaultReason.BAD_ANSWER),
    "has many fields": (saying(b"HTTP/1.1 202 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n"), FaultReason.BAD_ANSWER),
    "has endless fields": (endlessly(b"X: y\r\n" * 50, 0, b"HTTP/1.1 202 OK\r\n"), FaultReason.BAD_ANSWER),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_hostile_answers_free_their_slot_with_a_reason(transport: Transport, kind: str) -> None:
    script, reason = HOSTILE[kind]
    async with raw_inbox(script) as inbox:
        error = await fails(transport, inbox.url())
        assert isinstance(error, ExchangeError)
        assert error.reason is reason, error
        assert error.maybe_delivered
        assert len(inbox.received) == 1
        if reason is FaultReason.BAD_ANSWER:
            # The connection is not used again.
            assert (await fails(transport, inbox.url())).reason is reason
            assert inbox.connections == 2


async def test_hostile_answers_cost_no_memory(transport: Transport) -> None:
    async with raw_inbox(endlessly(b"X: y\r\n" * 10_000, 0, b"HTTP/1.1 202 OK\r\n")) as inbox:
        await fails(transport, inbox.url())
        before_kib = resident_kib()
        for _ in range(20):
            await fails(transport, inbox.url())
            assert resident_kib() - before_kib < 5_000


async def test_a_slow_answer_is_an_answer(make_transport: MakeTransport) -> None:
    transport = make_transport(read_s=0.4)

    async def script(peer: Peer) -> None:
        await peer.request()
        for byte in ACCEPTED:
            await peer.send(bytes([byte]))
            await asyncio.sleep(0.01)

    async with raw_inbox(script) as inbox:
        assert (await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))).status == 202


async def test_the_time_for_an_answer_begins_when_the_body_is_out(make_transport: MakeTransport) -> None:
    transport = make_transport(read_s=0.8)

    async def script(peer: Peer) -> None:
        head = await peer.reader.readuntil(b"\r\n\r\n")
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(1.0)
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await peer.reader.readexactly(int(head.lower().split(b"content-length: ")[1].split()[0]))
        await asyncio.sleep(0.4)
        await peer.send(ACCEPTED)

    async with raw_inbox(script) as inbox:
        answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"x" * 16_000_000))
        assert answer.status == 202


async def test_an_earlier_end_can_be_set(transport: Transport) -> None:
    async with raw_inbox(saying(then="wait")) as inbox:
        began_s = time.monotonic()
        assert (await fails(transport, inbox.url(), within_s=0.2)).reason is FaultReason.TIMEOUT
        assert time.monotonic() - began_s < 0.6


async def test_a_peer_that_does_not_read(transport: Transport) -> None:
    async def script(peer: Peer) -> None:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    async with raw_inbox(script) as inbox:
        error = await fails(transport, inbox.url(), body=b"x" * 16_000_000)
        assert error.reason is FaultReason.TIMEOUT


async def test_a_peer_that_does_not_read_holds_no_descriptor(transport: Transport) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        before = sockets()
        # The system takes the connection and what it has room for; nobody reads that.
        await fails(transport, f"http://127.0.0.1:{listener.getsockname()[1]}/inbox", body=b"x" * 16_000_000)

        async def gone() -> bool:
            return sockets() <= before

        await until(gone, within_s=5)


async def test_a_refused_connection(transport: Transport) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        error = await fails(transport, f"http://127.0.0.1:{bound.getsockname()[1]}/inbox")
    assert isinstance(error, ConnectError)
    assert (error.reason, error.maybe_delivered) == (FaultReason.CONNECT_REFUSED, False)


@pytest.fixture
def black_hole() -> Iterator[int]:
    """The port of a listener whose queue is full: connections to it neither succeed nor fail."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        callers = [socket.socket() for _ in range(4)]
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(address)
        yield address[1]
        for caller in callers:
            caller.close()


async def test_a_black_hole(transport: Transport, black_hole: int) -> None:
    began_s = time.monotonic()
    error = await fails(transport, f"http://127.0.0.1:{black_hole}/inbox")
    assert time.monotonic() - began_s < 1.0
    assert isinstance(error, ConnectError)
    assert (error.reason, error.maybe_delivered) == (FaultReason.CONNECT_TIMEOUT, False)
    assert error.phases.connect_ms >= 390


async def test_a_name_of_black_holes_takes_no_longer(make_transport: MakeTransport, black_hole: int) -> None:
    names = {"holes.test": ("127.0.0.1", "127.0.0.1", "127.0.0.1")}
    began_s = time.monotonic()
    transport = make_transport(resolver_map=names, connect_s=0.4)
    error = await fails(transport, f"http://holes.test:{black_hole}/inbox")
    assert time.monotonic() - began_s < 1.0
    assert error.reason is FaultReason.CONNECT_TIMEOUT


async def test_the_next_address_of_a_name_is_tried(make_transport: MakeTransport) -> None:
    async with raw_inbox(always(ACCEPTED)) as inbox:
        transport = make_transport(resolver_map={"two.test": ("127.9.9.9", "127.0.0.1")})
        answer = await transport.post(PostRequest(url=inbox.url(host="two.test"), headers=[], body=b"{}"))
        assert answer.status == 202


@pytest.mark.parametrize("host", ["no-such-name.invalid", "xn--0.invalid"])
async def test_a_name_without_address(make_transport: MakeTransport, host: str) -> None:
    error = await fails(make_transport(), f"http://{host}/inbox")
    # Where there is no DNS at all, that is this machine's fault, and said to be.
    assert isinstance(error, ResolveError | LocalError)
    assert not error.maybe_delivered
    assert host in str(error)


async def test_no_descriptors_is_a_fault_of_our_own(transport: Transport) -> None:
    async with raw_inbox(always(ACCEPTED)) as inbox:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # What other tests left behind must not free a descriptor below the limit in the middle of this one.
        gc.collect()
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            error = await fails(transport, inbox.url())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert isinstance(error, LocalError)
        assert (error.reason, error.maybe_delivered) == (FaultReason.LOCAL, False)
        assert (await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))).status == 202


async def test_a_dead_proxy_is_a_fault_of_our_own(make_transport: MakeTransport) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        transport = make_transport(proxy=f"http://127.0.0.1:{bound.getsockname()[1]}")
        assert (await fails(transport, "http://far.test/inbox")).reason is FaultReason.LOCAL


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [50, pytest.param(10_000, marks=pytest.mark.long)])
async def test_many_failures_leave_no_descriptor(transport: Transport, count: int) -> None:
    async with raw_inbox(saying(b"HTTP/1.1 202 O", then="reset")) as inbox:
        await fails(transport, inbox.url())
        await asyncio.sleep(0)
        before = descriptors()
        for _ in range(count):
            await fails(transport, inbox.url())
        for _ in range(10):
            await asyncio.sleep(0)
        assert descriptors() <= before + 2
