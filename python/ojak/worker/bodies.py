# SPDX-License-Identifier: Apache-2.0
"""Bodies in memory: each is read once for a fan-out, and its digest is computed once."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from ojak.signing import BodyDigest
from ojak.store.bodies import get_bodies
from ojak.store.database import QueueDatabase

KEPT_BYTES: Final = 32 << 20
_AT_A_TIME: Final = 32


class Body:
    """An activity's bytes and their digest."""

    __slots__ = ("content", "digest")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.digest = BodyDigest(content)


class Bodies:
    """The bodies used lately, up to `KEPT_BYTES` of them."""

    def __init__(self, db: QueueDatabase) -> None:
        self._db = db
        self._kept: OrderedDict[bytes, Body] = OrderedDict()
        self._bytes = 0

    async def load(self, keys: Iterable[bytes]) -> None:
        """Read those of `keys` that are not here yet. A body may be gone from the database: then it stays missing."""
        missing = [key for key in dict.fromkeys(keys) if key not in self._kept]
        for start in range(0, len(missing), _AT_A_TIME):
            found = await get_bodies(self._db, missing[start : start + _AT_A_TIME])
            for key, content in found.items():
                # Another load of the same body may have been faster.
                if key not in self._kept:
                    self._kept[key] = Body(content)
                    self._bytes += len(content)
            while self._bytes > KEPT_BYTES and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= len(oldest.content)

    async def get(self, key: bytes) -> Body | None:
        """A body, from memory or the database; None if it is in neither."""
        if key not in self._kept:
            await self.load([key])
        body = self._kept.get(key)
        if body is not None:
            self._kept.move_to_end(key)
        return body
