# SPDX-License-Identifier: Apache-2.0
"""Why a server ended at its start, in one sentence with what to do about it."""

import json
import re
import signal
from pathlib import Path

from ojak.store.embedded.errors import EmbeddedMongodError
from ojak.store.embedded.folder import EmbeddedFolder
from ojak.store.embedded.wheel import OTHERWISE

TAIL_BYTES = 64 * 1024
MESSAGE_MAX = 300
_NEEDS_OTHER_VERSION = 62
_LOADER = re.compile(r"error while loading shared libraries: ([^:\n]+)|version `([^']+)' not found")


def explain_end(folder: EmbeddedFolder, returncode: int) -> EmbeddedMongodError:
    """Read what the server left behind and say why it ended.

    Args:
        folder: The folder it ran on.
        returncode: Its exit code; negative for a signal.
    """
    output = _tail(folder.output)
    words = _last_error(folder.log)
    return EmbeddedMongodError(
        _of_the_system(output, returncode)
        or _of_the_data(folder, words, returncode)
        or _of_itself(folder, words or output, returncode)
    )


def _of_the_system(output: str, returncode: int) -> str | None:
    if missing := _LOADER.search(output):
        library = missing.group(1) or missing.group(2)
        return (
            f"the embedded MongoDB needs {library}, which this system does not have: install it "
            f"(Debian, Ubuntu: apt install libcurl4), {OTHERWISE}"
        )
    if returncode == -signal.SIGILL:
        return (
            "the embedded MongoDB needs a processor with AVX, which this one lacks: "
            f"name an older mongod with --mongod, {OTHERWISE}"
        )
    if returncode == -signal.SIGKILL:
        return (
            "the embedded MongoDB was killed while it started, most likely for want of memory: "
            f"give the machine more, {OTHERWISE}"
        )
    return None


def _of_the_data(folder: EmbeddedFolder, words: str, returncode: int) -> str | None:
    if "No space left" in words or "ENOSPC" in words:
        return (
            f"the disk of {str(folder.root)!r} is full: free some space, or name a folder on another disk with --data"
        )
    if "DBPathInUse" in words:
        return f"another mongod runs on {str(folder.database)!r}: stop it, or name another folder with --data"
    if returncode == _NEEDS_OTHER_VERSION or "featureCompatibilityVersion" in words:
        return (
            f"the data in {str(folder.database)!r} was written by another version of MongoDB than this mongod: "
            f"name a mongod of that version with --mongod, {OTHERWISE}; the data is untouched"
        )
    return None


def _of_itself(folder: EmbeddedFolder, words: str, returncode: int) -> str:
    detail = words.strip().replace("\n", " ")[-MESSAGE_MAX:] or f"it says nothing more, see {str(folder.log)!r}"
    ended = f"signal {-returncode}" if returncode < 0 else f"exit code {returncode}"
    return f"the embedded MongoDB ended at its start ({ended}): {detail}"


def _tail(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - TAIL_BYTES))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _last_error(log: Path) -> str:
    """The last error or fatal line of this run; an earlier run's are before the last start banner."""
    found = ""
    for line in _tail(log).splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict):
            continue
        if entry.get("id") == 20698:  # "SERVER RESTARTED" in the catalogue of its log lines
            found = ""
        if entry.get("s") in {"E", "F"}:
            attributes = entry.get("attr") or {}
            found = f"{entry.get('msg', '')} {json.dumps(attributes, default=str) if attributes else ''}".strip()
    return found[:MESSAGE_MAX]
