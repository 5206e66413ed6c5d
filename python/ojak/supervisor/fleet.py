# SPDX-License-Identifier: Apache-2.0
"""All workers: started, told of each other's deaths, started again, drained. Standard library and pure modules."""

import logging
import signal
from collections.abc import Callable
from typing import Final

from ojak.clock import Clock
from ojak.supervisor.exits import ExitCode, describe_end
from ojak.supervisor.frames import FrameKind, unpack_number
from ojak.supervisor.obituaries import RESEND_S, Obituaries
from ojak.supervisor.plan import WorkerPlan
from ojak.supervisor.poll import Poller, Timer
from ojak.supervisor.slot import Slot, SlotState, WorkerMain
from ojak.worker.machine import MachinePage

log: Final = logging.getLogger(__name__)


class Fleet:
    """The workers of one supervisor.

    Args:
        size: How many.
        main: What each runs.
        clock: For how long they are up.
        poller: Where their descriptors and times are watched.
        noted: Called when a slot has changed, before that is logged, so that whoever reads of it can look it up.
        changed: Called after that.
    """

    def __init__(
        self,
        *,
        size: int,
        main: WorkerMain,
        clock: Clock,
        poller: Poller,
        noted: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        page = MachinePage()
        self.slots = [Slot(index, page) for index in range(size)]
        self.ever_ready = False
        self.draining = False
        self._main = main
        self._clock = clock
        self._poller = poller
        self._noted = noted
        self._changed = changed
        self._obituaries = Obituaries()
        self._timers: dict[int, Timer] = {}
        self._plan: WorkerPlan | None = None

    @property
    def living(self) -> int:
        """How many worker processes there are."""
        return sum(slot.process is not None for slot in self.slots)

    @property
    def ready(self) -> bool:
        """Whether every worker is at work."""
        return all(slot.state is SlotState.READY for slot in self.slots)

    @property
    def hopeless(self) -> Slot | None:
        """A slot whose reason speaks for all, when no worker ever came up and none is going to."""
        if not self.ever_ready and all(slot.hopeless for slot in self.slots):
            return self.slots[0]
        return None

    @property
    def pids(self) -> frozenset[int]:
        """The processes of the living workers."""
        return frozenset(slot.process.pid for slot in self.slots if slot.process is not None)

    @property
    def unburied(self) -> int:
        """Deaths that no worker has dealt with yet."""
        return len(self._obituaries)

    def start(self, plan: WorkerPlan) -> None:
        """Start every worker."""
        self._plan = plan
        for slot in self.slots:
            self._start(slot)

    def drain(self) -> None:
        """Ask every worker to end what it is doing and leave."""
        self.draining = True
        for timer in self._timers.values():
            timer.cancel()
        for slot in self.slots:
            slot.state = SlotState.DRAINING if slot.process is not None else SlotState.GONE
            slot.signal(signal.SIGTERM)
        self._changed()

    def kill(self) -> None:
        """End every worker at once."""
        for slot in self.slots:
            slot.signal(signal.SIGKILL)

    def _start(self, slot: Slot) -> None:
        if self._plan is None or self.draining:
            return
        # Without its database a worker has nothing to drain into, and would only hold on to the data folder.
        death_signal = signal.SIGKILL if self._plan.embedded else signal.SIGTERM
        try:
            process = slot.start(self._main, self._plan, self.slots, death_signal, self._clock.boot_s())
        except OSError as error:
            slot.reason, slot.returncode = f"it cannot be forked: {error.strerror}", int(ExitCode.FAILURE)
            slot.boot_failures += 1
            self._restart_later(slot, 0.0, begun=0)
            self._changed()
            return
        assert slot.link is not None
        self._poller.watch(slot.link.fileno(), lambda: self._listen(slot))
        self._poller.watch(process.pidfd, lambda: self._died(slot))
        self._noted()
        log.info("worker started", extra={"worker": slot.index, "pid": process.pid})
        self._changed()

    def _listen(self, slot: Slot) -> None:
        if slot.link is None:
            return
        frames = slot.take_frames()
        if not frames:
            # The end of the line; its death is told by the other descriptor.
            self._poller.unwatch(slot.link.fileno())
        for frame in frames:
            if frame.kind is FrameKind.READY and slot.state is SlotState.BOOTING:
                slot.state, slot.boot_failures, self.ever_ready = SlotState.READY, 0, True
                self._noted()
                log.info("worker ready", extra={"worker": slot.index})
                self._changed()
            elif frame.kind is FrameKind.BURIED and self._obituaries.buried(unpack_number(frame.payload)):
                self._noted()
                log.info("obituary dealt with", extra={"worker": slot.index})
                self._changed()
        self._tell()

    def _died(self, slot: Slot) -> None:
        process = slot.process
        if process is None:
            return
        self._poller.unwatch(process.pidfd)
        returncode = process.reap()
        if returncode is None:
            self._poller.watch(process.pidfd, lambda: self._died(slot))
            return
        self._listen(slot)
        if slot.link is not None:
            self._poller.unwatch(slot.link.fileno())
        state, up_s = slot.state, self._clock.boot_s() - slot.started_s
        left = slot.bury(returncode)
        self._obituaries.carrier_died(slot.index)
        asked = state is SlotState.DRAINING
        if left is not None and not (asked and returncode == 0):
            self._obituaries.add(*left)
        if asked:
            slot.state = SlotState.GONE
            self._noted()
            log.info("worker left", extra={"worker": slot.index, "end": describe_end(returncode)})
        else:
            slot.deaths += 1
            slot.boot_failures += state is SlotState.BOOTING
            self._restart_later(slot, up_s, begun=len(left[1]) if left else 0)
        self._tell()
        self._changed()

    def _restart_later(self, slot: Slot, up_s: float, *, begun: int) -> None:
        slot.state = SlotState.WAITING
        delay_s = slot.delay.next_s(up_s)
        self._timers[slot.index] = self._poller.after(delay_s, lambda: self._start(slot))
        self._noted()
        log.error(
            "worker died",
            extra={
                "worker": slot.index,
                "end": describe_end(slot.returncode),
                "reason": slot.reason or "it left none",
                "up_s": round(up_s, 1),
                "begun": begun,
                "restart_in_s": delay_s,
            },
        )

    def _tell(self) -> None:
        """Give each obituary that nobody is dealing with to a worker that is at work, if one is."""
        now_s = self._clock.boot_s()
        carriers = [slot for slot in self.slots if slot.board is not None and slot.board.ready]
        for obituary in self._obituaries.waiting(now_s) if carriers else ():
            last = self._obituaries.last_carrier(obituary.number)
            # Another one than the last, which may hang, wherever there is another.
            for slot in sorted(carriers, key=lambda slot: slot.index == last):
                if slot.tell(obituary):
                    self._obituaries.sent(obituary.number, slot.index, now_s)
                    break
            self._poller.after(RESEND_S + 0.1, self._tell)
