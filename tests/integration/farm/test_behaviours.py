# SPDX-License-Identifier: Apache-2.0
"""Each behaviour, seen from a plain socket, and what the ledger says of it."""

import gzip
import socket
import ssl
import time
import zlib

import pytest
from tests.integration.farm.sender import NOTE, Sender, answer, connection, port_of

from ojak.farm import Arrival, Counted, Ending, FarmHandle, FarmHost, over_limit
from ojak.farm.behaviour import Reach, Respond, Unreachable
from ojak.signing import Scheme


def only(farm: FarmHandle, word: str) -> FarmHost:
    (host,) = farm.labelled(word)
    return host


def last(farm: FarmHandle, host: FarmHost) -> Arrival:
    return farm.ledger().at(host.name).arrivals[-1]


def left(farm: FarmHandle, host: FarmHost) -> Arrival:
    """The last arrival, once the farm has heard that its sender went away."""
    assert farm.client.wait(Counted.OPEN, host.name, at_most=0)
    return last(farm, host)


@pytest.mark.parametrize("scheme", list(Scheme))
@pytest.mark.parametrize("ed25519", [False, True])
def test_a_signed_request_is_accepted_and_entered_whole(
    zoo: FarmHandle, sender: Sender, scheme: Scheme, *, ed25519: bool
) -> None:
    host = only(zoo, "accept")
    before_s = time.monotonic()
    assert sender.post(host, scheme=scheme, ed25519=ed25519, path="/users/u3/inbox").status == 202
    entered = last(zoo, host)
    assert entered.inbox == host.inbox("/users/u3/inbox")
    assert entered.activity == "https://sender.example/notes/1"
    assert (entered.scheme, entered.verdict, entered.takes) == (scheme, "verified", True)
    assert entered.key_id == f"{sender.name}#{'ed25519' if ed25519 else 'main'}-key"
    assert (entered.status, entered.ending, entered.open_requests) == (202, Ending.ANSWERED, 1)
    assert entered.ended_s is not None
    assert before_s < entered.arrived_s < entered.ended_s < time.monotonic()
    assert abs(entered.arrived_at_s - time.time()) < 60


def test_a_body_without_an_id_is_named_by_its_digest(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "accept")
    for body in (b"[]", b"no json", b'{"id":7}'):
        assert sender.post(host, body=body).status == 202
        entered = last(zoo, host)
        assert entered.activity == f"sha256:{entered.body_sha256}"


@pytest.mark.parametrize("scheme", list(Scheme))
def test_a_changed_body_is_not_verified(zoo: FarmHandle, sender: Sender, scheme: Scheme) -> None:
    host = only(zoo, "accept")
    with connection(host) as sock:
        sock.sendall(sender.request(host, scheme=scheme).replace(b"notes/1", b"notes/2"))
        assert answer(sock).status == 401
    entered = last(zoo, host)
    assert entered.verdict == "digest_mismatch"
    assert entered.unverified
    assert not entered.accepted


def test_a_request_without_signature_is_not_verified(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "accept")
    assert sender.post(host, scheme=None).status == 401
    entered = last(zoo, host)
    assert (entered.verdict, entered.scheme, entered.unverified) == ("missing_signature", "", True)


@pytest.mark.parametrize(
    ("word", "taken"), [("cavage-only", Scheme.CAVAGE), ("rfc9421-only", Scheme.RFC9421), ("no-scheme", None)]
)
def test_a_scheme_that_a_host_does_not_take_is_refused_and_counts_as_no_fault(
    zoo: FarmHandle, sender: Sender, word: str, taken: Scheme | None
) -> None:
    host = only(zoo, word)
    for scheme in Scheme:
        assert sender.post(host, scheme=scheme).status == (202 if scheme is taken else 401)
        entered = last(zoo, host)
        assert entered.takes is (scheme is taken)
        assert not entered.unverified


def test_an_unsigned_host_looks_at_nothing(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "unsigned")
    assert sender.post(host, scheme=None).status == 202
    entered = last(zoo, host)
    assert (entered.verdict, entered.unverified) == ("unasked", False)


@pytest.mark.parametrize(
    ("word", "status", "header"),
    [
        ("status:503", 503, None),
        ("gone", 410, None),
        ("redirect:https://elsewhere.example/inbox", 308, ("location", "https://elsewhere.example/inbox")),
    ],
)
def test_a_status(zoo: FarmHandle, sender: Sender, word: str, status: int, header: tuple[str, str] | None) -> None:
    host = only(zoo, word)
    got = sender.post(host)
    assert got.status == status
    if header is not None:
        assert got.headers[header[0]] == header[1]
    entered = last(zoo, host)
    assert (entered.status, entered.accepted, entered.verdict) == (status, False, "verified")


