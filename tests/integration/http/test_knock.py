# SPDX-License-Identifier: Apache-2.0
"""Attempts against inboxes that verify: both schemes, one slot, and what each field report asks for."""

import contextlib
import locale
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.transport.raw_inbox import ACCEPTED, Peer, always, raw_inbox
from tests.integration.http.conftest import MakeTransport
from tests.integration.http.verifying import Verifying

from ojak.clock import ManualClock
from ojak.errors import ConfigError, InputError
from ojak.http.aiohttp_transport import AiohttpTransport
from ojak.http.knock import LD_JSON, Knocked, Knocker, check_headers
from ojak.http.transport import FaultReason, PostAnswer, PostError, PostPhases, PostRequest
from ojak.model.inbox import canonical_inbox
from ojak.signing import BodyDigest, CachingSenderKeys, PrivateKey, Scheme, SenderKeyring, SigningKey, sign

BODY = b'{"type":"Create"}'
BOTH = [Scheme.CAVAGE, Scheme.RFC9421]


async def knock(
    transport: AiohttpTransport, url: str, key: SigningKey, first: Scheme = Scheme.CAVAGE, body: bytes = BODY
) -> Knocked:
    inbox = canonical_inbox(url)
    return await Knocker(transport).knock(inbox.url, body, digest=BodyDigest(body), key=key, first=first)


@pytest.mark.parametrize("first", BOTH)
async def test_the_first_scheme_is_enough(transport: AiohttpTransport, key: SigningKey, first: Scheme) -> None:
    async with raw_inbox(Verifying(key)) as inbox:
        knocked = await knock(transport, inbox.url(), key, first)
        assert (knocked.answer.status, knocked.scheme, knocked.first_status) == (202, first, None)
        assert not knocked.knocked
        assert not knocked.decisive
        assert knocked.sign_ms > 0
        assert knocked.post_ms > 0
        assert len(inbox.received) == 1


@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize("status", [400, 401, 403])
async def test_the_other_scheme_is_tried_in_the_same_attempt(
    transport: AiohttpTransport, key: SigningKey, first: Scheme, status: int
) -> None:
    refusal = b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status
    async with raw_inbox(Verifying(key, (first.other,), refusal)) as inbox:
        knocked = await knock(transport, inbox.url(), key, first)
        assert (knocked.answer.status, knocked.scheme, knocked.first_status) == (202, first.other, status)
        assert knocked.decisive
        assert inbox.connections == 1


@pytest.mark.parametrize("status", [404, 408, 410, 429, 500, 503, 301])
async def test_nothing_else_is_a_reason_to_knock_again(
    transport: AiohttpTransport, key: SigningKey, status: int
) -> None:
    async with raw_inbox(always(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status)) as inbox:
        knocked = await knock(transport, inbox.url(), key)
        assert (knocked.answer.status, knocked.knocked) == (status, False)
        assert len(inbox.received) == 1


async def test_both_refused(transport: AiohttpTransport, key: SigningKey) -> None:
    async with raw_inbox(Verifying(key, ())) as inbox:
        knocked = await knock(transport, inbox.url(), key)
        assert (knocked.answer.status, knocked.knocked, knocked.decisive) == (401, True, False)
        assert len(inbox.received) == 2


async def test_the_second_knock_can_be_forbidden(transport: AiohttpTransport, key: SigningKey) -> None:
    knocker, digest = Knocker(transport), BodyDigest(BODY)
    async with raw_inbox(Verifying(key, ())) as inbox:
        pinned = await knocker.knock(inbox.url(), BODY, digest=digest, key=key, first=Scheme.CAVAGE, second=False)
        assert (pinned.answer.status, pinned.knocked) == (401, False)
        left = iter([5.0, 0.0])
        cancelled = await knocker.knock(
            inbox.url(), BODY, digest=digest, key=key, first=Scheme.CAVAGE, allowance=lambda: next(left)
        )
        assert (cancelled.answer.status, cancelled.knocked) == (401, False)
        assert len(inbox.received) == 2


