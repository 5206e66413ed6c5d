# SPDX-License-Identifier: Apache-2.0
"""The exit codes of the supervisor and the command line, by name, and the ends of children in words."""

import signal
from enum import IntEnum

from ojak.errors import ConfigError, InputError, OjakError, SigningError, StoreError
from ojak.store.embedded.errors import EmbeddedMongodError, FolderInUse


class AppError(ConfigError):
    """The application's factory is missing, raises, or gives what cannot be used. One line, with where."""


class ExitCode(IntEnum):
    """What a process of Ojak ends with. `docs/running.md` lists them for operators and service managers."""

    OK = 0
    """Done; for the supervisor: drained."""
    FAILURE = 1
    """Something failed; the last line of the output says what."""
    USAGE = 2
    """A flag, variable or setting is not usable."""
    BOOT_LOOP = 3
    """No worker came up, and none had come up before."""
    FOLDER_IN_USE = 4
    """Another supervisor runs on the data folder."""
    MONGOD = 5
    """The embedded MongoDB cannot start, or does not stay up."""
    DATABASE = 6
    """MongoDB cannot be reached, refuses, or holds what this version cannot use."""
    APP = 7
    """The `--app` factory is missing, raises, or gives what cannot be used."""
    FORCED = 8
    """Stopped before everything on the wire had ended: a second signal came, or the drain took too long."""
    KEY = 9
    """A sender has no key, has one that cannot be used, or has the one already that was to be made."""


def describe_end(returncode: int) -> str:
    """An exit code (negative: a signal) in words."""
    if returncode < 0:
        try:
            return f"killed by {signal.Signals(-returncode).name}"
        except ValueError:
            return f"killed by signal {-returncode}"
    try:
        name = ExitCode(returncode).name
    except ValueError:
        return f"exit code {returncode}"
    return f"exit code {returncode} ({name})"


_CODES = (
    (AppError, ExitCode.APP),
    (ConfigError, ExitCode.USAGE),
    (InputError, ExitCode.USAGE),
    (FolderInUse, ExitCode.FOLDER_IN_USE),
    (EmbeddedMongodError, ExitCode.MONGOD),
    (StoreError, ExitCode.DATABASE),
    (SigningError, ExitCode.KEY),
)


def exit_code_of(error: OjakError) -> ExitCode:
    """The exit code that names the kind of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILURE)
