# SPDX-License-Identifier: Apache-2.0
"""Rules A to G of the queue, explored to the last state; and each clause of them left out, which must show.

In the suite: one bounded run a rule, and one omission a rule. `make model` has the larger bounds and every omission,
and prints what it saw.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.model import (
    holds,
    lane_change,
    pausing,
    rule_a_order,
    rule_b_claim,
    rule_c_cancel,
    rule_d_fence,
    rule_e_told,
    rule_f_probe,
    rule_g_supersede,
)
from tests.model.explore import Explored, Model, explore

RULES: dict[str, tuple[Any, Any]] = {
    "A order": (rule_a_order, rule_a_order.Ordering),
    "B claim": (rule_b_claim, rule_b_claim.Claiming),
    "C cancel": (rule_c_cancel, rule_c_cancel.Cancelling),
    "D fence": (rule_d_fence, rule_d_fence.Fencing),
    "E told": (rule_e_told, rule_e_told.Telling),
    "F probe": (rule_f_probe, rule_f_probe.Probing),
    "G supersede": (rule_g_supersede, rule_g_supersede.Superseding),
    "lanes that change": (lane_change, lane_change.Moving),
    "holds": (holds, holds.Holding),
    "pausing": (pausing, pausing.Pausing),
}


def _told(name: str, explored: Explored) -> None:
    failure = explored.failure
    end = "holds" if failure is None else f"{failure.fault} after {len(failure.trace)} steps: {failure.why}"
    print(f"\n{name}: {explored.states:,} states, {explored.moves:,} steps; {end}")  # noqa: T201 - shown by -s


def _explored(name: str, model: Model[Any]) -> Explored:
    explored = explore(model)
    _told(name, explored)
    return explored


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_holds_within_small_bounds(rule: str):
    room, model = RULES[rule]
    explored = _explored(rule, model(room.QUICK))
    assert explored.failure is None, str(explored.failure)
    assert explored.ends


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_with_a_clause_left_out_fails(rule: str):
    room, model = RULES[rule]
    omit = room.QUICK_OMISSION
    assert _explored(f"{rule} without {omit.name}", model(room.FAILS[omit], omit)).failure is not None


def _larger() -> Iterator[Any]:
    for rule, (room, _) in RULES.items():
        for name in room.LONG:
            yield pytest.param(rule, name, id=f"{rule}: {name}")


def _omissions() -> Iterator[Any]:
    for rule, (room, _) in RULES.items():
        for omit in room.Omit:
            yield pytest.param(rule, omit, id=f"{rule} without {omit.name}")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("rule", "name"), list(_larger()))
def test_the_rule_holds_within_larger_bounds(rule: str, name: str):
    room, model = RULES[rule]
    explored = _explored(f"{rule}, {name}", model(room.LONG[name]))
    assert explored.failure is None, str(explored.failure)
    assert explored.ends


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("rule", "omit"), list(_omissions()))
def test_every_clause_is_needed(rule: str, omit: Any):
    room, model = RULES[rule]
    assert _explored(f"{rule} without {omit.name}", model(room.FAILS[omit], omit)).failure is not None, omit
