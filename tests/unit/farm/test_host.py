# SPDX-License-Identifier: Apache-2.0
import pytest

from ojak.farm import HostPlan, Phase
from ojak.farm.behaviour import Reach, Respond, Unreachable
from ojak.farm.host import Host


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of the host, turned by hand."""
    clock = [1000.0]
    monkeypatch.setattr("ojak.farm.host.monotonic", lambda: clock[0])
    return clock


def made(*script: Phase, cycle: bool = False) -> Host:
    host = Host(HostPlan(name="h", script=script, cycle=cycle), seed=1)
    host.start()
    return host


def told(host: Host) -> str:
    before = host.behaviour_now
    host.next_player()
    return before.removeprefix("respond ")


def test_phases_by_number(now: list[float]) -> None:
    host = made(Phase(behaviour=Respond(status=503), requests=2), Phase(behaviour=Respond()))
    assert [told(host) for _ in range(4)] == ["503", "503", "202", "202"]
    assert host.accepts_now()


def test_a_cycle_begins_again(now: list[float]) -> None:
    host = made(Phase(behaviour=Respond(status=503), requests=1), Phase(behaviour=Respond(), requests=2), cycle=True)
    assert [told(host) for _ in range(6)] == ["503", "202", "202", "503", "202", "202"]


def test_phases_by_time_end_though_nobody_asks(now: list[float]) -> None:
    host = made(
        Phase(behaviour=Unreachable(), for_s=5),
        Phase(behaviour=Respond(status=500), for_s=5),
        Phase(behaviour=Respond()),
    )
    reached = [host.reach]
    assert host.phase_ends_in_s == 5
    now[0] += 7
    reached.append(host.reach)
    assert reached == [Reach.REFUSES, Reach.LISTENS]
    assert not host.accepts_now()
    assert host.phase_ends_in_s == 3
    now[0] += 3
    assert host.accepts_now()
    assert host.phase_ends_in_s is None


def test_a_phase_ends_by_whichever_comes_first(now: list[float]) -> None:
    host = made(Phase(behaviour=Respond(status=503), requests=5, for_s=2), Phase(behaviour=Respond()))
    assert told(host) == "503"
    now[0] += 2
    assert told(host) == "202"


def test_the_last_phase_goes_on(now: list[float]) -> None:
    host = made(Phase(behaviour=Respond(status=500), requests=1, for_s=1))
    now[0] += 50
    assert [told(host) for _ in range(3)] == ["500"] * 3


def test_a_new_script_begins_when_it_is_given(now: list[float]) -> None:
    host = made(Phase(behaviour=Respond(status=503)))
    host.behave((Phase(behaviour=Respond(status=500), for_s=1), Phase(behaviour=Respond())))
    assert told(host) == "500"
    now[0] += 1
    assert told(host) == "202"
