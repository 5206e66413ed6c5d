# SPDX-License-Identifier: Apache-2.0
"""What comes back, and what of it counts: the head, whatever the body is or lacks."""

import asyncio
import gzip
import time

import pytest
from tests.conformance.transport.raw_inbox import ACCEPTED, Peer, always, once, raw_inbox
from tests.sockets import resident_kib

from ojak.http.transport import PostRequest, Transport

STATUSES = [
    200,
    201,
    202,
    204,
    205,
    299,
    300,
    304,
    400,
    401,
    403,
    404,
    408,
    410,
    415,
    418,
    429,
    500,
    501,
    503,
    599,
    999,
]

BROKEN = {
    "no body though one was announced": b"HTTP/1.1 202 OK\r\nContent-Length: 100\r\n\r\n",
    "half a body": b"HTTP/1.1 202 OK\r\nContent-Length: 100\r\n\r\nhalf",
    "no end": b"HTTP/1.1 202 OK\r\n\r\n",
    "a 204 with a body": b"HTTP/1.1 204 No Content\r\n\r\nhello",
    "a 204 with a length": b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
    "broken chunks": b"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\nhello\r\n",
    "chunks that do not end": b"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "length and chunks": b"HTTP/1.1 202 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length that is none": b"HTTP/1.1 202 OK\r\nContent-Length: many\r\n\r\nhello",
    "two lengths": b"HTTP/1.1 202 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nhello",
    "gzip that is none": b"HTTP/1.1 202 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
    "an encoding that nobody knows": b"HTTP/1.1 202 OK\r\nContent-Encoding: x-y\r\nContent-Length: 5\r\n\r\nhello",
    "more than was announced": b"HTTP/1.1 202 OK\r\nContent-Length: 2\r\n\r\nhello there",
    "a second answer": ACCEPTED + b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.0": b"HTTP/1.0 202 OK\r\n\r\n",
    "no reason phrase": b"HTTP/1.1 202\r\nContent-Length: 0\r\n\r\n",
    "an empty reason phrase": b"HTTP/1.1 202 \r\nContent-Length: 0\r\n\r\n",
    "bare line feeds": b"HTTP/1.1 202 OK\nContent-Length: 0\n\n",
    "an interim answer first": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\nhello",
}


@pytest.mark.parametrize("status", STATUSES)
async def test_every_status_comes_through(transport: Transport, status: int) -> None:
    async with raw_inbox(always(f"HTTP/1.1 {status} So\r\nContent-Length: 0\r\n\r\n".encode())) as inbox:
        answers = [await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}")) for _ in range(2)]
        assert [answer.status for answer in answers] == [status, status]
        assert [answer.reused for answer in answers] == [False, True]
        assert inbox.connections == 1


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("ending", ["closed", "reset", "open"])
async def test_a_complete_head_is_an_answer_whatever_follows(transport: Transport, broken: str, ending: str) -> None:
    ended = asyncio.Event()

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(BROKEN[broken])
            if ending != "open":
                await peer.end(reset=ending == "reset")
                ended.set()

    async with raw_inbox(script) as inbox:
        answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
        assert answer.status in (202, 204)
        if ending != "open":
            await ended.wait()
        # What was broken is not used again.
        answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
        assert answer.status in (202, 204)
        assert len(inbox.received) == 2


async def test_a_broken_refusal_keeps_its_fields(transport: Transport) -> None:
    broken = (
        b"HTTP/1.1 429 Slow\r\nRetry-After: 120\r\nContent-Type: text/html\r\nAccept-Signature: sig1=()\r\n"
        b"Location: /x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"
    )
    async with raw_inbox(once(broken)) as inbox:
        answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
    assert (answer.status, answer.retry_after, answer.location) == (429, "120", "/x")
    assert (answer.content_type, answer.accept_signature, answer.html) == ("text/html", "sig1=()", True)


