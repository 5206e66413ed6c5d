# SPDX-License-Identifier: Apache-2.0
"""Inboxes over TLS, with an authority of the test's own."""

import asyncio
import select
import socket
import ssl
import time
from pathlib import Path

import pytest
import trustme
from tests.conformance.transport.conftest import MakeTransport
from tests.conformance.transport.raw_inbox import ACCEPTED, Peer, always, raw_inbox
from tests.sockets import sockets
from tests.waiting import until

from ojak.errors import ConfigError
from ojak.http.transport import FaultReason, PostRequest, TlsError

NAMES = dict.fromkeys(("h.test", "other.test", "xn--mnchen-3ya.test"), ("127.0.0.1",))


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture(scope="module")
def server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("h.test", "xn--mnchen-3ya.test", "127.0.0.1").configure_cert(context)
    return context


@pytest.mark.parametrize("host", ["h.test", "xn--mnchen-3ya.test", "127.0.0.1"])
async def test_a_certificate_of_an_extra_authority(
    make_transport: MakeTransport, ca_file: Path, server_context: ssl.SSLContext, host: str
) -> None:
    transport = make_transport(extra_ca=ca_file, resolver_map=NAMES)
    async with raw_inbox(always(ACCEPTED), server_context) as inbox:
        answers = [
            await transport.post(PostRequest(url=inbox.url(host=host, scheme="https"), headers=[], body=b"{}"))
            for _ in range(3)
        ]
        assert inbox.connections == 1
    assert [answer.status for answer in answers] == [202] * 3
    assert answers[0].phases.tls_ms > 0
    assert answers[1].phases.tls_ms == 0