def test_a_slow_host_takes_its_time(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "slow:300")
    assert sender.post(host).status == 202
    entered = last(zoo, host)
    assert entered.ended_s is not None
    # the loop counts from when it woke, which is a little before the request was looked at
    assert 0.25 <= entered.ended_s - entered.arrived_s < 5


def test_scripts_step_by_request_and_refusals_are_no_step(zoo: FarmHandle, sender: Sender) -> None:
    limited = only(zoo, "rate-limited:2,7")
    answers = [sender.post(limited) for _ in range(3)]
    assert [got.status for got in answers] == [429, 429, 202]
    assert answers[0].headers["retry-after"] == "7"
    flapping = only(zoo, "flapping:1,2")
    statuses = [sender.post(flapping).status, sender.post(flapping, scheme=None).status]
    statuses += [sender.post(flapping).status for _ in range(4)]
    assert statuses == [503, 401, 202, 202, 503, 202]


def test_a_silent_host_answers_nothing_until_its_sender_leaves(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "silent")
    with connection(host) as sock:
        sock.sendall(sender.request(host))
        assert zoo.client.wait(Counted.OPEN, host.name, at_least=1)
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            sock.recv(1)
        assert last(zoo, host).ending is Ending.OPEN
    entered = left(zoo, host)
    assert (entered.ending, entered.status) == (Ending.LEFT, None)


def heard_before_reset(farm: FarmHandle, sender: Sender, word: str) -> bytes:
    """What a sender receives; the connection has to end by a reset, which may come as early as in connect."""
    host = only(farm, word)
    received = b""
    try:
        with connection(host) as sock:
            sock.sendall(sender.request(host))
            while chunk := sock.recv(4096):
                received += chunk
    except ConnectionResetError:
        return received
    raise AssertionError(received)


def test_a_reset_at_connect(zoo: FarmHandle, sender: Sender) -> None:
    assert heard_before_reset(zoo, sender, "reset:connect") == b""


@pytest.mark.parametrize(
    ("word", "received", "status"),
    [
        ("reset", b"", None),
        ("reset:answer-head", b"HTTP/1.1 202 Accepted\r", None),
        ("reset:answer-body", b"HTTP/1.1 202 Accepted\r\nContent-Length: 64\r\n\r\n" + b"x" * 32, 202),
    ],
)
def test_a_reset(zoo: FarmHandle, sender: Sender, word: str, received: bytes, status: int | None) -> None:
    assert heard_before_reset(zoo, sender, word) == received
    entered = last(zoo, only(zoo, word))
    assert (entered.ending, entered.status) == (Ending.RESET, status)


@pytest.mark.parametrize(("word", "status"), [("cut:answer-head", None), ("cut:answer-body", 202)])
def test_an_answer_cut_short(zoo: FarmHandle, sender: Sender, word: str, status: int | None) -> None:
    host = only(zoo, word)
    with connection(host) as sock:
        sock.sendall(sender.request(host))
        received = b"".join(iter(lambda: sock.recv(4096), b""))
    assert (b"\r\n\r\n" in received) is (status == 202)
    entered = last(zoo, host)
    assert (entered.ending, entered.status) == (Ending.CLOSED, status)


def test_refused_and_swallowed_connections_and_their_healing(zoo: FarmHandle, sender: Sender) -> None:
    refusing, swallowing = only(zoo, "refuse"), only(zoo, "black-hole")
    with pytest.raises(ConnectionRefusedError):
        connection(refusing)
    with pytest.raises(TimeoutError):
        connection(swallowing, patience_s=0.3)
    for host in (refusing, swallowing):
        assert zoo.client.hosts(host.name)[0].behaviour == "unreachable"
        assert zoo.client.heal(host.name) == 1
        assert sender.post(host).status == 202


def test_a_host_with_its_own_port_can_break_while_connections_stand(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "slow:300+tls+own-port")
    assert sender.post(host, ca=zoo.ca_path).status == 202
    with connection(host, ca=zoo.ca_path) as sock:
        sock.sendall(sender.request(host))
        assert zoo.client.wait(Counted.OPEN, host.name, at_least=1)
        zoo.client.behave(host.name, Unreachable())
        with pytest.raises((ConnectionError, ssl.SSLEOFError)):
            answer(sock)
    with pytest.raises(ConnectionRefusedError):
        connection(host, ca=zoo.ca_path)
    zoo.client.behave(host.name, Unreachable(reach=Reach.SWALLOWS))
    with pytest.raises(TimeoutError):
        connection(host, patience_s=0.3)
    zoo.client.heal(host.name)
    assert sender.post(host, ca=zoo.ca_path).status == 202


