# SPDX-License-Identifier: Apache-2.0
"""Each behaviour, seen from a plain socket, and what the ledger says of it."""

import gzip
import ssl
import zlib

import pytest
from tests.integration.farm.entered import last, left, only
from tests.integration.farm.sender import NOTE, Sender, answer, connection

from ojak.farm import Counted, Ending, FarmHandle
from ojak.farm.behaviour import Reach, Respond, Unreachable


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


def test_a_host_can_change_and_change_back(zoo: FarmHandle, sender: Sender) -> None:
    host = only(zoo, "accept")
    zoo.client.behave(host.name, Respond(status=500, latency_ms=1))
    assert sender.post(host, body=NOTE).status == 500
    assert zoo.client.hosts(host.name)[0].behaviour == "respond 500"
    zoo.client.heal(host.name)
    assert sender.post(host).status == 202
