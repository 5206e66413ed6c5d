# SPDX-License-Identifier: Apache-2.0
"""`python -m ojak.supervisor`. Imports the standard library and pure modules alone; children import the rest."""

import sys

from ojak.streams import occupy_closed_streams
from ojak.supervisor.frames import Link
from ojak.supervisor.master import Master
from ojak.supervisor.plan import WorkerPlan
from ojak.worker.board import FlightBoard


def _preflight(argv: list[str], link: Link) -> int:
    from ojak.supervisor.preflight import run_preflight  # noqa: PLC0415 - in the child, which may load libraries

    return run_preflight(argv, link)


def _worker(index: int, plan: WorkerPlan, board: FlightBoard, link: Link) -> int:
    from ojak.supervisor.build import build_deliverer  # noqa: PLC0415 - in the child, which may load libraries
    from ojak.supervisor.child import run_worker  # noqa: PLC0415

    return run_worker(index, plan, board, link, build=build_deliverer)


def main(argv: list[str] | None = None) -> int:
    """Run the supervisor; answers its exit code."""
    occupy_closed_streams()
    arguments = sys.argv[1:] if argv is None else argv
    return Master(argv=arguments, preflight=_preflight, worker=_worker).run()


if __name__ == "__main__":
    sys.exit(main())
