# SPDX-License-Identifier: Apache-2.0
"""Every kind of error has its exit code, and every code is explained to operators."""

from pathlib import Path

import pytest

from ojak.errors import ConfigError, InputError, OjakError, QueueUnavailable, SigningError, StoreError, UnknownSender
from ojak.signing.errors import KeyExists, KeyRefused
from ojak.store.embedded.errors import EmbeddedMongodError, FolderInUse
from ojak.supervisor.exits import AppError, ExitCode, exit_code_of

RUNNING = Path(__file__).parents[3] / "docs" / "running.md"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AppError("x"), ExitCode.APP),
        (ConfigError("x"), ExitCode.USAGE),
        (InputError("x"), ExitCode.USAGE),
        (UnknownSender("x"), ExitCode.KEY),
        (KeyRefused("weak_key", "x"), ExitCode.KEY),
        (KeyExists("x", Path("y")), ExitCode.KEY),
        (SigningError("x"), ExitCode.KEY),
        (QueueUnavailable("x"), ExitCode.DATABASE),
        (StoreError("x"), ExitCode.DATABASE),
        (OjakError("x"), ExitCode.FAILURE),
    ],
)
def test_an_error_has_the_code_of_its_kind(error: OjakError, code: ExitCode) -> None:
    assert exit_code_of(error) is code


def test_the_embedded_server_has_codes_of_its_own() -> None:
    assert issubclass(FolderInUse, EmbeddedMongodError)
    assert exit_code_of(EmbeddedMongodError("x")) is ExitCode.MONGOD


@pytest.mark.parametrize("code", list(ExitCode))
def test_each_code_is_in_the_docs(code: ExitCode) -> None:
    assert f"| {int(code)} | `{code.name}` |" in RUNNING.read_text("utf-8")
