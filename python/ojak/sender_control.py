# SPDX-License-Identifier: Apache-2.0
"""`SenderControl`: pausing and resuming senders."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from ojak.control import QueueControl, translated
from ojak.model.activity import check_text
from ojak.model.given import check_duration, check_limit
from ojak.model.hold import Hold, HoldKind, SenderPause
from ojak.store.holds import end_hold, holds_of_sender, put_holds, sender_pauses
from ojak.store.notices import announce_settings, until_known


class SenderControl(QueueControl):
    """What an operator can do to senders."""

    async def pause_sender(
        self,
        sender: str,
        *,
        by: str,
        duration: timedelta | None = None,
        on_waiting: Callable[[int], None] | None = None,
    ) -> None:
        """Send nothing for a sender. When this returns, no request of it begins any more, on any machine.

        What is queued for it waits, with its place in its order, and what is on the wire ends as what it comes to. A
        pause outlives restarts. Repeating it changes how long it lasts.

        Args:
            sender: the sender's id.
            by: who pauses it, to be shown.
            duration: for how long; None: until `resume_sender`.
            on_waiting: told now and then how many `run()`s have not answered yet. One that died and was not reported
                is waited for until its shards are free.

        Raises:
            InputError: an argument cannot be used.
            QueueUnavailable: the database did not answer. Call again.
        """
        check_text("sender", sender, what="an actor's id")
        check_text("by", by, what="a name")
        hold = Hold(kind=HoldKind.PAUSE, of=sender, reason="paused", for_s=check_duration(duration), by=by)
        await self.set_up()
        async with translated():
            await put_holds(self._db, [hold])
            await until_known(self._db, await announce_settings(self._db), on_waiting=on_waiting)

    async def resume_sender(self, sender: str) -> bool:
        """Send for a sender again. What was set aside is let go by the workers, in steps.

        Ends a pause, and has a missing or broken key asked for at once.

        Returns:
            Whether anything held it.

        Raises:
            InputError: that is no sender.
            QueueUnavailable: the database did not answer. Call again.
        """
        check_text("sender", sender, what="an actor's id")
        await self.set_up()
        async with translated():
            ended = [await end_hold(self._db, hold) for hold in holds_of_sender(sender)]
            await announce_settings(self._db)
        return any(ended)

    async def sender_pauses(self, *, limit: int = 1000) -> Sequence[SenderPause]:
        """The senders that nothing is sent for: paused ones first, then those that cannot sign; so many at most.

        Raises:
            InputError: the limit is none.
        """
        check_limit("limit", limit)
        await self.set_up()
        async with translated():
            return await sender_pauses(self._db, limit=limit)
