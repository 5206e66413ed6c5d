# SPDX-License-Identifier: Apache-2.0
"""The fleet, where the system has no room for another process."""

import errno
from typing import NoReturn

import pytest

from ojak.clock import ManualClock
from ojak.config import DelivererConfig
from ojak.supervisor.fleet import Fleet
from ojak.supervisor.plan import WorkerPlan
from ojak.supervisor.poll import Poller
from ojak.supervisor.slot import SlotState

PLAN = WorkerPlan(
    mongo_url="",
    database="ojak",
    embedded=False,
    app=None,
    keys=None,
    allow_networks=(),
    resolver_map=None,
    extra_ca=None,
    proxy=None,
    user_agent=None,
    instance_url=None,
    siblings=1,
    log_level="info",
    log_format="text",
    config=DelivererConfig(),
)


def test_a_fork_that_fails_is_tried_again_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object, **__: object) -> NoReturn:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("ojak.supervisor.slot.fork_child", no_room)
    clock, changes = ManualClock(), list[SlotState]()
    poller = Poller(clock, lambda: None)
    fleet = Fleet(
        size=1,
        main=lambda *_: 0,
        clock=clock,
        poller=poller,
        noted=lambda: None,
        changed=lambda: changes.append(fleet.slots[0].state),
    )
    fleet.start(PLAN)
    assert fleet.slots[0].state is SlotState.WAITING
    assert fleet.slots[0].reason == "it cannot be forked: Resource temporarily unavailable"
    hopeless = [fleet.hopeless]
    for _ in range(2):
        clock.turn(2)
        poller.turn()
        hopeless.append(fleet.hopeless)
    assert hopeless == [None, None, fleet.slots[0]]
    assert len(changes) == 3
    poller.close()
