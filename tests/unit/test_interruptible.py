# SPDX-License-Identifier: Apache-2.0
import asyncio
import os
import signal

import pytest

from ojak.rig.interruptible import interruptible


class AskedTooEarly(asyncio.DefaultEventLoopPolicy):
    """Somebody wants it all to end while a loop is being made."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[asyncio.AbstractEventLoop] = []

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop = super().new_event_loop()
        self.made.append(loop)
        os.kill(os.getpid(), signal.SIGTERM)
        return loop


def test_a_wish_to_end_that_comes_while_a_loop_is_being_made_leaves_no_loop_behind():
    policy, before = AskedTooEarly(), asyncio.get_event_loop_policy()
    said: list[str] = []
    asyncio.set_event_loop_policy(policy)
    try:
        with pytest.raises(KeyboardInterrupt), interruptible(said.append):
            asyncio.run(asyncio.wait_for(asyncio.Event().wait(), 20))
    finally:
        asyncio.set_event_loop_policy(before)
    assert [loop.is_closed() for loop in policy.made] == [True]
    assert said == ["interrupted: everything that ran has ended"]
