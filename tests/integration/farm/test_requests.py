# SPDX-License-Identifier: Apache-2.0
"""What the farm makes of requests: those that it accepts, and those that reach no inbox."""

import socket
import time

import pytest
from tests.integration.farm.entered import last, only
from tests.integration.farm.sender import Sender, answer, connection, port_of

from ojak.farm import Counted, Ending, FarmHandle, FarmHost, over_limit
from ojak.signing import Scheme


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
