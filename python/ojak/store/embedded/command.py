# SPDX-License-Identifier: Apache-2.0
"""The command that runs the embedded server, and the environment it gets."""

import os
from pathlib import Path

from ojak.store.embedded.folder import EmbeddedFolder

REPLICA_SET = "ojak"
# Only a part of the name of the socket in the replica set's configuration: nothing listens on the network.
PORT = 27017
OPLOG_MB = 128
CACHE_GB = 0.25
CACHE_MIN_GB = 0.25

# Nothing else of the environment reaches the server: it may hold passwords and tokens of the application.
_ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


def mongod_command(program: Path, folder: EmbeddedFolder, *, cache_gb: float = CACHE_GB) -> list[str]:
    """The command line of the server on `folder`.

    Args:
        program: The mongod to run.
        folder: A prepared folder.
        cache_gb: WiredTiger's cache in GB, at least 0.25.
    """
    return [
        str(program),
        "--dbpath",
        str(folder.database),
        "--replSet",
        REPLICA_SET,
        "--bind_ip",
        str(folder.socket),
        "--port",
        str(PORT),
        "--nounixsocket",
        "--logpath",
        str(folder.log),
        "--logappend",
        "--logRotate",
        "reopen",
        "--quiet",
        "--wiredTigerCacheSizeGB",
        f"{max(cache_gb, CACHE_MIN_GB):g}",
        "--oplogSize",
        str(OPLOG_MB),
        # The log of slow statements would quote activities.
        "--slowOpSampleRate",
        "0",
        "--noscripting",
        "--enableFreeMonitoring",
        "off",
        # A sample of every counter each second, kept on disk for the vendor's support.
        "--setParameter",
        "diagnosticDataCollectionEnabled=false",
        # Nobody reads the queue as it was. Kept for the default of five minutes, every entry that a claim or an end
        # took out of an index stands in the way of the next claims all that time.
        "--setParameter",
        "minSnapshotHistoryWindowInSeconds=1",
    ]


def mongod_environment() -> dict[str, str]:
    """The environment of the server: what the loader and libc need, and nothing of the application's."""
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
