# SPDX-License-Identifier: Apache-2.0
"""What goes out: our bytes, and nothing that we did not ask for."""

import asyncio
import logging

import pytest
from tests.conformance.transport.conftest import MakeTransport
from tests.conformance.transport.raw_inbox import ACCEPTED, Peer, always, raw_inbox

from ojak.errors import ConfigError, InputError
from ojak.http.transport import PostRequest, Transport
from ojak.model.inbox import canonical_inbox

TARGETS = [
    "/users/ALLCAPS/inbox",
    "//f/inbox",
    "/f//inbox/",
    "/inbox?",
    "/?",
    "/?x=1",
    "/inbox?page=true&min_id=0",
    "/inbox??a=?",
    "/a/../b/./c",
    "/%7Euser/%2c/%3A/inb%6fx?x=%2f%2F&y=a+b%2B",
    "/_ap/inbox/user%40example.org:x",
    "/a;b=1,2/@c!$&'()*?d=!$'()*,;:@/?",
    '/"<>\\^`{|}?"<>\\^`{|}',
    "/" + "a" * 2000,
]


async def test_the_target_goes_out_byte_for_byte(transport: Transport) -> None:
    async with raw_inbox(always(ACCEPTED)) as inbox:
        for target in TARGETS:
            url = canonical_inbox(inbox.url(target)).url
            await transport.post(PostRequest(url=url, headers=[], body=b"{}"))
        assert [received.line for received in inbox.received] == [f"POST {target} HTTP/1.1" for target in TARGETS]


@pytest.mark.parametrize("host", ["xn--mnchen-3ya.test", "xn--0.test", "under_score.test", "3com.test"])
async def test_any_canonical_host_can_be_posted_to(make_transport: MakeTransport, host: str) -> None:
    async with raw_inbox(always(ACCEPTED)) as inbox:
        transport = make_transport(resolver_map={host: ("127.0.0.1",)})
        url = canonical_inbox(inbox.url(host=host)).url
        assert (await transport.post(PostRequest(url=url, headers=[], body=b"{}"))).status == 202
        assert inbox.received[0].field("host") == f"{host}:{inbox.port}"


async def test_only_our_fields_go_out_in_our_order(transport: Transport) -> None:
    headers = [
        ("Host", "h.test"),
        ("Date", "Mon, 30 Nov 2026 12:00:00 GMT"),
        ("Signature", 'keyId="a",signature="b=="'),
        ("Content-Type", 'application/ld+json; profile="https://www.w3.org/ns/activitystreams"'),
        ("User-Agent", "Ojak/1"),
        ("Accept", "*/*"),
        ("Accept-Encoding", "identity"),
    ]
    async with raw_inbox(always(ACCEPTED)) as inbox:
        await transport.post(PostRequest(url=inbox.url(), headers=headers, body=b"{}"))
        assert inbox.received[0].fields == [*headers, ("Content-Length", "2")]


