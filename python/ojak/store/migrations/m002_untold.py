# SPDX-License-Identifier: Apache-2.0
"""002: the index of untold ends leads on to the kind; the one that held nothing but `told` goes."""

from typing import Final

from ojak.store.database import QueueDatabase
from ojak.store.indexes import BUILD, UNTOLD

_OLD: Final = "untold"


async def up(db: QueueDatabase) -> None:
    """Replace the old index, if there is one."""
    if _OLD not in await db.jobs.index_information():
        return
    # First the new one: workers of the version before look for untold ends meanwhile.
    await db.jobs.create_indexes([UNTOLD], **BUILD)
    await db.jobs.drop_index(_OLD)
