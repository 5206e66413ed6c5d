# SPDX-License-Identifier: Apache-2.0
"""What stands in the way of the embedded server."""

from ojak.errors import StoreError


class EmbeddedMongodError(StoreError):
    """The embedded MongoDB server cannot start, run or be found. One sentence says what it is and what to do."""


class FolderInUse(EmbeddedMongodError):
    """Another process already runs on the data folder."""
