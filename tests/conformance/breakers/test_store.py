# SPDX-License-Identifier: Apache-2.0
"""What every store of breakers answers."""

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from ojak.breaker.admission import Admission, Probe, Verdict
from ojak.breaker.circuit import Signal
from ojak.breaker.store import BreakerResult

from .conftest import KEYS, Kinds, World

HOST, OTHER, _ = KEYS
HOLD_S = 20.0


async def fail(world: World, *, times: int = 3, key: str = HOST) -> Admission:
    return (await world.store.record([BreakerResult(key=key, signal=Signal.FAILURE)] * times))[-1]


async def ask(world: World, key: str = HOST) -> Admission:
    return (await world.store.admit([key], hold_s=HOLD_S))[0]


async def probe_of(world: World) -> Probe:
    answer = await ask(world)
    assert answer.verdict is Verdict.PROBE
    assert answer.probe is not None
    return answer.probe


async def decide(world: World, signal: Signal, probe: Probe | None) -> Admission:
    return (await world.store.record([BreakerResult(key=HOST, signal=signal, probe=probe)]))[0]


async def test_what_is_clean_is_sent_to_and_says_so(world: World):
    assert await ask(world) == Admission(verdict=Verdict.SEND, clean=True)
    (answer,) = await world.store.record([BreakerResult(key=HOST, signal=Signal.SUCCESS)])
    assert answer.clean


async def test_failures_in_a_row_open_one_key_and_no_other(world: World):
    answers = await world.store.record([BreakerResult(key=HOST, signal=Signal.FAILURE)] * 2)
    assert [(answer.verdict, answer.clean) for answer in answers] == [(Verdict.SEND, False)] * 2
    assert (await fail(world, times=1)).hold_s == 100
    assert await world.store.admit([HOST, OTHER], hold_s=HOLD_S) == [
        Admission(verdict=Verdict.HOLD, hold_s=100),
        Admission(verdict=Verdict.SEND, clean=True),
    ]


async def test_results_count_in_the_order_they_are_given(world: World):
    fail_, well = (BreakerResult(key=HOST, signal=signal) for signal in (Signal.FAILURE, Signal.SUCCESS))
    await world.store.record([fail_, fail_, well, fail_, fail_])
    assert (await ask(world)).verdict is Verdict.SEND
    await world.store.record([fail_])
    assert (await ask(world)).verdict is Verdict.HOLD


async def test_of_many_askers_one_gets_the_probe(world: World):
    await fail(world)
    world.turn(99)
    assert (await ask(world)).hold_s == pytest.approx(1)
    world.turn(1)
    answers = await asyncio.gather(*(ask(world) for _ in range(8)))
    assert [answer.verdict for answer in answers].count(Verdict.PROBE) == 1
    assert [answer.verdict for answer in answers].count(Verdict.HOLD) == 7


async def test_a_probe_that_fails_doubles_and_one_that_succeeds_lets_one_at_a_time_through(world: World):
    await fail(world)
    world.turn(100)
    assert (await decide(world, Signal.FAILURE, await probe_of(world))).hold_s == 200
    world.turn(200)
    answer = await decide(world, Signal.SUCCESS, await probe_of(world))
    assert (answer.verdict, answer.one_at_a_time, answer.clean) == (Verdict.SEND, True, False)
    assert (await ask(world)).one_at_a_time
    await decide(world, Signal.SUCCESS, None)
    assert (await decide(world, Signal.SUCCESS, None)).clean


async def test_a_probe_whose_holder_died_goes_to_the_next_and_the_dead_ones_word_counts_for_nothing(world: World):
    await fail(world)
    world.turn(100)
    dead = await probe_of(world)
    world.turn(HOLD_S)
    heir = await probe_of(world)
    assert (await decide(world, Signal.SUCCESS, dead)).verdict is Verdict.HOLD
    assert (await decide(world, Signal.FAILURE, dead)).hold_s == HOLD_S
    assert (await decide(world, Signal.SUCCESS, heir)).one_at_a_time


async def test_a_probe_is_renewed_by_its_holder_and_by_nobody_else(world: World):
    await fail(world)
    world.turn(100)
    probe = await probe_of(world)
    world.turn(15)
    await world.store.renew([probe], hold_s=HOLD_S)
    world.turn(15)
    assert (await ask(world)).hold_s == pytest.approx(5)
    world.turn(5)
    heir = await probe_of(world)
    world.turn(15)
    await world.store.renew([probe], hold_s=1000)
    world.turn(5)
    assert (await probe_of(world)) != heir


