# SPDX-License-Identifier: Apache-2.0
"""`ojak demo` as a person runs it, with a small farm, so that no host needs a second try."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

DEMO = (sys.executable, "-m", "ojak", "demo")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the demo makes what it makes; a socket's name is short, so pytest's own folders are too deep."""
    with TemporaryDirectory(prefix="ojak-t-") as name:
        yield Path(name)


def _environment(temporary: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(temporary)}


def test_everything_is_accounted_for_and_nothing_is_left_behind(temporary: Path):
    ran = subprocess.run(
        [*DEMO, "--hosts", "20", "--json"], capture_output=True, text=True, check=False, env=_environment(temporary)
    )
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["ledger"] == {"lost": 0, "double": 0, "unverified": 0, "over_limit": 0}
    assert (result["activities"], result["deliveries"], result["changed_bodies"]) == (88, 2640, 0)
    assert sum(line["deliveries"] for line in result["outcomes"]) == 2640
    # Some of the activities take back others of the same sender, and these may not have begun by then.
    came_to = {(line["outcome"], line["reason"]) for line in result["outcomes"]}
    assert came_to - {("superseded", "taken-back")} == {("delivered", "cavage"), ("delivered", "rfc9421")}
    assert list(temporary.iterdir()) == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_whole_demo_settles_every_delivery_to_a_living_host(temporary: Path):
    """Hosts that restart are quarantined meanwhile, and must come back before the demo loses patience."""
    ran = subprocess.run([*DEMO, "--json"], capture_output=True, text=True, check=False, env=_environment(temporary))
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["ledger"] == {"lost": 0, "double": 0, "unverified": 0, "over_limit": 0}


@pytest.mark.parametrize(
    ("wish", "when"), [(signal.SIGINT, "activities handed over"), (signal.SIGTERM, "starting a MongoDB")]
)
def test_interrupted_it_ends_what_runs_and_takes_away_what_it_made(temporary: Path, wish: signal.Signals, when: str):
    with subprocess.Popen(
        [*DEMO, "--hosts", "10"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_environment(temporary)
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if when in line:
                process.send_signal(wish)
                break
        said += process.stderr.readlines()
        assert process.wait(60) == 130
        assert process.stdout.read() == ""
    assert said[-1] == "interrupted: everything that ran has ended\n"
    assert "Traceback" not in "".join(said)
    assert list(temporary.iterdir()) == []


def test_a_number_of_hosts_that_is_none_is_refused_in_words():
    ran = subprocess.run([*DEMO, "--hosts", "3"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "--hosts" in ran.stderr
    assert "10<=x<=5000" in ran.stderr
