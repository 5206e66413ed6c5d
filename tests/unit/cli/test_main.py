# SPDX-License-Identifier: Apache-2.0
"""The command line finds its commands, answers in words, and ends quietly."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ojak import cli as package
from ojak.cli.main import COMMANDS, main
from ojak.signing import FolderSenderKeys

SENDER = "https://a.test/users/alice"
NOT_COMMANDS = {
    "__init__",
    "duration",
    "kinds",
    "main",
    "operator",
    "show",
    "show_hosts",
    "show_senders",
    "where",
    "which",
}


def test_each_file_is_a_command_and_each_command_has_its_line() -> None:
    files = {path.stem for path in Path(package.__path__[0]).glob("*.py")} - NOT_COMMANDS
    assert set(COMMANDS) == files


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_loads_and_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from importlib import import_module

    command = getattr(import_module(f"ojak.cli.{name}"), name)
    assert isinstance(command, click.Command)
    if name != "supervisor":  # which becomes another program
        assert main([name, "--help"]) == 0
        assert "Usage: ojak" in capsys.readouterr().out


def helps(command: click.Command, *path: str) -> list[tuple[str, ...]]:
    """A command and all that are below it."""
    below = command.commands if isinstance(command, click.Group) else {}
    return [path, *(found for name, one in below.items() for found in helps(one, *path, name))]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_help_shows_the_marks_that_keep_its_lines(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from importlib import import_module

    for path in helps(getattr(import_module(f"ojak.cli.{name}"), name), name):
        if path != ("supervisor",):  # which becomes another program
            assert main([*path, "--help"]) == 0
            assert "\\b" not in capsys.readouterr().out


def test_help_loads_no_command() -> None:
    code = (
        "import sys\nfrom ojak.cli.main import main\nassert main(['--help']) == 0\n"
        "assert not {'ojak.farm', 'ojak.deliverer', 'aiohttp', 'pymongo', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "Usage: ojak"),
        (["nope"], 2, "No such command 'nope'"),
        (["send", "--nope"], 2, "No such option"),
        (["send", "--sender", SENDER], 2, "ojak: no inbox is given"),
        (["send", "none.json", "--sender", SENDER, "--inbox", "https://b.test/i"], 2, "ojak: activity is 'none.json'"),
        (["keys", "generate", SENDER], 2, "ojak: keys is not given"),
        (["keys", "generate", "alice", "--keys", "k"], 2, "ojak: sender is 'alice'; allowed is the id of an actor"),
        (["keys", "generate", SENDER, "--keys", "/proc/none"], 1, "ojak: keys folder '/proc/none' cannot be written"),
    ],
)
def test_mistakes_are_said_and_have_codes(
    *,
    arguments: list[str],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    said = capsys.readouterr()
    assert words in said.err + said.out


def test_keys_are_made_once_and_their_public_halves_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["keys", "generate", SENDER, "--keys", str(tmp_path)]
    assert main([*arguments, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    ring = FolderSenderKeys(tmp_path).load(SENDER)
    assert ring.ed25519 is not None
    assert [key["id"] for key in shown["keys"]] == [f"{SENDER}#main-key", f"{SENDER}#ed25519-key"]
    assert shown["keys"][0]["publicKeyPem"] == ring.rsa.key.public_pem()
    assert "PRIVATE" not in json.dumps(shown)
    assert main(arguments) == 9
    assert "has a key already" in capsys.readouterr().err
    assert main([*arguments, "--replace"]) == 0


def test_a_reader_that_has_read_enough_is_no_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "ojak", "keys", "generate", SENDER, "--keys", str(tmp_path)]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert ended.returncode == 141
    assert ended.stderr == b""


def closed(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command with some of its standard streams closed."""
    script = f'exec "$@" {redirection}'
    command = ["/bin/sh", "-c", script, "sh", sys.executable, "-m", "ojak", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def test_a_closed_standard_input_is_one_line() -> None:
    for arguments in (("--inbox", "https://b.test/i"), (__file__, "--inboxes", "-")):
        ended = closed("<&-", "send", "--sender", SENDER, *arguments)
        assert ended.returncode == 2
        assert "is '-', and standard input is closed" in ended.stderr
        assert len(ended.stderr.splitlines()) == 1


def test_a_closed_standard_output_is_one_line_and_nothing_is_begun(tmp_path: Path) -> None:
    for redirection in (">&-", "<&- >&-"):
        ended = closed(redirection, "keys", "generate", SENDER, "--keys", str(tmp_path / "keys"))
        assert (ended.returncode, ended.stderr) == (1, "ojak: standard output is closed; give it a file or /dev/null\n")
    assert not (tmp_path / "keys").exists()


def test_a_closed_standard_error_changes_no_exit_code_and_no_output(tmp_path: Path) -> None:
    for arguments in (("keys", "generate", SENDER), ("nope",), ("send", "--nope")):
        ended = closed("2>&-", *arguments)
        assert (ended.returncode, ended.stdout) == (2, "")
    ended = closed("2>&-", "keys", "generate", SENDER, "--keys", str(tmp_path), "--json")
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["sender"] == SENDER


def test_the_supervisor_is_not_refused_a_closed_output() -> None:
    ended = closed(">&-", "supervisor", "--nope")
    assert ended.returncode == 2
    assert "standard output" not in ended.stderr