def test_a_host_that_closes_after_each_answer_does_not_say_so(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "close-each")
    with connection(host) as sock:
        sock.sendall(sender.request(host))
        received = b"".join(iter(lambda: sock.recv(4096), b""))
    assert received == b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


def test_paths_and_content_types_byte_for_byte(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "picky")
    assert sender.post(host, path="/users/ALLCAPS/inbox").status == 202
    assert sender.post(host, path="/users/allcaps/inbox").status == 404
    charset = "application/activity+json; charset=utf-8"
    assert sender.post(host, path="/users/ALLCAPS/inbox", content_type=charset).status == 415
    assert [entered.verdict for entered in zoo.ledger().at(host.name)] == ["verified"] * 3


def test_tls_is_trusted_through_the_farms_authority_alone(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "accept+tls")
    assert sender.post(host, ca=zoo.ca_path).status == 202
    assert last(zoo, host).inbox == host.inbox()
    with pytest.raises(ssl.SSLCertVerificationError):
        connection(host)


@pytest.mark.parametrize(
    ("word", "words"), [("expired", "expired"), ("wrong-name", "mismatch"), ("untrusted", "unable to get local issuer")]
)
def test_certificates_that_must_not_be_trusted(zoo: FarmHandle, word: str, words: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=words):
        connection(only(zoo, word), ca=zoo.ca_path)


def test_interim_answers_come_before_the_final_one(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "interim")
    with connection(host) as sock:
        sock.sendall(sender.request(host))
        received = b""
        while b" 202 " not in received:
            received += sock.recv(4096)
    assert received.count(b"HTTP/1.1 103 ") == 3
    assert last(zoo, host).accepted


@pytest.mark.parametrize("word", ["drip-head:10", "drip-body:10", "endless-interim:10"])
def test_answers_without_end_go_on_until_the_sender_leaves(zoo: FarmHandle, sender: Sender, word: str) -> None:
    host = only(zoo, word)
    with connection(host) as sock:
        sock.sendall(sender.request(host))
        for _ in range(5):
            assert sock.recv(1)
    entered = left(zoo, host)
    assert entered.ending is Ending.LEFT
    assert entered.accepted is (word == "drip-body:10")


@pytest.mark.parametrize(("word", "size_bytes"), [("huge-head:3000000", 3_000_000), ("many-fields:5000", 1_000_000)])
def test_a_head_that_is_too_large_arrives_whole_if_one_reads_it(
    zoo: FarmHandle, sender: Sender, word: str, size_bytes: int
) -> None:
    host = only(zoo, word)
    with connection(host) as sock:
        sock.sendall(sender.request(host))
        received = bytearray()
        while not received.endswith(b"\r\n\r\n"):
            received += sock.recv(1 << 20)
    assert len(received) > size_bytes


def test_a_huge_body_waits_for_its_reader(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "huge-body:50000000")
    with connection(host) as sock:
        sock.sendall(sender.request(host))
        assert sock.recv(4096).startswith(b"HTTP/1.1 202")
        assert zoo.client.wait(Counted.OPEN, host.name, at_least=1)
        assert last(zoo, host).accepted
    assert left(zoo, host).ending is Ending.LEFT


