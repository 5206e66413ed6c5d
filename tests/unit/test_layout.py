# SPDX-License-Identifier: Apache-2.0
"""The shape of the project: its public API, and the rules that every file keeps."""

import subprocess
import sys
from pathlib import Path

import pytest

import ojak

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "ojak"
BUILT = frozenset({".venv", "target", ".git", "node_modules", "ojak-data"})
LONGEST = 400

PUBLIC = """
    Admission AttemptOutcome Batch BatchProgress BlockedDomains BreakerResult BreakerScope BreakerStore
    CachingSenderKeys Cancelled Circuit CircuitBreaker CircuitState CollectionSenderKeys ConfigError
    ConflictingActivity ContentForm Deliverer DelivererConfig DeliveryAttempt DeliveryError DeliveryFailure
    DeliveryState Explanation FailedDelivery FailureReason FolderSenderKeys GatewayState HandledJob Handler
    HostBreaker HostFilter HostOverrides HostRecord HostSort HostState Inbox InputError InvalidActivity InvalidInbox
    JobInfo JobOutcome JobRefused KeyFields KeyRefused KindStatus MemoryBreakers OjakError Outbound Outgoing Pause
    PortableInbox Priority PrivateKey Probe ProbeAnswer QueueFull QueueSettings QueueUnavailable QueuedJob Replayed
    Scheme SenderKeyring SenderKeys SenderPause Sent SentInbox SentState Settled SettledOutcome Signal SigningError
    SigningKey StoreError UnknownActivity UnknownBatch UnknownHost UnknownJob UnknownSender Verdict WaitsFor deliver
    deliver_with_headers permanent_status
"""


def _sources() -> list[Path]:
    wanted = {".py", ".pyi", ".rs", ".toml", ".sh"}
    return sorted(
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and (path.suffix in wanted or path.name == "Makefile" or path == ROOT / ".ci" / "run")
        and not BUILT & set(path.relative_to(ROOT).parts)
    )


def _rooms() -> list[Path]:
    return sorted({path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE})


def test_the_public_api_is_what_it_was():
    assert ojak.__all__ == PUBLIC.split()


def test_every_public_name_is_there_and_documented():
    for name in ojak.__all__:
        assert getattr(ojak, name).__doc__, name
    assert set(ojak.__all__) <= set(dir(ojak))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ojak.no_such_name


def test_importing_the_package_loads_nothing_large():
    program = "import sys, ojak, ojak.supervisor.__main__; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"aiohttp", "pymongo", "orjson", "pydantic", "uvloop", "asyncio"} & set(ran.stdout.split())


@pytest.mark.parametrize("path", _sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_source_file_begins_with_its_licence_and_is_not_too_long(path: Path):
    if path.name == "run_vectors.py" or (path.name == "__init__.py" and not path.read_text("utf-8").strip()):
        return
    lines = path.read_text("utf-8").splitlines()
    assert any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2])
    if path.suffix in {".py", ".rs"} and "tests" not in path.relative_to(ROOT).parts:
        assert len(lines) <= LONGEST


@pytest.mark.parametrize("room", _rooms(), ids=lambda room: str(room.relative_to(PACKAGE)))
def test_a_room_has_code_and_says_what_it_is(room: Path):
    modules = [path for path in room.glob("*.py") if path.name != "__init__.py"]
    assert modules or len((room / "__init__.py").read_text("utf-8").splitlines()) > 10
    assert '"""' in (room / "__init__.py").read_text("utf-8")


def test_no_module_is_a_drawer_for_odds_and_ends():
    assert not {path.stem for path in PACKAGE.rglob("*.py")} & {"utils", "util", "helpers", "common", "base", "misc"}
