# SPDX-License-Identifier: Apache-2.0
import asyncio
import logging

import pytest

from ojak.model.outcome import AttemptOutcome, AttemptPhases, DeliveryAttempt
from ojak.worker import attempts_told
from ojak.worker.attempts_told import tell_attempt

ATTEMPT = DeliveryAttempt(
    delivery_id="d",
    activity_id="https://a.test/1",
    inbox="https://b.test/inbox",
    ref=None,
    sender="https://a.test/u",
    number=1,
    outcome=AttemptOutcome.DELIVERED,
    scheme="cavage",
    status=202,
    reason="",
    maybe_delivered=False,
    body_bytes=2,
    phases=AttemptPhases(sign_ms=0.0, post_ms=0.0),
    gateway=None,
)


async def test_a_callback_that_hangs_is_given_up_on(monkeypatch, caplog: pytest.LogCaptureFixture):
    """A run() waits for what is under way before it ends: it would wait for ever."""
    monkeypatch.setattr(attempts_told, "CALLBACK_S", 0.01)

    async def hang(_: DeliveryAttempt) -> None:
        await asyncio.Event().wait()

    telling = tell_attempt(hang, ATTEMPT)
    assert telling is not None
    with caplog.at_level(logging.ERROR):
        await asyncio.wait_for(telling, 10)
    assert "on_attempt raised" in caplog.text


async def test_a_callback_whose_own_task_was_cancelled_ends_nothing_else(caplog: pytest.LogCaptureFixture):
    async def wait_for_what_was_cancelled(_: DeliveryAttempt) -> None:
        other = asyncio.ensure_future(asyncio.Event().wait())
        other.cancel()
        await other

    telling = tell_attempt(wait_for_what_was_cancelled, ATTEMPT)
    assert telling is not None
    with caplog.at_level(logging.ERROR):
        await asyncio.gather(telling)
    assert "on_attempt raised" in caplog.text


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()])
async def test_one_that_raises_what_would_end_the_process_ends_nothing(caplog: pytest.LogCaptureFixture, raised):
    def leave(_: DeliveryAttempt) -> None:
        raise raised

    async def leave_later(_: DeliveryAttempt) -> None:
        raise raised

    with caplog.at_level(logging.ERROR):
        assert tell_attempt(leave, ATTEMPT) is None
        telling = tell_attempt(leave_later, ATTEMPT)
        assert telling is not None
        await telling
    assert [record.message for record in caplog.records] == ["on_attempt raised"] * 2


async def test_one_that_is_being_ended_itself_ends():
    async def hang(_: DeliveryAttempt) -> None:
        await asyncio.Event().wait()

    telling = tell_attempt(hang, ATTEMPT)
    assert telling is not None
    task = asyncio.create_task(telling)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