async def test_fields_and_the_body_of_a_refusal(transport: Transport) -> None:
    body = b'{"error":"no"}'
    refusal = (
        b"HTTP/1.1 403 No\r\nretry-after: soon\r\nCONTENT-TYPE: application/json\r\naccept-signature: sig1=()\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    async with raw_inbox(always(refusal)) as inbox:
        answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
        assert (answer.status, answer.body_head, answer.retry_after) == (403, body, "soon")
        assert (answer.content_type, answer.accept_signature, answer.html) == ("application/json", "sig1=()", False)
        await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
        assert inbox.connections == 1


async def test_a_body_that_comes_later_is_read_and_the_connection_kept(transport: Transport) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(b"HTTP/1.1 404 No\r\nContent-Length: 10\r\n\r\n")
            await peer.send(b"01234")
            await peer.send(b"56789")

    async with raw_inbox(script) as inbox:
        for _ in range(3):
            answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
            assert answer.body_head == b"0123456789"
        assert inbox.connections == 1


async def test_field_values_can_be_shown(transport: Transport) -> None:
    wild = (
        b"HTTP/1.1 301 Moved\r\nLocation: /caf\xc3\xa9\xff\t\x1b[31m\r\nContent-Type: \xe9\r\nContent-Length: 0\r\n\r\n"
    )
    async with raw_inbox(once(wild)) as inbox:
        answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
    for value in (answer.location, answer.content_type):
        assert value is not None
        assert value.isascii()
        assert value.isprintable()


@pytest.mark.parametrize("status", [202, 404])
@pytest.mark.parametrize("size", [4097, 60_000, 5_000_000])
async def test_a_long_body_closes_the_connection(transport: Transport, status: int, size: int) -> None:
    head = b"HTTP/1.1 %d So\r\nContent-Length: %d\r\n\r\n" % (status, size)
    async with raw_inbox(once(head + b"x" * size)) as inbox, asyncio.timeout(5):
        answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
        assert answer.status == status
        assert len(answer.body_head) <= 4096
        if status == 404:
            assert answer.body_head == b"x" * 4096
        await inbox.left.wait()


async def test_4096_bytes_are_not_long(transport: Transport) -> None:
    async with raw_inbox(always(b"HTTP/1.1 404 No\r\nContent-Length: 4096\r\n\r\n" + b"x" * 4096)) as inbox:
        for _ in range(2):
            answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
            assert answer.body_head == b"x" * 4096
        assert inbox.connections == 1


async def test_endless_bodies_and_bombs_cost_no_memory(transport: Transport) -> None:
    """A hundred of them, of which one that was read whole would be ten times what they may cost together."""
    bomb = gzip.compress(b"\0" * 50_000_000)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(
            b"HTTP/1.1 %d So\r\nContent-Encoding: gzip\r\n\r\n" % (202 if peer.inbox.connections % 2 else 500)
        )
        while True:
            await peer.send(bomb)

    async with raw_inbox(script) as inbox:
        await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
        before_kib = resident_kib()
        for _ in range(100):
            answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
            assert len(answer.body_head) <= 4096
            assert resident_kib() - before_kib < 5_000


@pytest.mark.parametrize("status", [202, 500])
async def test_a_dripping_body_holds_nobody(transport: Transport, status: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 %d So\r\nContent-Length: 4000\r\n\r\n" % status)
        while True:
            await peer.send(b"x")
            await asyncio.sleep(0.05)

    async with raw_inbox(script) as inbox:
        began_s = time.monotonic()
        answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
        assert answer.status == status
        assert time.monotonic() - began_s < 2.5


async def test_r13_interim_answers_are_passed_over(transport: Transport) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            for interim in (b"100 Continue", b"102 Processing", *[b"103 Early Hints\r\nLink: </a>; rel=preload"] * 3):
                await peer.send(b"HTTP/1.1 " + interim + b"\r\n\r\n")
                await asyncio.sleep(0.05)
            await peer.send(ACCEPTED)

    async with raw_inbox(script) as inbox:
        for _ in range(2):
            assert (await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))).status == 202
        assert inbox.connections == 1


async def test_where_the_time_went(transport: Transport) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await asyncio.sleep(0.05)
            await peer.send(ACCEPTED)

    async with raw_inbox(script) as inbox:
        fresh = (await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))).phases
        kept = (await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))).phases
    assert fresh.connect_ms > 0
    assert fresh.tls_ms == kept.tls_ms == kept.connect_ms == kept.dns_ms == 0
    assert 50 <= kept.answer_ms < 1000
    assert 50 <= fresh.answer_ms < 1000


async def test_a_large_body_can_be_refused_before_it_is_read(transport: Transport) -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await left.wait()

    left = asyncio.Event()
    async with raw_inbox(script) as inbox, asyncio.timeout(5):
        for _ in range(2):
            answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"x" * 16_000_000))
            # What it has not taken of a body is not sent after it, and never in front of the next request.
            assert (answer.status, answer.reused) == (413, False)
        assert inbox.connections == 2
        left.set()
