# SPDX-License-Identifier: Apache-2.0
"""What may come out of a call of an application's code: an Exception, or our own end."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ojak.worker.foreign import ForeignCall, ForeignFault, name_of
from ojak.worker.thread_call import in_thread


class LibraryTimeout(BaseException):
    """As some libraries raise it."""


async def call(code: Callable[[], Awaitable[None]]) -> None:
    with ForeignCall():
        await code()


async def cancelled_while(code: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    """A call that is cancelled once its code waits."""
    calling = asyncio.create_task(call(code))
    await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait([calling])
    return calling


@pytest.mark.parametrize(
    "raised", [LibraryTimeout(), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()]
)
async def test_whatever_else_the_code_raises_is_an_exception_that_names_it(raised: BaseException):
    async def leave() -> None:
        raise raised

    with pytest.raises(ForeignFault) as fault:
        await call(leave)
    assert fault.value.__cause__ is raised
    assert name_of(fault.value) == type(raised).__name__


async def test_an_exception_stays_what_it_is():
    async def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError) as raised:
        await call(fail)
    assert name_of(raised.value) == "ValueError"


@pytest.mark.parametrize("made_of_it", [None, ValueError(), LibraryTimeout(), SystemExit(3), GeneratorExit()])
async def test_who_is_being_ended_ends_whatever_the_code_makes_of_it(made_of_it: BaseException | None):
    async def hold_on() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if made_of_it is not None:
                raise made_of_it from None

    assert (await cancelled_while(hold_on)).cancelled()


async def test_who_was_cancelled_before_may_still_call():
    """A `run()` that was cancelled gives back what it holds."""
    answers: list[str] = []

    async def last_words() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            with ForeignCall():
                answers.append("called")
                await asyncio.sleep(0)
            answers.append("answered")
            with pytest.raises(ForeignFault), ForeignCall():
                raise LibraryTimeout

    ending = asyncio.create_task(last_words())
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert answers == ["called", "answered"]


async def test_a_time_out_inside_is_no_end():
    async def slow() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await call(slow)


async def test_what_is_thrown_away_half_way_goes_without_a_word():
    reached: list[str] = []

    async def hang() -> None:
        with ForeignCall():
            await asyncio.Event().wait()
        reached.append("went on")

    async def begin() -> None:
        hanging.send(None)

    hanging = hang()
    await asyncio.create_task(begin())
    hanging.close()
    assert reached == []


@pytest.mark.parametrize("raised", [SystemExit(3), LibraryTimeout(), StopIteration()])
async def test_a_function_in_a_thread_says_what_it_raised(raised: BaseException):
    def leave() -> None:
        raise raised

    with pytest.raises(ForeignFault) as fault:
        await in_thread(leave, name="test")
    assert name_of(fault.value) == type(raised).__name__
