# SPDX-License-Identifier: Apache-2.0
"""A supervisor as `python -m ojak.supervisor` whose first worker to let go what was set aside stops in the middle.

Arguments: the step of `ojak.store.aside` before whose second call it stops, and the file that it then writes its
process into; after these, the supervisor's own. Pages are small, so that there is a middle.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from ojak.store import aside
from ojak.supervisor import __main__ as program
from ojak.supervisor.frames import Link
from ojak.supervisor.master import Master
from ojak.supervisor.plan import WorkerPlan
from ojak.worker.board import FlightBoard

PAGE = 20


def tell_first(told: Path) -> bool:
    """Write down which process stops; False in those that come after it, and go on."""
    if told.exists():
        return False
    draft = told.with_suffix(".new")
    draft.write_text(str(os.getpid()))
    draft.replace(told)
    return True


def stop_before_second(step: str, told: Path) -> None:
    real, calls = getattr(aside, step), 0

    async def stopping(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2 and tell_first(told):
            await asyncio.Event().wait()
        return await real(*args, **named)

    setattr(aside, step, stopping)
    aside.PAGE = PAGE  # type: ignore[misc]


def main(step: str, told: str, *arguments: str) -> int:
    def worker(index: int, plan: WorkerPlan, board: FlightBoard, link: Link) -> int:
        stop_before_second(step, Path(told))
        return program._worker(index, plan, board, link)

    return Master(argv=list(arguments), preflight=program._preflight, worker=worker).run()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