def test_a_bomb_is_small_on_the_wire_and_large_inside(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "bomb")
    with connection(host) as sock:
        sock.sendall(sender.request(host))
        got = answer(sock)
    assert got.headers["content-encoding"] == "gzip"
    assert len(got.body) < 2_000_000
    assert len(zlib.decompressobj(wbits=31).decompress(got.body, 2 << 20)) == 1 << 20
    assert gzip.decompress(got.body[: len(got.body) // 1024]) == bytes(1 << 20)


def test_noise(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "garbage")
    with connection(host) as sock:
        sock.sendall(sender.request(host))
        received = b"".join(iter(lambda: sock.recv(4096), b""))
    assert len(received) == 256
    assert not last(zoo, host).accepted


def test_requests_in_pieces_and_one_after_another_on_one_connection(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "accept")
    first, second = sender.request(host, path="/1"), sender.request(host, path="/2", scheme=Scheme.RFC9421)
    with connection(host) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(first), 40):
            sock.sendall(first[start : start + 40])
        assert answer(sock).status == 202
        sock.sendall(second + first[:-5])
        assert answer(sock).status == 202
        sock.sendall(first[-5:])
        assert answer(sock).status == 202
    entered = zoo.ledger().at(host.name).arrivals[-3:]
    assert [one.inbox.rpartition("/")[2] for one in entered] == ["1", "2", "1"]
    assert len({one.connection for one in entered}) == 1
    assert all(one.verdict == "verified" for one in entered)


def test_a_request_sent_before_the_slow_answer_to_the_last_waits(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "slow:300")
    with connection(host) as sock:
        sock.sendall(sender.request(host) + sender.request(host))
        received = b""
        while received.count(b"HTTP/1.1 202") < 2:
            received += sock.recv(4096)
    one, two = zoo.ledger().at(host.name).arrivals[-2:]
    assert one.ended_s is not None
    assert two.arrived_s >= one.ended_s
    assert two.open_requests == 1


def test_three_at_once_are_seen_at_once(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "slow:300")
    mark = zoo.client.flush()
    socks = [connection(host) for _ in range(3)]
    try:
        for sock in socks:
            sock.sendall(sender.request(host))
        assert [answer(sock).status for sock in socks] == [202] * 3
    finally:
        for sock in socks:
            sock.close()
    ledger = zoo.ledger(after=mark)
    assert max(one.open_requests for one in ledger) == 3
    assert [moment.open_requests for moment in over_limit(ledger, 2)] == [3]
    assert zoo.client.hosts(host.name)[0].peak == 3


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ((b"Host: h", b"Host: x"), 421, "misdirected"),
        ((b"Content-Length", b"Content-Longth"), 411, "no-length"),
        ((b"Content-Type", b"Transfer-Encoding: chunked\r\nContent-Type"), 400, "transfer-encoding"),
        ((b"Content-Type", b"Expect: 100-continue\r\nContent-Type"), 400, "expect"),
        ((b"Content-Type: ", b"Content-Type: " + b"x" * 40_000), 431, "head-too-large"),
    ],
)
def test_what_reaches_no_inbox_is_refused_and_entered_as_not_verified(
    zoo: FarmHandle, sender: Sender, change: tuple[bytes, bytes], status: int, reason: str
) -> None:
    host = only(zoo, "accept")
    before = zoo.report().rejected.get(reason, 0)
    with connection(host) as sock:
        sock.sendall(sender.request(host).replace(*change, 1))
        got = answer(sock)
    assert (got.status, got.body) == (status, reason.encode())
    assert zoo.report().rejected[reason] == before + 1
    entered = last(zoo, host)
    assert (entered.verdict, entered.unverified, entered.status) == (reason, True, status)


def test_a_host_is_known_by_its_address_too(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "accept")
    by_address = FarmHost(
        name=host.address,
        address=host.address,
        label=host.label,
        origin=f"http://{host.address}:{port_of(host)}",
        living=True,
    )
    assert sender.post(by_address).status == 202
    assert last(zoo, host).inbox == by_address.inbox()


def test_another_hosts_name_at_this_address_is_misdirected(zoo: FarmHandle, sender: Sender) -> None:
    host, other = only(zoo, "accept"), only(zoo, "unsigned")
    with connection(host) as sock:
        sock.sendall(sender.request(other))
        assert answer(sock).status == 421


def test_other_methods_are_no_deliveries(zoo: FarmHandle) -> None:
    host = only(zoo, "accept")
    before = len(zoo.ledger().at(host.name))
    with connection(host) as sock:
        sock.sendall(f"GET /inbox HTTP/1.1\r\nHost: {host.origin[7:]}\r\n\r\n".encode())
        assert answer(sock).status == 405
    assert len(zoo.ledger().at(host.name)) == before


def test_what_comes_to_another_address_is_turned_away(zoo: FarmHandle) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        own_address = probe.getsockname()[0]
    with pytest.raises(OSError), socket.create_connection((own_address, zoo.http_port), timeout=5) as sock:  # noqa: PT012
        sock.sendall(b"POST / HTTP/1.1\r\n")
        if not sock.recv(1):
            raise ConnectionResetError


def test_a_connection_counts_before_any_request(zoo: FarmHandle) -> None:
    host = only(zoo, "unsigned")
    before = zoo.client.hosts(host.name)[0].connections
    with connection(host):
        assert zoo.client.wait(Counted.CONNECTIONS, host.name, at_least=before + 1)


def test_a_host_can_change_and_change_back(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "accept")
    zoo.client.behave(host.name, Respond(status=500, latency_ms=1))
    assert sender.post(host, body=NOTE).status == 500
    assert zoo.client.hosts(host.name)[0].behaviour == "respond 500"
    zoo.client.heal(host.name)
    assert sender.post(host).status == 202
