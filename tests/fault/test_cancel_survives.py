# SPDX-License-Identifier: Apache-2.0
"""R30 d: a cancel that was answered holds, also when the database is killed in the next moment."""

import os
import signal

from ojak import Deliverer
from ojak.store.embedded import embedded_mongod

INBOXES = [f"https://h{n}.test/in" for n in range(40)]


async def test_r30d_what_was_cancelled_stays_so_when_mongod_is_killed_at_once(tmp_path):
    with embedded_mongod(tmp_path / "data") as server:
        async with Deliverer(server.url) as deliverer:
            for n in range(3):
                await deliverer.send({"id": f"https://a.test/{n}", "type": "Like"}, "https://a.test/u", INBOXES)
            cancelled = await deliverer.cancel(sender="https://a.test/u")
            os.kill(server.pid, signal.SIGKILL)
    assert cancelled.count == 120
    with embedded_mongod(tmp_path / "data") as server:
        async with Deliverer(server.url) as deliverer:
            assert await deliverer.counts() == {"cancelled": 120}
