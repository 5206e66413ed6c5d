# SPDX-License-Identifier: Apache-2.0
"""The resolver, against a name server on loopback."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_network

import pytest
from tests.conformance.transport.raw_inbox import ACCEPTED, always, raw_inbox
from tests.integration.http.conftest import MakeTransport
from tests.integration.http.dns_server import NXDOMAIN, SERVFAIL, NameServer, name_server

from ojak.clock import ManualClock
from ojak.http.guard import Guard
from ojak.http.resolver import Dns, NameNotResolved, Resolver
from ojak.http.transport import FaultReason, LocalError, PostRequest, ResolveError

EVERYTHING = Guard((ip_network("0.0.0.0/0"), ip_network("::/0")))


@pytest.fixture
async def server() -> AsyncIterator[NameServer]:
    async with name_server() as server:
        yield server


MakeResolver = Callable[..., Resolver]


@pytest.fixture
async def make_resolver(server: NameServer) -> AsyncIterator[MakeResolver]:
    made: list[Resolver] = []
    dns: list[Dns] = []

    def make(guard: Guard = EVERYTHING, **options: object) -> Resolver:
        dns.append(Dns(servers=[f"127.0.0.1:{server.port}"], timeout_s=0.5, tries=2))
        options = {"lookup": dns[-1].lookup, **options}
        made.append(Resolver(guard=guard, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for resolver in made:
        await resolver.close()
    for each in dns:
        await each.close()


async def addresses(resolver: Resolver, host: str) -> list[str]:
    return [found["host"] for found in await resolver.resolve(host, 443)]


async def test_addresses_of_both_families(server: NameServer, make_resolver: MakeResolver) -> None:
    server.names["two.test"] = ["192.0.2.1", "2001:db8::1"]
    found = await make_resolver().resolve("two.test", 443)
    assert {(entry["host"], entry["family"], entry["port"]) for entry in found} >= {
        ("192.0.2.1", socket.AF_INET, 443),
    }
    assert all(entry["flags"] == socket.AI_NUMERICHOST for entry in found)


async def test_at_most_two_of_a_family(server: NameServer, make_resolver: MakeResolver) -> None:
    server.names["many.test"] = [f"192.0.2.{last}" for last in range(1, 9)]
    assert len(await addresses(make_resolver(), "many.test")) == 2


async def test_refused_addresses_are_left_out_while_there_are_others(
    server: NameServer, make_resolver: MakeResolver
) -> None:
    server.names["mixed.test"] = ["10.0.0.1", "127.0.0.1", "192.168.0.1", "1.1.1.1"]
    server.names["inner.test"] = ["10.0.0.1"]
    resolver = make_resolver(Guard())
    assert await addresses(resolver, "mixed.test") == ["1.1.1.1"]
    assert await addresses(resolver, "inner.test") == ["10.0.0.1"]


@pytest.mark.parametrize("known", [NXDOMAIN, SERVFAIL, []])
async def test_a_name_without_address(server: NameServer, make_resolver: MakeResolver, known: list[str] | int) -> None:
    server.names["none.test"] = known
    with pytest.raises(NameNotResolved, match=r"none\.test has no address: ") as caught:
        await make_resolver().resolve("none.test")
    assert not caught.value.own


async def test_what_is_known_is_not_asked_again_for_a_while(server: NameServer, make_resolver: MakeResolver) -> None:
    server.names["good.test"] = ["192.0.2.1"]
    clock = ManualClock()
    resolver = make_resolver(clock=clock)

    async def ask() -> None:
        await resolver.resolve("good.test")
        with pytest.raises(NameNotResolved):
            await resolver.resolve("bad.test")

    for _ in range(3):
        await ask()
    assert (server.asked["good.test"], server.asked["bad.test"]) == (1, 1)
    clock.turn(11)
    await ask()
    assert (server.asked["good.test"], server.asked["bad.test"]) == (2, 1)
    clock.turn(50)
    await ask()
    assert (server.asked["good.test"], server.asked["bad.test"]) == (3, 2)


async def test_many_who_ask_at_once_ask_once(server: NameServer, make_resolver: MakeResolver) -> None:
    server.names["good.test"] = ["192.0.2.1"]
    resolver = make_resolver()
    found = await asyncio.gather(*(addresses(resolver, "good.test") for _ in range(20)))
    assert found == [["192.0.2.1"]] * 20
    assert server.asked["good.test"] == 1


async def test_one_who_gives_up_takes_nothing_from_the_others(make_resolver: MakeResolver) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def lookup(host: str) -> list[str]:
        asked.set()
        await answer.wait()
        return ["192.0.2.1"]

    resolver = make_resolver(lookup=lookup)
    first = asyncio.create_task(addresses(resolver, "h.test"))
    await asked.wait()
    second = asyncio.create_task(addresses(resolver, "h.test"))
    first.cancel()
    answer.set()
    assert await second == ["192.0.2.1"]
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_hung_names_stop_no_other(server: NameServer, make_resolver: MakeResolver) -> None:
    hung = [f"hung{number}.test" for number in range(50)]
    server.names.update(dict.fromkeys(hung))
    server.names["good.test"] = ["192.0.2.1"]
    resolver = make_resolver(limit_s=0.8)
    waiting = [asyncio.create_task(addresses(resolver, name)) for name in hung]
    async with asyncio.timeout(5):
        await server.enough.wait()
    began_s = time.monotonic()
    assert await addresses(resolver, "good.test") == ["192.0.2.1"]
    assert time.monotonic() - began_s < 0.7
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {NameNotResolved}
    assert time.monotonic() - began_s < 3


async def test_no_server_is_a_fault_of_our_own_and_not_remembered(make_resolver: MakeResolver) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    dead = Dns(servers=[f"127.0.0.1:{port}"], timeout_s=0.3, tries=1)
    resolver = make_resolver(lookup=dead.lookup)
    for _ in range(2):
        with pytest.raises(NameNotResolved) as caught:
            await resolver.resolve("good.test")
        assert caught.value.own
    await dead.close()
    assert resolver._found == {}


async def test_a_resolver_that_breaks_is_a_fault_of_our_own(make_resolver: MakeResolver) -> None:
    async def lookup(host: str) -> list[str]:
        raise OSError(24, "Too many open files")

    with pytest.raises(NameNotResolved, match="the resolver failed: Too many open files") as caught:
        await make_resolver(lookup=lookup).resolve("good.test")
    assert caught.value.own


async def test_a_flood_of_names_fills_nothing(make_resolver: MakeResolver) -> None:
    async def lookup(host: str) -> list[str]:
        return ["192.0.2.1"]

    resolver = make_resolver(lookup=lookup, max_names=10)
    for number in range(100):
        await resolver.resolve(f"h{number}.test")
    assert list(resolver._found) == [f"h{number}.test" for number in range(90, 100)]
    assert resolver._flights == {}


async def test_a_map_goes_before_dns(server: NameServer, make_resolver: MakeResolver) -> None:
    resolver = make_resolver(known={"good.test": ("192.0.2.7", "2001:db8::7")})
    assert await addresses(resolver, "good.test") == ["192.0.2.7", "2001:db8::7"]
    assert server.asked.total() == 0


async def test_closing_ends_what_is_under_way(make_resolver: MakeResolver) -> None:
    async def lookup(host: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    resolver = make_resolver(lookup=lookup)
    asking = asyncio.create_task(addresses(resolver, "h.test"))
    await asyncio.sleep(0)
    await resolver.close()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_no_search_list_is_used(server: NameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALDOMAIN", "inner.test")
    server.names["h.inner.test"] = ["192.0.2.1"]
    dns = Dns(servers=[f"127.0.0.1:{server.port}"])
    with pytest.raises(NameNotResolved):
        await dns.lookup("h")
    assert set(server.asked) == {"h"}
    await dns.close()


async def test_localhost_comes_from_the_machine() -> None:
    dns = Dns()
    assert "127.0.0.1" in await dns.lookup("localhost")
    await dns.close()


@pytest.mark.parametrize("known", [NXDOMAIN, SERVFAIL, None])
async def test_a_transport_says_dns(
    server: NameServer, make_resolver: MakeResolver, make_transport: MakeTransport, known: int | None
) -> None:
    server.names["bad.test"] = known
    server.names["good.test"] = ["127.0.0.1"]
    transport = make_transport(resolver=make_resolver(limit_s=0.4))
    with pytest.raises(ResolveError) as caught:
        await transport.post(PostRequest(url="http://bad.test/inbox", headers=[], body=b"{}"))
    assert (caught.value.reason, caught.value.maybe_delivered) == (FaultReason.DNS, False)
    async with raw_inbox(always(ACCEPTED)) as inbox:
        answer = await transport.post(PostRequest(url=inbox.url(host="good.test"), headers=[], body=b"{}"))
        assert answer.status == 202


async def test_a_transport_says_when_the_resolver_is_at_fault(
    make_resolver: MakeResolver, make_transport: MakeTransport
) -> None:
    async def lookup(host: str) -> list[str]:
        raise OSError(24, "Too many open files")

    transport = make_transport(resolver=make_resolver(lookup=lookup))
    with pytest.raises(LocalError) as caught:
        await transport.post(PostRequest(url="http://good.test/inbox", headers=[], body=b"{}"))
    assert caught.value.reason is FaultReason.LOCAL