async def test_a_probe_that_is_given_back_is_to_be_had_again_after_the_time_named(world: World):
    await fail(world)
    world.turn(100)
    probe = await probe_of(world)
    await world.store.give_back([probe], after_s=0)
    probe = await probe_of(world)
    await world.store.give_back([probe], after_s=5)
    assert (await ask(world)).hold_s == 5
    await world.store.give_back([probe], after_s=0)
    assert (await ask(world)).hold_s == 5, "it was no longer its to give"


async def test_a_sign_of_life_brings_the_probe_forward_once(world: World):
    assert not await world.store.heard_from(HOST)
    await fail(world)
    assert await world.store.heard_from(HOST)
    assert not await world.store.heard_from(HOST)
    assert (await decide(world, Signal.FAILURE, await probe_of(world))).hold_s == 100
    assert not await world.store.heard_from(HOST)
    world.turn(100)
    assert (await decide(world, Signal.FAILURE, await probe_of(world))).hold_s == 200
    assert await world.store.heard_from(HOST)


async def test_after_the_longest_quarantine_and_long_silence_a_key_is_unavailable(world: World):
    answer = await fail(world)
    lengths = []
    while not answer.unavailable:
        lengths.append(answer.hold_s)
        world.turn(answer.hold_s)
        answer = await decide(world, Signal.FAILURE, await probe_of(world))
    assert lengths == [100, 200, 400, *[700] * 7]
    assert (await ask(world)).unavailable
    world.turn(700)
    answer = await ask(world)
    assert (answer.verdict, answer.unavailable) == (Verdict.PROBE, True)
    assert not (await decide(world, Signal.SUCCESS, answer.probe)).unavailable


async def test_a_probe_of_another_store_is_nobodys(world: World):
    await fail(world)
    world.turn(100)
    strange = Probe(key=HOST, token="redis:17")
    await world.store.renew([strange], hold_s=1000)
    await world.store.give_back([strange], after_s=1000)
    assert (await decide(world, Signal.SUCCESS, strange)).verdict is Verdict.HOLD
    await probe_of(world)


async def test_results_recorded_at_once_all_count(world: World):
    await asyncio.gather(*(fail(world, times=1) for _ in range(3)))
    assert (await ask(world)).verdict is Verdict.HOLD


@pytest.mark.parametrize("kind", ["mirrored", "host", "inbox"])
@pytest.mark.parametrize("seed", range(3))
async def test_every_store_answers_as_the_one_in_memory_does(kinds: Kinds, seed: int, kind: str):
    """The same weeks for both: askers, results, signs of life, holders that die, time."""
    worlds = [await kinds.make("memory"), await kinds.make(kind)]
    dice = random.Random(seed)
    probes: list[list[Probe]] = []
    for _ in range(80):
        key = dice.choice(KEYS)
        roll = dice.randrange(10)
        answers: list[Any]
        if roll < 4:
            signal = dice.choice([Signal.FAILURE] * 3 + [Signal.SUCCESS, Signal.NOTHING])
            held = probes.pop(dice.randrange(len(probes))) if probes and dice.random() < 0.6 else [None, None]
            answers = [
                await world.store.record([BreakerResult(key=probe.key if probe else key, signal=signal, probe=probe)])
                for world, probe in zip(worlds, held, strict=True)
            ]
        elif roll < 7:
            answers = [await world.store.admit(KEYS, hold_s=HOLD_S) for world in worlds]
            for number in range(len(KEYS)):
                taken = [answer[number].probe for answer in answers]
                if all(taken):
                    probes.append(taken)
        elif roll < 8:
            answers = [await world.store.heard_from(key) for world in worlds]
        else:
            seconds = dice.choice([5, 20, 100, 400, 700])
            for world in worlds:
                world.turn(seconds)
            continue
        ours, theirs = (
            [_comparable(item) for item in of_world] if isinstance(of_world, list) else of_world for of_world in answers
        )
        assert ours == theirs, (roll, key)


def _comparable(answer: Admission) -> Admission:
    return replace(answer, probe=None, hold_s=round(answer.hold_s, 2))