async def test_a_tunnel_through_a_proxy(
    make_transport: MakeTransport, ca_file: Path, server_context: ssl.SSLContext
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await peer.writer.start_tls(server_context)
        await always(ACCEPTED)(peer)

    async with raw_inbox(script) as proxy:
        transport = make_transport(extra_ca=ca_file, proxy=f"http://alice:hunter2@127.0.0.1:{proxy.port}")
        for _ in range(2):
            answer = await transport.post(PostRequest(url="https://h.test/inbox?", headers=[], body=b"{}"))
            assert answer.status == 202
        assert [one.line for one in proxy.received] == [
            "CONNECT h.test:443 HTTP/1.1",
            "POST /inbox? HTTP/1.1",
            "POST /inbox? HTTP/1.1",
        ]
        passwords = [one.field("proxy-authorization") for one in proxy.received]
        assert passwords == ["Basic YWxpY2U6aHVudGVyMg==", None, None]
        assert (proxy.connections, answer.reused) == (1, True)


async def test_a_name_that_the_certificate_lacks(
    make_transport: MakeTransport, ca_file: Path, server_context: ssl.SSLContext
) -> None:
    transport = make_transport(extra_ca=ca_file, resolver_map=NAMES)
    async with raw_inbox(always(ACCEPTED), server_context) as inbox:
        url = inbox.url(host="other.test", scheme="https")
        with pytest.raises(TlsError, match=r"other\.test:\d+: the TLS handshake failed") as caught:
            await transport.post(PostRequest(url=url, headers=[], body=b"{}"))
        assert (caught.value.reason, caught.value.maybe_delivered) == (FaultReason.TLS, False)
        assert inbox.received == []


async def test_an_authority_that_nobody_knows(make_transport: MakeTransport, server_context: ssl.SSLContext) -> None:
    async with raw_inbox(always(ACCEPTED), server_context) as inbox:
        with pytest.raises(TlsError) as caught:
            await make_transport().post(PostRequest(url=inbox.url(scheme="https"), headers=[], body=b"{}"))
        assert caught.value.reason is FaultReason.TLS
        assert inbox.received == []


async def test_a_server_that_talks_plain_http(make_transport: MakeTransport) -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.read(100)
        await peer.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nthis is an HTTP port")

    async with raw_inbox(script) as inbox:
        with pytest.raises(TlsError) as caught:
            await make_transport().post(PostRequest(url=inbox.url(scheme="https"), headers=[], body=b"{}"))
        assert caught.value.reason is FaultReason.TLS


async def test_a_server_that_closes_in_the_handshake(make_transport: MakeTransport) -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.read(100)
        peer.reset()

    async with raw_inbox(script) as inbox:
        with pytest.raises(TlsError) as caught:
            await make_transport().post(PostRequest(url=inbox.url(scheme="https"), headers=[], body=b"{}"))
        assert caught.value.reason is FaultReason.TLS


async def test_a_server_that_never_ends_the_handshake(make_transport: MakeTransport) -> None:
    async def script(peer: Peer) -> None:
        await peer.gone()

    async with raw_inbox(script) as inbox:
        with pytest.raises(TlsError) as caught:
            await make_transport(connect_s=0.4).post(PostRequest(url=inbox.url(scheme="https"), headers=[], body=b"{}"))
        assert caught.value.reason is FaultReason.TLS_TIMEOUT
        assert caught.value.phases.tls_ms >= 300
        assert not caught.value.maybe_delivered


async def test_a_peer_that_does_not_say_goodbye_holds_no_descriptor(
    make_transport: MakeTransport, ca_file: Path, server_context: ssl.SSLContext
) -> None:
    transport = make_transport(extra_ca=ca_file)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10)

    def serve() -> float:
        """Answer once without reading on, and say how long it took until the connection was gone."""
        raw, _ = listener.accept()
        raw.settimeout(10)
        with server_context.wrap_socket(raw, server_side=True) as peer:
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 202 OK\r\nContent-Length: 5000000\r\n\r\n")
            began_s = time.monotonic()
            gone = select.poll()
            gone.register(peer, select.POLLRDHUP)
            gone.poll(10_000)
            return time.monotonic() - began_s

    with listener:
        serving = asyncio.get_running_loop().run_in_executor(None, serve)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/inbox"
        assert (await transport.post(PostRequest(url=url, headers=[], body=b"{}"))).status == 202
        assert await serving < 3


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("count", "at_once"), [(40, 20), pytest.param(10_000, 100, marks=pytest.mark.long)])
async def test_peers_that_do_not_say_goodbye_leave_no_socket(
    make_transport: MakeTransport, ca_file: Path, server_context: ssl.SSLContext, *, count: int, at_once: int
) -> None:
    """Not one of them answers the end of its connection: there are never more than a second's worth of them."""
    transport = make_transport(extra_ca=ca_file)

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await peer.send(b"HTTP/1.1 202 OK\r\nContent-Length: 5000000\r\n\r\n")
        try:
            await gone.wait()
        finally:
            peer.writer.transport.abort()

    gone, most = asyncio.Event(), 0
    async with raw_inbox(script, server_context) as inbox:
        for _ in range(count // at_once):
            gone.clear()
            requests = [PostRequest(url=inbox.url(scheme="https"), headers=[], body=b"{}") for _ in range(at_once)]
            answers = await asyncio.gather(*map(transport.post, requests))
            assert [answer.status for answer in answers] == [202] * at_once

            async def all_closed() -> bool:
                return sockets(inbox.port) == 0

            most = max(most, sockets(inbox.port))
            await until(all_closed, within_s=5)
            gone.set()
            await asyncio.sleep(0)
    assert most <= at_once


async def test_only_new_versions_of_tls(make_transport: MakeTransport, ca_file: Path, authority: trustme.CA) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(old)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with raw_inbox(always(ACCEPTED), old) as inbox:
        transport = make_transport(extra_ca=ca_file)
        with pytest.raises(TlsError):
            await transport.post(PostRequest(url=inbox.url(scheme="https"), headers=[], body=b"{}"))


async def test_an_extra_authority_that_cannot_be_used(make_transport: MakeTransport, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"extra_ca is .*none.pem', which cannot be read: No such file"):
        make_transport(extra_ca=tmp_path / "none.pem")
    (tmp_path / "bad.pem").write_text("hello")
    with pytest.raises(ConfigError, match=r"extra_ca is .*bad.pem'; allowed is a PEM file of certificates"):
        make_transport(extra_ca=tmp_path / "bad.pem")