async def test_the_time_of_a_request_can_be_limited(transport: AiohttpTransport, key: SigningKey) -> None:
    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    async with raw_inbox(silent) as inbox:
        began_s = time.monotonic()
        with pytest.raises(PostError) as caught:
            await Knocker(transport).knock(
                inbox.url(), BODY, digest=BodyDigest(BODY), key=key, first=Scheme.CAVAGE, allowance=lambda: 0.2
            )
        assert time.monotonic() - began_s < 2
        assert caught.value.reason is FaultReason.TIMEOUT
        assert (caught.value.scheme, caught.value.first_status) == (Scheme.CAVAGE, None)


async def test_a_second_knock_that_fails_says_what_went_before(transport: AiohttpTransport, key: SigningKey) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")
        await peer.request()

    async with raw_inbox(script) as inbox:
        with pytest.raises(PostError) as caught:
            await knock(transport, inbox.url(), key)
        assert (caught.value.scheme, caught.value.first_status) == (Scheme.RFC9421, 401)


async def test_both_knocks_pass_the_guard(make_transport: MakeTransport, key: SigningKey) -> None:
    """The answer to the first closes the connection, and the name then leads to a refused address."""
    addresses = {"turning.test": ("127.0.0.1",)}
    transport = make_transport(resolver_map=addresses)

    async def script(peer: Peer) -> None:
        await peer.request()
        addresses["turning.test"] = ("10.0.0.1",)
        await peer.send(b"HTTP/1.1 401 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

    async with raw_inbox(script) as inbox:
        with pytest.raises(PostError) as caught:
            await knock(transport, inbox.url(host="turning.test"), key)
        assert (caught.value.reason, caught.value.first_status) == (FaultReason.REFUSED_ADDRESS, 401)
        assert not caught.value.maybe_delivered


@pytest.mark.parametrize("first", BOTH)
async def test_r05_the_path_is_signed_and_sent_as_given(
    transport: AiohttpTransport, key: SigningKey, first: Scheme
) -> None:
    targets = ["/users/ALLCAPS/inbox", "//f/inbox", "/f/inbox", "/inbox?", "/a/../b?x=%7E%2c"]
    verifying = Verifying(key)
    async with raw_inbox(verifying) as inbox:
        for target in targets:
            assert (await knock(transport, inbox.url(target), key, first)).first_status is None
        assert [received.target for received in inbox.received] == targets
        assert [verified.scheme for verified in verifying.verified] == [first] * len(targets)


class Recording:
    """A transport that keeps what it should send."""

    def __init__(self) -> None:
        self.requests: list[PostRequest] = []

    async def post(self, request: PostRequest) -> PostAnswer:
        self.requests.append(request)
        return PostAnswer(status=202, phases=PostPhases())

    async def close(self) -> None:
        pass


R06 = {
    "http://h.test:80/i": "h.test",
    "https://h.test:443/i": "h.test",
    "http://h.test/i": "h.test",
    "http://h.test:8081/i": "h.test:8081",
    "http://[::1]:8081/i": "[::1]:8081",
    "http://H.Test:8081/i": "h.test:8081",
    "https://münchen.test:80/i": "xn--mnchen-3ya.test:80",
}


@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize("url", R06)
async def test_r06_the_signed_host_is_the_sent_one(key: SigningKey, first: Scheme, url: str) -> None:
    recording, inbox = Recording(), canonical_inbox(url)
    await Knocker(recording).knock(inbox.url, BODY, digest=BodyDigest(BODY), key=key, first=first)
    request = recording.requests[0]
    assert dict(request.headers)["Host"] == inbox.authority == R06[url]
    assert request.url == inbox.url


@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost.test", "LOCALHOST.Test", "münchen.test"])
async def test_r06_on_the_wire(make_transport: MakeTransport, key: SigningKey, first: Scheme, host: str) -> None:
    names = {"localhost.test": ("127.0.0.1",), "xn--mnchen-3ya.test": ("127.0.0.1",)}
    verifying = Verifying(key)
    async with raw_inbox(verifying) as inbox:
        url = canonical_inbox(inbox.url(host=host))
        await knock(make_transport(resolver_map=names), url.url, key, first)
        assert inbox.received[0].field("host") == url.authority
        assert len(verifying.verified) == 1


@pytest.mark.parametrize("size", [2, 70_000, 1 << 20])
async def test_r09_both_knocks_have_a_length(transport: AiohttpTransport, key: SigningKey, size: int) -> None:
    body = b"x" * size

    async def script(peer: Peer) -> None:
        for answer in (b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", ACCEPTED):
            received = await peer.request()
            bad = received.field("transfer-encoding") or received.field("expect")
            wanted = not bad and received.field("content-length") == str(size) and received.body == body
            await peer.send(answer if wanted else b"HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\n\r\n")

    async with raw_inbox(script) as inbox:
        assert (await knock(transport, inbox.url(), key, body=body)).decisive


@pytest.mark.parametrize("content_type", [None, LD_JSON])
async def test_r10_one_exact_content_type(
    transport: AiohttpTransport, key: SigningKey, content_type: str | None
) -> None:
    wanted = "application/activity+json" if content_type is None else content_type

    async def script(peer: Peer) -> None:
        received = await peer.request()
        if received.field("content-type") == wanted:
            await peer.send(ACCEPTED)
        await peer.send(b"HTTP/1.1 415 Unsupported\r\nContent-Length: 11\r\n\r\nonly JSON!\n")

    digest = BodyDigest(BODY)
    async with raw_inbox(script) as inbox:
        knocked = await Knocker(transport).knock(
            inbox.url(), BODY, digest=digest, key=key, first=Scheme.CAVAGE, content_type=content_type
        )
        assert knocked.answer.status == 202
        other = await Knocker(transport, content_type="application/json").knock(
            inbox.url(), BODY, digest=digest, key=key, first=Scheme.CAVAGE
        )
        assert (other.answer.status, other.answer.body_head) == (415, b"only JSON!\n")
    assert LD_JSON == 'application/ld+json; profile="https://www.w3.org/ns/activitystreams"'


@pytest.fixture(scope="session")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of locales, built from their sources where the system has these."""
    folder = tmp_path_factory.mktemp("locales")
    if program := shutil.which("localedef"):
        for name in ("ja_JP", "de_DE", "ar_EG"):
            arguments = ["--no-archive", "-i", name, "-f", "UTF-8", str(folder / f"{name}.UTF-8")]
            subprocess.run([program, *arguments], check=False, capture_output=True)
    return folder


@pytest.fixture(params=["ja_JP.UTF-8", "de_DE.UTF-8", "ar_EG.UTF-8", "C.UTF-8"])
def foreign(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, locales: Path) -> Iterator[None]:
    before = locale.setlocale(locale.LC_TIME)
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    monkeypatch.setenv("LC_ALL", request.param)
    if (locales / request.param).exists():
        monkeypatch.setenv("LOCPATH", str(locales))
    time.tzset()
    with contextlib.suppress(locale.Error):  # where it is not installed, the environment alone is tried
        locale.setlocale(locale.LC_TIME, request.param)
    yield
    locale.setlocale(locale.LC_TIME, before)
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize(
    ("now_s", "date"),
    [
        (1788220800, "Tue, 01 Sep 2026 00:00:00 GMT"),
        (1772323199, "Sat, 28 Feb 2026 23:59:59 GMT"),
        (1772323200, "Sun, 01 Mar 2026 00:00:00 GMT"),
        (1835395200, "Tue, 29 Feb 2028 00:00:00 GMT"),
    ],
)
async def test_r17_the_date_is_english_and_gmt(
    transport: AiohttpTransport, key: SigningKey, foreign: None, *, now_s: int, date: str, first: Scheme
) -> None:
    verifying = Verifying(key, now_s=now_s)
    async with raw_inbox(verifying) as inbox:
        knocker = Knocker(transport, clock=ManualClock(wall_s=now_s))
        await knocker.knock(inbox.url(), BODY, digest=BodyDigest(BODY), key=key, first=first)
        assert inbox.received[0].field("date") == date
    assert [verified.scheme for verified in verifying.verified] == [first]


async def test_each_request_is_signed_anew(transport: AiohttpTransport, key: SigningKey) -> None:
    clock = ManualClock()

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            clock.turn(7)
            await peer.send(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")

    async with raw_inbox(script) as inbox:
        await Knocker(transport, clock=clock).knock(
            inbox.url(), BODY, digest=BodyDigest(BODY), key=key, first=Scheme.RFC9421
        )
        assert [received.field("date") for received in inbox.received] == [
            "Sun, 15 Jun 2025 15:06:40 GMT",
            "Sun, 15 Jun 2025 15:06:47 GMT",
        ]


async def test_what_we_say_of_ourselves(transport: AiohttpTransport, key: SigningKey) -> None:
    async with raw_inbox(always(ACCEPTED)) as inbox:
        await knock(transport, inbox.url(), key)
        digest = BodyDigest(BODY)
        await Knocker(transport, agent="Mine/2").knock(inbox.url(), BODY, digest=digest, key=key, first=Scheme.CAVAGE)
        agents = [received.field("user-agent") or "" for received in inbox.received]
    assert agents[0].startswith("Ojak/")
    assert agents[1] == "Mine/2"


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("first", BOTH)
async def test_further_fields(transport: AiohttpTransport, key: SigningKey, first: Scheme, *, signed: bool) -> None:
    further = [("Collection-Synchronization", 'collectionId="https://a.test/f", url="https://a.test/s", digest="00"')]
    verifying = Verifying(key)
    async with raw_inbox(verifying) as inbox:
        await Knocker(transport).knock(
            inbox.url(),
            BODY,
            digest=BodyDigest(BODY),
            key=key,
            first=first,
            signed=further if signed else (),
            unsigned=() if signed else further,
        )
        assert inbox.received[0].field("collection-synchronization") == further[0][1]
    covered = {name.strip('"') for name in verifying.verified[0].covered}
    assert ("collection-synchronization" in covered) is signed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Host", "x"),
        ("content-length", "5"),
        ("Signature", "x"),
        ("X Y", "x"),
        ("", "x"),
        ("X:", "x"),
        ("X", "a\r\nY: b"),
        ("X", "caf\xe9"),
        ("X", " x"),
        ("X", "x" * 8193),
        ("X\r\nY", "b"),
    ],
)
def test_fields_that_cannot_be_added(name: str, value: str) -> None:
    with pytest.raises(InputError) as caught:
        check_headers([(name, value)])
    assert str(caught.value).isprintable()
    with pytest.raises(InputError, match="once each"):
        check_headers([("X-A", "1"), ("x-a", "2")])
    check_headers([("X-A", "1"), ("X-B", "a\tb")])


@pytest.mark.parametrize("agent", ["", " x", "a\nb", "caf\xe9", "x" * 501])
async def test_an_agent_that_cannot_be_sent(transport: AiohttpTransport, agent: str) -> None:
    with pytest.raises(ConfigError, match="user_agent is"):
        Knocker(transport, agent=agent)
    with pytest.raises(ConfigError, match="content_type is"):
        Knocker(transport, content_type="a\r\nb")


async def test_r35_a_delivery_costs_no_more_than_one_and_a_half_signatures_beside_its_request(key: SigningKey) -> None:
    """The key is kept as it was parsed: to ask for it, and to make a request of it, costs a part of a signature."""

    class Source:
        async def keys_of(self, sender: str) -> SenderKeyring:
            return SenderKeyring(rsa=SigningKey(key_id=key.key_id, key=PrivateKey.from_pem(pem)))

    pem = key.key.private_pem()
    keys, knocker, digest = CachingSenderKeys(Source()), Knocker(Recording()), BodyDigest(BODY)

    async def deliveries() -> float:
        began_s = time.process_time()
        for _ in range(100):
            found = await keys.keys_of("https://a.test/u")
            await knocker.knock("https://h.test/i", BODY, digest=digest, key=found.rsa, first=Scheme.CAVAGE)
        return time.process_time() - began_s

    async def signatures() -> float:
        began_s = time.process_time()
        for _ in range(100):
            sign(key.key, key.key_id, "cavage", "POST", "https://h.test/i", digest, 1_700_000_000, None)
        return time.process_time() - began_s

    # The least of several, since whatever else the machine does adds to either.
    assert min([await deliveries() for _ in range(4)]) < 1.5 * min([await signatures() for _ in range(4)])