@pytest.mark.parametrize("size", [0, 2, 4096, 70_000, 1 << 20, (1 << 20) + 1])
async def test_r09_a_body_always_has_its_length(transport: Transport, size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    async with raw_inbox(always(ACCEPTED)) as inbox:
        for _ in range(2):
            await transport.post(PostRequest(url=inbox.url(), headers=[], body=body[:size]))
        for received in inbox.received:
            assert received.field("content-length") == str(size)
            assert received.field("transfer-encoding") is None
            assert received.field("expect") is None
            assert received.body == body[:size]
        assert inbox.connections == 1


async def test_no_cookie_is_kept(transport: Transport) -> None:
    async with raw_inbox(always(b"HTTP/1.1 202 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n")) as inbox:
        for _ in range(2):
            await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
        assert inbox.received[1].field("cookie") is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(transport: Transport, status: int) -> None:
    async with raw_inbox(always(ACCEPTED)) as other:
        elsewhere = other.url("/stolen")
        redirect = f"HTTP/1.1 {status} Moved\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\n\r\n".encode()
        async with raw_inbox(always(redirect)) as inbox:
            answer = await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
            assert (answer.status, answer.location) == (status, elsewhere)
            assert len(inbox.received) == 1
        assert other.connections == 0


async def test_r63_proxies_and_credentials_of_the_environment_are_not_used(
    make_transport: MakeTransport,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    netrc = f"{tmp_path}/netrc"
    with open(netrc, "w") as file:  # noqa: ASYNC230, PTH123
        file.write("machine 127.0.0.1 login alice password hunter2\n")
    monkeypatch.setenv("NETRC", netrc)
    async with raw_inbox(always(ACCEPTED)) as proxy, raw_inbox(always(ACCEPTED)) as inbox:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url(""))
            monkeypatch.setenv(name.lower(), proxy.url(""))
        with caplog.at_level(logging.INFO):
            transport = make_transport()
        await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
        assert proxy.connections == 0
        assert inbox.received[0].field("authorization") is None
    told = [record for record in caplog.records if "not used" in record.message]
    assert len(told) == 1
    assert {"HTTP_PROXY", "http_proxy", "ALL_PROXY"} <= set(told[0].__dict__["variables"])
    assert str(proxy.port) not in caplog.text


async def test_r63_a_proxy_that_is_configured_is_used(
    make_transport: MakeTransport, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw_inbox(always(ACCEPTED)) as proxy:
        with caplog.at_level(logging.INFO):
            transport = make_transport(proxy=proxy.url(""))
        answer = await transport.post(PostRequest(url="http://far.test/inbox?", headers=[], body=b"{}"))
        assert answer.status == 202
        assert proxy.received[0].line == "POST http://far.test/inbox? HTTP/1.1"
    assert "guard" in caplog.text


@pytest.mark.parametrize(
    "proxy", ["", "proxy:3128", "socks5://proxy:1080", "http://", "http://u:hunter2@:1", "http://[x"]
)
async def test_a_proxy_that_cannot_be_used(make_transport: MakeTransport, proxy: str) -> None:
    with pytest.raises(ConfigError, match="proxy cannot be used; allowed is an http or https URL") as caught:
        make_transport(proxy=proxy)
    assert "hunter2" not in f"{caught.value}{caught.value.__context__}"


async def test_the_password_of_a_proxy_is_for_the_proxy(make_transport: MakeTransport) -> None:
    async with raw_inbox(always(ACCEPTED)) as proxy:
        transport = make_transport(proxy=f"http://alice:hunter2@127.0.0.1:{proxy.port}")
        for _ in range(2):
            await transport.post(PostRequest(url="http://far.test/inbox", headers=[], body=b"{}"))
        assert proxy.connections == 1
        assert [one.field("proxy-authorization") for one in proxy.received] == ["Basic YWxpY2U6aHVudGVyMg=="] * 2
        assert [one.field("authorization") for one in proxy.received] == [None] * 2


async def test_a_field_cannot_bring_another(transport: Transport) -> None:
    async with raw_inbox(always(ACCEPTED)) as inbox:
        with pytest.raises(InputError):
            await transport.post(PostRequest(url=inbox.url(), headers=[("X", "a\r\nY: b")], body=b"{}"))
        assert inbox.received == []


async def test_nothing_is_repeated_on_its_own(transport: Transport) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()

    async with raw_inbox(script) as inbox:
        for _ in range(3):
            with pytest.raises(Exception, match="closed the connection before the answer"):
                await transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}"))
        assert len(inbox.received) == 3


async def test_a_cancelled_post_closes_its_connection(transport: Transport) -> None:
    arrived = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        arrived.set()
        await peer.gone()

    async with raw_inbox(script) as inbox:
        post = asyncio.create_task(transport.post(PostRequest(url=inbox.url(), headers=[], body=b"{}")))
        async with asyncio.timeout(5):
            await arrived.wait()
            post.cancel()
            await inbox.left.wait()
        with pytest.raises(asyncio.CancelledError):
            await post
