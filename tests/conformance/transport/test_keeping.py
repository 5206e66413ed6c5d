# SPDX-License-Identifier: Apache-2.0
"""Which connections are kept, and for whom."""

import asyncio
import contextlib
import random

import pytest
from tests.conformance.transport.conftest import MakeTransport
from tests.conformance.transport.raw_inbox import ACCEPTED, Peer, RawInbox, always, raw_inbox

from ojak.http.transport import FaultReason, PostError, PostRequest, Transport


async def post(transport: Transport, inbox: RawInbox, host: str = "127.0.0.1") -> bool:
    answer = await transport.post(PostRequest(url=inbox.url(host=host), headers=[], body=b"{}"))
    assert answer.status == 202
    return answer.reused


async def test_two_at_a_time_use_two_connections(transport: Transport) -> None:
    async with raw_inbox(always(ACCEPTED)) as inbox:
        for _ in range(5):
            await asyncio.gather(post(transport, inbox), post(transport, inbox))
        assert inbox.connections == 2


async def test_a_server_that_says_close_gets_a_fresh_connection(transport: Transport) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 202 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

    async with raw_inbox(script) as inbox:
        assert [await post(transport, inbox) for _ in range(4)] == [False] * 4


async def test_a_server_that_closes_after_each_answer_loses_nothing(transport: Transport) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPTED)

    async with raw_inbox(script) as inbox:
        for _ in range(20):
            await post(transport, inbox)
        assert len(inbox.received) == inbox.connections == 20


async def test_a_server_that_closes_after_each_answer_is_learnt(transport: Transport) -> None:
    closed = asyncio.Event()

    async def script(peer: Peer) -> None:
        received = await peer.request()
        await peer.send(ACCEPTED)
        await peer.end()
        if received.field("connection") is None:
            closed.set()

    async with raw_inbox(script) as inbox:
        await post(transport, inbox)
        async with asyncio.timeout(5):
            await closed.wait()
        # The loop has to hear of the end before it can learn from it.
        for _ in range(3):
            await asyncio.sleep(0)
        for _ in range(3):
            await post(transport, inbox)
        assert [received.field("connection") for received in inbox.received] == [None, "close", "close", "close"]


async def test_a_server_that_closes_when_it_is_asked_again_is_learnt(transport: Transport) -> None:
    async def script(peer: Peer) -> None:
        first = await peer.request()
        await peer.send(ACCEPTED)
        if first.field("connection") is None:
            await peer.request()

    async with raw_inbox(script) as inbox:
        await post(transport, inbox)
        with pytest.raises(PostError) as caught:
            await post(transport, inbox)
        assert (caught.value.reason, caught.value.maybe_delivered) == (FaultReason.CLOSED, True)
        for _ in range(3):
            await post(transport, inbox)
        assert [received.field("connection") for received in inbox.received] == [None, None, "close", "close", "close"]


async def test_idle_connections_are_closed_in_time(make_transport: MakeTransport) -> None:
    transport = make_transport(keepalive_s=0.2)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPTED)
        await peer.gone()

    async with raw_inbox(script) as inbox:
        await post(transport, inbox)
        async with asyncio.timeout(5):
            await inbox.left.wait()


async def test_no_more_than_so_many_connections_are_kept(make_transport: MakeTransport) -> None:
    hosts = [f"h{number}.test" for number in range(7)]
    transport = make_transport(max_open=4, resolver_map=dict.fromkeys(hosts, ("127.0.0.1",)))
    open_now = 0

    async def script(peer: Peer) -> None:
        nonlocal open_now
        open_now += 1
        try:
            await always(ACCEPTED)(peer)
        finally:
            open_now -= 1

    async with raw_inbox(script) as inbox:
        for host in hosts[:4]:
            await post(transport, inbox, host)
        await post(transport, inbox, hosts[0])
        for host in hosts[4:7]:
            await post(transport, inbox, host)
        for _ in range(10):
            await asyncio.sleep(0)
        assert open_now == 4
        # Those unused for longest have gone.
        assert [await post(transport, inbox, host) for host in (hosts[0], *hosts[4:7])] == [True] * 4
        assert not await post(transport, inbox, hosts[1])


async def test_close_ends_every_connection(make_transport: MakeTransport) -> None:
    transport = make_transport()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPTED)
        await peer.gone()

    async with raw_inbox(script) as inbox:
        await post(transport, inbox)
        await transport.close()
        async with asyncio.timeout(5):
            await inbox.left.wait()
        assert len(asyncio.all_tasks()) <= 2
        with pytest.raises(PostError) as caught:
            await post(transport, inbox)
        assert (caught.value.reason, caught.value.maybe_delivered) == (FaultReason.LOCAL, False)


async def test_close_fails_what_is_on_the_wire(make_transport: MakeTransport) -> None:
    transport, arrived = make_transport(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        arrived.set()
        await peer.gone()

    async with raw_inbox(script) as inbox, asyncio.timeout(5):
        posting = asyncio.create_task(post(transport, inbox))
        await arrived.wait()
        await transport.close()
        with pytest.raises(PostError):
            await posting


async def test_cancels_at_random_leave_a_working_transport(transport: Transport) -> None:
    source = random.Random(9670)

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            for byte in range(0, len(ACCEPTED), 9):
                await asyncio.sleep(0)
                await peer.send(ACCEPTED[byte : byte + 9])

    async def fickle(inbox: RawInbox) -> None:
        for _ in range(40):
            posting = asyncio.create_task(post(transport, inbox))
            for _ in range(source.randrange(30)):
                await asyncio.sleep(0)
            posting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await posting

    async with raw_inbox(script) as inbox:
        await asyncio.gather(*(fickle(inbox) for _ in range(8)))
        await asyncio.gather(*(post(transport, inbox) for _ in range(8)))
        before = inbox.connections
        for _ in range(5):
            assert all(await asyncio.gather(*(post(transport, inbox) for _ in range(8))))
        assert inbox.connections == before


async def test_an_answer_that_nobody_asked_for_is_no_answer_to_the_next(transport: Transport) -> None:
    """Some servers say 408 on a connection that was idle for long, and then close it."""
    unasked = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPTED)
        await unasked.wait()
        await peer.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await peer.gone()

    async with raw_inbox(script) as inbox, asyncio.timeout(5):
        assert not await post(transport, inbox)
        unasked.set()
        await inbox.left.wait()
        assert not await post(transport, inbox)
        assert inbox.connections == 2
