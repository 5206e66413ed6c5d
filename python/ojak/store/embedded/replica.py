# SPDX-License-Identifier: Apache-2.0
"""From a started server to one that takes writes: its replica set of one node made, or moved to its new socket."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from ojak.store.embedded.command import PORT, REPLICA_SET
from ojak.store.embedded.errors import EmbeddedMongodError
from ojak.store.embedded.folder import EmbeddedFolder, is_listening
from ojak.store.embedded.refusal import explain_end

# The first look may come before the server listens; it does within half a second, or after minutes of recovery.
LOOK_S = 0.02
START_TIMEOUT_S = 120.0
_NOT_YET_INITIALIZED = 94
_ALREADY_INITIALIZED = 23
_CONFIGURATION_IN_PROGRESS = 109


def await_primary(
    folder: EmbeddedFolder, ended: Callable[[float], int | None], *, timeout_s: float = START_TIMEOUT_S
) -> None:
    """Wait until the server on `folder` takes writes.

    Args:
        folder: Where it was started.
        ended: Waits up to that many seconds for the server's end, and gives its exit code (negative: a signal) then.
        timeout_s: Recovery from the journal after a crash takes its time; after this long it is given up on.

    Raises:
        EmbeddedMongodError: It ended, or the time is over.
    """
    deadline = time.monotonic() + timeout_s
    while not is_listening(folder.socket):
        _look(folder, ended, deadline)
    client: MongoClient[Mapping[str, Any]] = MongoClient(
        folder.url, serverSelectionTimeoutMS=5000, connectTimeoutMS=5000, socketTimeoutMS=15000
    )
    try:
        _ensure_member(client, folder, deadline)
        while not client.admin.command("hello")["isWritablePrimary"]:
            _look(folder, ended, deadline)
    except PyMongoError as error:
        code = ended(1.0)
        if code is not None:
            raise explain_end(folder, code) from error
        raise EmbeddedMongodError(f"the embedded MongoDB cannot be made ready: {error}") from error
    finally:
        client.close()


def _look(folder: EmbeddedFolder, ended: Callable[[float], int | None], deadline: float) -> None:
    code = ended(LOOK_S)
    if code is not None:
        raise explain_end(folder, code)
    if time.monotonic() > deadline:
        raise EmbeddedMongodError(
            f"the embedded MongoDB does not become ready in time; its log {str(folder.log)!r} says what it is doing"
        )


def _ensure_member(client: MongoClient[Mapping[str, Any]], folder: EmbeddedFolder, deadline: float) -> None:
    """Make the set, or tell it that its only member is now at another socket (the folder was moved or copied)."""
    member = {"_id": 0, "host": f"{folder.socket}:{PORT}"}
    while True:
        try:
            config: dict[str, Any] = dict(client.admin.command("replSetGetConfig")["config"])
            if [row["host"] for row in config["members"]] != [member["host"]]:
                config |= {"version": config["version"] + 1, "members": [{**config["members"][0], **member}]}
                client.admin.command("replSetReconfig", config, force=True)
        except OperationFailure as error:
            if error.code == _CONFIGURATION_IN_PROGRESS and time.monotonic() < deadline:
                # A server that is only just up is still taking in the configuration that it stored.
                time.sleep(LOOK_S)
                continue
            if error.code != _NOT_YET_INITIALIZED:
                raise
        else:
            return
        try:
            client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": [member]})
        except OperationFailure as error:
            # A server that is only just up has not read its stored configuration yet and says "already initialized"
            # to one call and "not yet" to the other.
            if error.code != _ALREADY_INITIALIZED or time.monotonic() > deadline:
                raise
        else:
            return
