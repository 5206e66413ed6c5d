# SPDX-License-Identifier: Apache-2.0
"""Trouble that others had with delivery, queues and hosts has a test each, by the number that it is kept under."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

REPORTS = {
    "R05": "an inbox's path was changed on its way, or was wrong and nobody could see it",
    "R06": "the signed host was not the one that was sent",
    "R09": "a body came without its length",
    "R10": "a Content-Type was refused for its form",
    "R13": "interim answers made a client wait for ever",
    "R17": "the Date came in the language of the machine",
    "R19": "a program could not read the keys that its own generator had written",
    "R25": "old workers took jobs of a kind or schema that they did not know",
    "R26": "restarts used up a job's attempts",
    "R30": "a cancel was lost, or had no effect on what was fetched and not begun",
    "R35": "a key was loaded anew for each recipient",
    "R37": "a host that had recovered waited until somebody changed the database",
    "R38": "an upgrade tried every dead host again at once",
    "R40": "a probe that failed did not count, so that the wait never grew",
    "R44": "after time-outs the pool of connections believed itself full for ever",
    "R56": "a pause was forgotten, and nothing reminded of it",
    "R59": "a listing that was piped into a short reader ended in a traceback",
    "R63": "proxies of the environment were ignored, and nobody could tell",
}
"""Those that concern the wire, the queue, hosts, and operators at a command line."""


@pytest.fixture(scope="module")
def named() -> dict[str, list[str]]:
    """The tests that are named after a report: `test_r05_…`, or `test_r30a_…` for a part of one."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, number in re.findall(r"^(?:async )?def (test_r(\d\d)[a-z]?_\w+)", path.read_text(), re.MULTILINE):
            found.setdefault(f"R{number}", []).append(name)
    return found


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_has_a_test_by_its_name(report: str, named: dict[str, list[str]]) -> None:
    assert named.get(report), f"no test is named test_{report.lower()}_…, though {REPORTS[report]}"
