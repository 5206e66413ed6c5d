# SPDX-License-Identifier: Apache-2.0
"""Keys kept for a while. Report R35 of the field: a key is not loaded anew for each recipient."""

import asyncio

import pytest

from ojak.clock import ManualClock
from ojak.errors import ConfigError, UnknownSender
from ojak.signing import CachingSenderKeys, KeyRefused, PrivateKey, SenderKeyring, SigningKey

RSA = PrivateKey.generate_rsa()


def keyring(key_id: str) -> SenderKeyring:
    return SenderKeyring(rsa=SigningKey(key_id=key_id, key=RSA))


class Source:
    """A source that counts its loads, waits for a gate, and fails when told to."""

    def __init__(self) -> None:
        self.loads: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: Exception | None = None

    async def keys_of(self, sender: str) -> SenderKeyring:
        self.loads.append(sender)
        number = len(self.loads)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return keyring(f"{sender}#{number}")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def cache(source: Source, clock: ManualClock) -> CachingSenderKeys:
    return CachingSenderKeys(source, ttl_s=300.0, retry_s=1.0, clock=clock)


async def turn() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_five_thousand_who_ask_at_once_load_once(cache: CachingSenderKeys, source: Source) -> None:
    source.gate.clear()
    askers = [asyncio.create_task(cache.keys_of("a")) for _ in range(5000)]
    await turn()
    source.gate.set()
    assert {ring.rsa.key_id for ring in await asyncio.gather(*askers)} == {"a#1"}
    assert source.loads == ["a"]


async def test_each_sender_is_loaded_once_a_ttl(cache: CachingSenderKeys, source: Source, clock: ManualClock) -> None:
    senders = [f"s{number}" for number in range(64)]
    for _ in range(3):
        await asyncio.gather(*(cache.keys_of(sender) for sender in senders for _ in range(10)))
        clock.turn(150.0)
    assert sorted(source.loads) == sorted(senders * 2)


async def test_an_old_key_serves_others_while_one_refreshes(
    cache: CachingSenderKeys, source: Source, clock: ManualClock
) -> None:
    await cache.keys_of("a")
    clock.turn(300.0)
    source.gate.clear()
    first = asyncio.create_task(cache.keys_of("a"))
    await turn()
    assert (await cache.keys_of("a")).rsa.key_id == "a#1"
    source.gate.set()
    assert (await first).rsa.key_id == "a#2"
    assert (await cache.keys_of("a")).rsa.key_id == "a#2"


@pytest.mark.parametrize("failure", [OSError("down"), KeyRefused("malformed_key", "broken")], ids=type)
async def test_an_old_key_serves_while_its_refresh_fails(
    cache: CachingSenderKeys, source: Source, clock: ManualClock, failure: Exception
) -> None:
    await cache.keys_of("a")
    clock.turn(300.0)
    source.failure = failure
    for _ in range(3):
        for _ in range(10):
            assert (await cache.keys_of("a")).rsa.key_id == "a#1"
        clock.turn(1.0)
    assert len(source.loads) == 4, "asked again once a retry_s"
    source.failure = None
    assert (await cache.keys_of("a")).rsa.key_id == "a#5"


async def test_an_answer_that_the_sender_is_unknown_ends_the_old_key(
    cache: CachingSenderKeys, source: Source, clock: ManualClock
) -> None:
    await cache.keys_of("a")
    clock.turn(300.0)
    source.failure = UnknownSender("a")
    with pytest.raises(UnknownSender):
        await cache.keys_of("a")
    source.failure = None
    clock.turn(1.0)
    assert (await cache.keys_of("a")).rsa.key_id == "a#3"


async def test_a_failure_is_told_to_all_who_asked_and_remembered_shortly(
    cache: CachingSenderKeys, source: Source, clock: ManualClock
) -> None:
    source.gate.clear()
    source.failure = UnknownSender("a")
    askers = [asyncio.create_task(cache.keys_of("a")) for _ in range(100)]
    await turn()
    source.gate.set()
    told = await asyncio.gather(*askers, return_exceptions=True)
    assert all(isinstance(error, UnknownSender) for error in told)
    assert source.loads == ["a"]
    clock.turn(1.0)
    source.failure = None
    assert (await cache.keys_of("a")).rsa.key_id == "a#2"


async def test_whoever_waits_goes_on_when_the_loader_is_cancelled(cache: CachingSenderKeys, source: Source) -> None:
    source.gate.clear()
    loader = asyncio.create_task(cache.keys_of("a"))
    await turn()
    waiters = [asyncio.create_task(cache.keys_of("a")) for _ in range(10)]
    await turn()
    loader.cancel()
    waiters[0].cancel()
    await turn()
    source.gate.set()
    assert {ring.rsa.key_id for ring in await asyncio.gather(*waiters[1:])} == {"a#2"}
    assert len(source.loads) == 2
    for cancelled in (loader, waiters[0]):
        with pytest.raises(asyncio.CancelledError):
            await cancelled


async def test_the_number_kept_is_bounded(source: Source, clock: ManualClock) -> None:
    cache = CachingSenderKeys(source, max_senders=2, clock=clock)
    for sender in ("a", "b", "a", "c", "a"):
        await cache.keys_of(sender)
    assert source.loads == ["a", "b", "c"]
    await cache.keys_of("b")
    assert source.loads == ["a", "b", "c", "b"]


async def test_a_changed_key_can_be_forgotten(cache: CachingSenderKeys) -> None:
    assert (await cache.keys_of("a")).rsa.key_id == "a#1"
    cache.forget("a")
    assert (await cache.keys_of("a")).rsa.key_id == "a#2"


def test_two_event_loops_share_one_cache(source: Source, clock: ManualClock) -> None:
    cache = CachingSenderKeys(source, clock=clock)
    assert asyncio.run(cache.keys_of("a")).rsa.key_id == "a#1"
    assert asyncio.run(cache.keys_of("a")).rsa.key_id == "a#1"
    assert source.loads == ["a"]


@pytest.mark.parametrize("setting", ["ttl_s", "retry_s", "max_senders"])
def test_settings_are_checked(source: Source, setting: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting} is 0"):
        CachingSenderKeys(source, **{setting: 0})  # type: ignore[arg-type]


async def test_r35_of_64_senders_each_is_loaded_once_a_ttl_and_old_keys_serve_while_the_source_fails(
    source: Source, clock: ManualClock
) -> None:
    cache = CachingSenderKeys(source, ttl_s=1.0, clock=clock)
    senders = [f"https://a.test/{n}" for n in range(64)]

    async def ask() -> list[SenderKeyring]:
        return await asyncio.gather(*(cache.keys_of(sender) for sender in senders * 80))

    first = await ask()
    assert len(source.loads) == 64
    clock.turn(0.9)
    await ask()
    assert len(source.loads) == 64
    clock.turn(0.1)
    source.failure = KeyRefused("unknown_key", "away")
    for second in range(1, 4):
        assert await ask() == first, "an old key is kept"
        assert len(source.loads) == 64 * (1 + second), "and the source is asked once a second for each"
        clock.turn(1.0)
    source.failure = None
    assert await ask() != first
    assert len(source.loads) == 64 * 5
