# SPDX-License-Identifier: Apache-2.0
import asyncio
from typing import Any

import pytest
from tests.jobs import TEMPLATE

from ojak.model.outcome import DeliveryAttempt, SettledOutcome
from ojak.store.settle import Ended
from ojak.worker import attempts_told
from ojak.worker.attempted import Attempted
from ojak.worker.attempts_told import AttemptsTold

OUTCOME = Ended(job=TEMPLATE, outcome=SettledOutcome.DELIVERED, spent=True, status=202, reason="", scheme="cavage")
ATTEMPTED = Attempted(outcome=OUTCOME, tells=True)


async def hang(_: DeliveryAttempt) -> None:
    await asyncio.Event().wait()


async def told_of(callback: Any, attempted: Attempted = ATTEMPTED) -> None:
    """An attempt is told, to the end of it."""
    told = AttemptsTold(callback)
    told.tell(attempted)
    await asyncio.wait_for(told.told(), 10)


async def test_an_attempt_is_told_and_what_was_none_is_not():
    attempts: list[DeliveryAttempt] = []

    async def later(attempt: DeliveryAttempt) -> None:
        await asyncio.sleep(0)
        attempts.append(attempt)

    await told_of(attempts.append)
    await told_of(later)
    await told_of(attempts.append, Attempted(outcome=OUTCOME, quiet=True))
    await told_of(None)
    assert [(attempt.status, attempt.scheme) for attempt in attempts] == [(202, "cavage")] * 2


async def test_a_callback_that_hangs_is_given_up_on(monkeypatch, caplog: pytest.LogCaptureFixture):
    """A run() waits for what is under way before it ends: it would wait for ever."""
    monkeypatch.setattr(attempts_told, "CALLBACK_S", 0.01)
    await told_of(hang)
    assert "on_attempt raised" in caplog.text


async def test_a_callback_whose_own_task_was_cancelled_ends_nothing_else(caplog: pytest.LogCaptureFixture):
    async def wait_for_what_was_cancelled(_: DeliveryAttempt) -> None:
        other = asyncio.ensure_future(asyncio.Event().wait())
        other.cancel()
        await other

    await told_of(wait_for_what_was_cancelled)
    assert "on_attempt raised" in caplog.text


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()])
async def test_one_that_raises_what_would_end_the_process_ends_nothing(caplog: pytest.LogCaptureFixture, raised):
    def leave(_: DeliveryAttempt) -> None:
        raise raised

    async def leave_later(_: DeliveryAttempt) -> None:
        raise raised

    await told_of(leave)
    await told_of(leave_later)
    assert [record.message for record in caplog.records] == ["on_attempt raised"] * 2


async def test_what_is_under_way_can_be_cut_off(caplog: pytest.LogCaptureFixture):
    told = AttemptsTold(hang)
    told.tell(ATTEMPTED)
    await asyncio.sleep(0)
    await asyncio.wait_for(told.cut_off(), 10)
    await told.told()
    assert caplog.records == []
