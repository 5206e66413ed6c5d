# SPDX-License-Identifier: Apache-2.0
"""Commands that cannot write, may open too little, are given too much, or are asked to end: in words, and tidy."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ojak.cli.main import main
from ojak.signing import FolderSenderKeys

SENDER = "https://a.test/users/alice"
OJAK = [sys.executable, "-m", "ojak"]


def run(arguments: list[str], *, limit: int | None = None, **options: object) -> subprocess.CompletedProcess[str]:
    def few() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    with Path(os.devnull).open("rb") as nothing:
        return subprocess.run(
            [*OJAK, *arguments],
            check=False,
            stdin=nothing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            preexec_fn=few,
            **options,  # type: ignore[call-overload]
        )


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["send", "--help"], ["config", "show"], ["keys", "list"], ["keys", "show", SENDER]],
    ids=" ".join,
)
def test_an_output_that_takes_no_more_is_one_line_for_every_command(arguments: list[str], tmp_path: Path):
    FolderSenderKeys(tmp_path).generate(SENDER)
    keys = ["--keys", str(tmp_path)] if arguments[0] == "keys" else []
    with Path("/dev/full").open("w") as full:
        ended = run([*arguments, *keys], stdout=full)
    assert (ended.returncode, ended.stderr) == (1, "ojak: the output cannot be written: No space left on device\n")


def test_a_farm_whose_output_takes_no_more_says_so(tmp_path: Path):
    with (
        Path("/dev/full").open("w") as full,
        subprocess.Popen(
            [*OJAK, "farm", "--hosts", "2", "--dir", str(tmp_path)], stdout=full, stderr=subprocess.PIPE, text=True
        ) as farm,
    ):
        assert farm.stderr is not None
        assert farm.stderr.readline() == "ojak farm: the output cannot be written: No space left on device\n"
        farm.send_signal(signal.SIGTERM)
        assert farm.wait(20) == 1


@pytest.mark.parametrize("module", ["ojak.farm", "ojak"])
def test_a_farm_without_standard_output_says_so_and_does_not_abort(module: str, tmp_path: Path):
    farm = "" if module == "ojak.farm" else "farm"
    command = f"exec {sys.executable} -m {module} {farm} --hosts 2 --dir {tmp_path} >&-"
    ended = subprocess.run(["/bin/sh", "-c", command], check=False, stderr=subprocess.PIPE, text=True, timeout=30)
    assert ended.returncode == 1
    assert ended.stderr.endswith("standard output is closed; give it a file or /dev/null\n")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["bench", "demo"])
def test_too_few_descriptors_are_one_line_before_anything_starts(command: str, tmp_path: Path):
    ended = run([command], limit=64, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert ended.returncode == 1
    assert ended.stderr == "ojak: the limit of open files is 64 (ulimit -n); needed are 512 and more\n"
    assert list(tmp_path.iterdir()) == []


def test_a_bench_that_is_asked_to_end_leaves_nothing_and_minds_no_settings_of_another_queue(tmp_path: Path):
    theirs = {**os.environ, "TMPDIR": str(tmp_path), "OJAK_MONGO_URL": "mongodb://nowhere.invalid/"}
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "ojak.toml").write_text('mongo_url = "mongodb://nowhere.invalid/"\n')
    with subprocess.Popen(
        [*OJAK, "bench", "--deliveries", "100000", "--hosts", "3", "--workers", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=theirs,
        cwd=tmp_path / "folder",
    ) as bench:
        assert bench.stderr is not None
        said = ""
        while "workers:" not in said:
            line = bench.stderr.readline()
            assert line, said
            said += line
        for _ in range(2):
            bench.send_signal(signal.SIGTERM)
        said += bench.stderr.read()
        assert bench.wait(30) == 130
    assert "Traceback" not in said
    assert "bench: interrupted: everything that ran has ended\n" in said
    assert list(tmp_path.glob("ojak-bench-*")) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/dev/zero"], "activity is '/dev/zero', which is too long; allowed are 1048576 bytes (max_body_bytes)"),
        (["a.json", "--inboxes", "/dev/zero"], "inboxes is '/dev/zero', which is too long; allowed are 67108864 bytes"),
        (["."], "activity is '.', which cannot be read: Is a directory"),
    ],
)
def test_no_more_of_a_file_is_read_than_can_be_used(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text("{}")
    assert main(["send", *arguments, "--sender", SENDER, "--inbox", "https://b.test/i"]) == 2
    assert words in capsys.readouterr().err
