# SPDX-License-Identifier: Apache-2.0
"""A private MongoDB server in a data folder: the default where no MongoDB address is given.

The server is a single-node replica set of the `mongod` extra. It listens on one Unix socket that only its user can
reach, and never on a network. The supervisor runs it with its own process handling; tests use `embedded_mongod`.

Names are loaded on first use, because the supervisor needs the folder and its lock but never the database driver.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ojak.store.embedded.errors import EmbeddedMongodError
    from ojak.store.embedded.folder import EmbeddedFolder, embedded_url
    from ojak.store.embedded.lock import FolderLock
    from ojak.store.embedded.server import EmbeddedServer, embedded_mongod

__all__ = [
    "EmbeddedFolder",
    "EmbeddedMongodError",
    "EmbeddedServer",
    "FolderLock",
    "embedded_mongod",
    "embedded_url",
]

_HOMES = {
    "EmbeddedFolder": "folder",
    "EmbeddedMongodError": "errors",
    "EmbeddedServer": "server",
    "FolderLock": "lock",
    "embedded_mongod": "server",
    "embedded_url": "folder",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
