# SPDX-License-Identifier: Apache-2.0
"""The corpus, each case by its id, through the public API; and again with what was handed over reused."""

import copy
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent
Case = dict[str, Any]


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"corpus_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


RUNNER, ADAPTER = module("run_vectors"), module("adapter")
FILES = {path.stem: json.loads(path.read_text()) for path in sorted(HERE.glob("*.json"))}
CASES = [pytest.param(case, file["keys"], id=case["id"]) for file in FILES.values() for case in file["cases"]]


@pytest.mark.parametrize(("case", "keys"), CASES)
def test_case(case: Case, keys: Case) -> None:
    before = copy.deepcopy((case, keys))
    for _ in range(2):
        outcome, why = RUNNER.run(case, keys, ADAPTER)
        assert outcome == "pass", f"{outcome}: {why}"
    assert (case, keys) == before, "a call changed what it was given"


def test_no_case_is_missing() -> None:
    levels = [case["level"] for file in FILES.values() for case in file["cases"]]
    assert {level: levels.count(level) for level in ("must", "should", "may")} == {"must": 372, "should": 85, "may": 16}


def test_every_hook_is_there() -> None:
    assert [hook for hook in RUNNER.HOOKS if not callable(getattr(ADAPTER, hook, None))] == []
