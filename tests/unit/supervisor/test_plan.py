# SPDX-License-Identifier: Apache-2.0
"""What preflight hands over arrives whole, and lines look alike."""

import json
import logging
from pathlib import Path

import pytest

from ojak.errors import ConfigError
from ojak.settings import load_settings
from ojak.supervisor.exits import ExitCode, describe_end
from ojak.supervisor.lines import LineFormatter
from ojak.supervisor.plan import SupervisorPlan
from ojak.supervisor.preflight import plan_of


def test_a_plan_arrives_as_it_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys").mkdir()
    plan = plan_of(
        load_settings(
            {
                "keys": "keys",
                "mongo_url": "mongodb://me:hush@host",
                "retry_statuses": "404",
                "allow_networks": "127.0.0.0/8",
                "workers": "3",
            }
        )
    )
    assert SupervisorPlan.from_bytes(plan.to_bytes()) == plan
    assert plan.worker.keys == str(tmp_path / "keys")
    assert not plan.worker.embedded
    assert "hush" not in repr(plan)


def test_the_embedded_server_is_used_only_where_no_url_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "url").write_text("mongodb://host\n")
    assert plan_of(load_settings({})).worker.embedded
    for flags in ({"mongo_url": "mongodb://host"}, {"mongo_url_file": "url"}):
        worker = plan_of(load_settings(flags)).worker
        assert (worker.embedded, worker.mongo_url) == (False, "mongodb://host")
    (tmp_path / "url").write_text("\n")
    with pytest.raises(ConfigError, match="which is empty"):
        plan_of(load_settings({"mongo_url_file": "url"}))


def test_keys_are_in_a_folder_and_maps_are_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match=r"^keys is 'file', which is no folder; allowed is the folder of the senders"):
        plan_of(load_settings({"keys": "file"}))
    for name in ("resolver_map", "extra_ca"):
        with pytest.raises(ConfigError, match=rf"^{name} is 'folder', which is a folder; allowed is a file"):
            plan_of(load_settings({name: "folder"}))
    with pytest.raises(ConfigError, match=r"^keys is 'none', which is not there"):
        plan_of(load_settings({"keys": "none"}))


def test_a_line_is_text_or_json() -> None:
    record = logging.makeLogRecord({"msg": "worker died", "levelname": "ERROR", "created": 0.0, "worker": 3})
    assert LineFormatter("text").format(record) == "1970-01-01T00:00:00.000Z [error  ] worker died worker=3"
    assert json.loads(LineFormatter("json").format(record)) == {
        "event": "worker died",
        "level": "error",
        "timestamp": "1970-01-01T00:00:00.000Z",
        "worker": 3,
    }


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exit code 0 (OK)"),
        (int(ExitCode.APP), "exit code 7 (APP)"),
        (-9, "killed by SIGKILL"),
        (-200, "killed by signal 200"),
        (99, "exit code 99"),
    ],
)
def test_ends_are_told_in_words(code: int, words: str) -> None:
    assert describe_end(code) == words
