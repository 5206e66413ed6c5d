# SPDX-License-Identifier: Apache-2.0
"""The README as its reader takes it: the commands and the example, as printed."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ojak.farm import Counted, FarmHandle, plan_of_words, running_farm

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PROGRAM = ".venv/bin/ojak"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def _command(name: str) -> list[str]:
    """The README's first command of that name, run by this Python."""
    lines = [line for block in _blocks("sh") for line in block.splitlines()]
    line = next(line for line in lines if line.startswith(f"{PROGRAM} {name}"))
    return [sys.executable, "-m", "ojak", *shlex.split(line)[1:]]


@pytest.fixture
def desk() -> Iterator[Path]:
    """The folder that the reader works in; a socket's name is short, so pytest's own folders are too deep."""
    with TemporaryDirectory(prefix="ojak-t-") as name:
        yield Path(name)


@contextmanager
def _supervisor(desk: Path, farm: FarmHandle) -> Iterator[None]:
    # What leads to the mock hosts is given beside the README's command; in the world there is the DNS.
    environment = {
        **os.environ,
        "OJAK_RESOLVER_MAP": str(farm.resolver_path),
        "OJAK_EXTRA_CA": str(farm.ca_path),
        "OJAK_ALLOW_NETWORKS": "127.0.0.0/8",
    }
    log = desk / "supervisor.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(_command("supervisor"), cwd=desk, env=environment, stdout=stream, stderr=stream)
    try:
        deadline_s = time.monotonic() + 60
        status = desk / "ojak-data" / "supervisor.json"
        while not (status.exists() and '"ready": true' in status.read_text()):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline_s, log.read_text()
            time.sleep(0.05)  # until a file of another process says so
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()


def test_the_example_runs_as_printed_and_its_activity_arrives(desk: Path):
    (example,) = _blocks("python")
    (desk / "like.py").write_text(example)
    subprocess.run(_command("keys generate"), cwd=desk, check=True, capture_output=True)
    plan = plan_of_words(3, [("accept+tls", 1), ("rfc9421-only", 1)])
    with running_farm(plan, folder=desk / "farm", keys_folders=[desk / "keys"]) as farm, _supervisor(desk, farm):

        def like() -> str:
            command = [sys.executable, "like.py", *farm.inboxes(), "no url"]
            return subprocess.run(command, cwd=desk, check=True, capture_output=True, text=True).stdout

        first = like()
        assert first.startswith("3 queued, refused: {'no url': ")
        assert farm.client.wait(Counted.ACCEPTED, at_least=3, timeout_s=20)
        assert like().startswith("0 queued")
    arrivals = [arrival for arrival in farm.ledger().arrivals if arrival.accepted]
    assert sorted(arrival.inbox for arrival in arrivals) == sorted(farm.inboxes())
    assert {arrival.verdict for arrival in arrivals} == {"verified"}
    assert {arrival.activity for arrival in arrivals} == {"https://example.com/users/alice/likes/1"}


def test_the_example_is_about_ten_lines():
    (example,) = _blocks("python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 10


def test_every_page_that_is_linked_is_there_and_every_target_that_is_named():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        page, _, section = target.partition("#")
        assert (ROOT / page).is_file(), target
        headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
        assert not section or section in {heading.lower().replace(" ", "-") for heading in headings}, target
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z-]+)", README)) <= targets
