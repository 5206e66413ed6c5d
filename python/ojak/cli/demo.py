# SPDX-License-Identifier: Apache-2.0
"""`ojak demo`: the main job, to be watched."""

import json
import sys

import click

from ojak.demo.cast import FULL_CAST
from ojak.demo.progress import Progress
from ojak.demo.run import DemoPlan, run_demo
from ojak.demo.table import as_json as json_of
from ojak.demo.table import as_text
from ojak.errors import OjakError
from ojak.rig.descriptors import require_descriptors
from ojak.rig.interruptible import interruptible
from ojak.supervisor.exits import ExitCode


@click.command("demo")
@click.option(
    "--hosts",
    type=click.IntRange(10, 5000),
    default=FULL_CAST,
    show_default=True,
    help="To how many hosts; of few, the rare sorts are missing.",
)
@click.option("--keep", is_flag=True, help="Keep the queue, the ledger, the keys and the log, and say where.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; progress goes to standard error.")
def demo(*, hosts: int, keep: bool, as_json: bool) -> int:
    """Send real activities to a farm of mock hosts, and account for every delivery.

    Some hosts are slow, refuse, know only one signature scheme, limit their rate, restart, or are dead. Everything goes
    through a supervisor with two workers on an embedded MongoDB in a fresh folder, and over real sockets on loopback.
    It ends when each delivery to a living host is settled.

    \b
    Exit codes: 0 nothing lost, double, unverified or over the limit · 1 something was, or it could not run
    130 interrupted.
    """
    progress = Progress(sys.stderr)
    with interruptible(progress.say):
        require_descriptors()
        try:
            result = run_demo(DemoPlan(hosts=hosts, keep=keep), progress)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OjakError(f"the demo cannot make or read what it needs: {error}") from error
    click.echo(json.dumps(json_of(result)) if as_json else as_text(result))
    return int(ExitCode.OK if result.clean else ExitCode.FAILURE)
