# SPDX-License-Identifier: Apache-2.0
"""Every connection passes the guard, on the address that is actually dialled."""

import pytest
from tests.conformance.transport.conftest import LOOPBACK, MakeTransport
from tests.conformance.transport.raw_inbox import ACCEPTED, Peer, always, raw_inbox

from ojak.http.guard import Guard
from ojak.http.transport import AddressError, FaultReason, PostError, PostRequest, Transport

NOTHING = Guard()


async def refused(transport: Transport, url: str) -> PostError:
    with pytest.raises(AddressError) as caught:
        await transport.post(PostRequest(url=url, headers=[], body=b"{}"))
    assert caught.value.reason is FaultReason.REFUSED_ADDRESS
    assert not caught.value.maybe_delivered
    return caught.value


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_an_address_literal_passes_the_guard(make_transport: MakeTransport, scheme: str) -> None:
    transport = make_transport(guard=NOTHING)
    async with raw_inbox(always(ACCEPTED)) as inbox:
        await refused(transport, inbox.url(scheme=scheme))
        await refused(transport, inbox.url(host="[::1]", scheme=scheme))
        await refused(transport, inbox.url(host="[::ffff:127.0.0.1]", scheme=scheme))
        await refused(transport, "http://169.254.169.254/latest/meta-data/")
        await refused(transport, "http://10.0.0.1/")
        assert inbox.connections == 0


@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("::1",), ("127.0.0.1", "::1", "10.0.0.1", "fd00::1")])
async def test_a_name_passes_the_guard(make_transport: MakeTransport, addresses: tuple[str, ...]) -> None:
    transport = make_transport(guard=NOTHING, resolver_map={"inner.test": addresses})
    async with raw_inbox(always(ACCEPTED)) as inbox:
        error = await refused(transport, inbox.url(host="inner.test"))
        assert "inner.test" in str(error)
        assert "allow its network" in str(error)
        assert inbox.connections == 0


async def test_localhost_passes_the_guard(make_transport: MakeTransport) -> None:
    async with raw_inbox(always(ACCEPTED)) as inbox:
        await refused(make_transport(guard=NOTHING), inbox.url(host="localhost"))
        assert inbox.connections == 0
        answer = await make_transport().post(PostRequest(url=inbox.url(host="localhost"), headers=[], body=b"{}"))
        assert answer.status == 202


async def test_refused_addresses_of_a_name_are_passed_over(make_transport: MakeTransport) -> None:
    names = {"mixed.test": ("10.0.0.1", "fd00::1", "192.168.0.1", "127.0.0.1")}
    async with raw_inbox(always(ACCEPTED)) as inbox:
        transport = make_transport(resolver_map=names)
        answer = await transport.post(PostRequest(url=inbox.url(host="mixed.test"), headers=[], body=b"{}"))
        assert answer.status == 202


async def test_a_name_that_turns_inward_is_refused(make_transport: MakeTransport) -> None:
    """Rebinding: what was checked once is not what is dialled next."""
    names = {"turning.test": ("127.0.0.1",)}
    transport = make_transport(guard=LOOPBACK, resolver_map=names)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 202 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

    async with raw_inbox(script) as inbox:
        url = inbox.url(host="turning.test")
        await transport.post(PostRequest(url=url, headers=[], body=b"{}"))
        names["turning.test"] = ("10.0.0.1",)
        await refused(transport, url)
        names["turning.test"] = ("127.0.0.1",)
        await transport.post(PostRequest(url=url, headers=[], body=b"{}"))
        assert inbox.connections == 2
