# SPDX-License-Identifier: Apache-2.0
"""A supervisor of a later version, as `python -m ojak.supervisor`: it has a migration more, that touches every host."""

import sys

from ojak.store.database import QueueDatabase
from ojak.store.migrations import runner
from ojak.supervisor import __main__ as program
from ojak.supervisor.frames import Link
from ojak.supervisor.master import Master
from ojak.supervisor.plan import WorkerPlan
from ojak.worker.board import FlightBoard

NEWER_SCHEMA = max(runner.MIGRATIONS) + 1


async def later(db: QueueDatabase) -> None:
    await db.hosts.update_many({}, {"$set": {"later": {"field": 1}}})


def become_newer() -> None:
    assert isinstance(runner.MIGRATIONS, dict)
    runner.MIGRATIONS[NEWER_SCHEMA] = later


def preflight(argv: list[str], link: Link) -> int:
    become_newer()
    return program._preflight(argv, link)


def worker(index: int, plan: WorkerPlan, board: FlightBoard, link: Link) -> int:
    become_newer()
    return program._worker(index, plan, board, link)


if __name__ == "__main__":
    sys.exit(Master(argv=sys.argv[1:], preflight=preflight, worker=worker).run())
