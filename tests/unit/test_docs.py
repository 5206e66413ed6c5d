# SPDX-License-Identifier: Apache-2.0
"""The documents hold what they say that they hold."""

import re
from pathlib import Path

import pytest

from ojak.http.transport import FaultReason
from ojak.model.job import JobState
from ojak.model.outcome import AttemptOutcome, FailureReason, SentState, SettledOutcome
from ojak.settings import settings_class

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
OUTCOMES = (ROOT / "docs" / "outcomes.md").read_text("utf-8")
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_that_is_linked_is_there(page: Path):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("words", [JobState, SettledOutcome, FailureReason, FaultReason, SentState, AttemptOutcome])
def test_the_closed_list_of_outcomes_and_reasons_is_whole(words):
    for word in words:
        assert f"`{word.value}`" in OUTCOMES, word


def test_every_reason_that_the_code_writes_is_in_the_list():
    written = set()
    for path in (ROOT / "python" / "ojak" / "worker", ROOT / "python" / "ojak" / "store"):
        for module in path.glob("*.py"):
            text = module.read_text("utf-8")
            written |= set(re.findall(r'(?:PARKED|TOO_OLD|job|sender|kept\w*|if_parked), "([a-z][a-z-]+)"', text))
            written |= set(re.findall(r'reason"?[:=] "([a-z-]+)"', text))
    assert "key-missing" in written
    assert "unreadable" in written
    assert {word for word in written if f"`{word}`" not in OUTCOMES} == set()


def test_every_setting_is_described_with_its_default_and_no_other_is():
    fields = settings_class().model_fields
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", CONFIGURATION, re.MULTILINE))
    assert set(rows) == set(fields)
    for name, field in fields.items():
        default = field.default
        if isinstance(default, int | float | str | Path) and not isinstance(default, bool):
            shown = f"{default:.0f}" if isinstance(default, float) and default.is_integer() else f"{default}"
            assert rows[name] == f"`{shown}`", name
        elif isinstance(default, frozenset):
            assert all(str(value) in rows[name] for value in default), name


def test_every_setting_of_the_delivery_loop_says_what_it_is():
    for line in CONFIGURATION.splitlines():
        if line.startswith("| `"):
            assert line.rstrip(" |").endswith("."), line
