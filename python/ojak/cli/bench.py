# SPDX-License-Identifier: Apache-2.0
"""`ojak bench`: what a delivery costs here."""

import sys
from pathlib import Path

import click
import orjson

from ojak.bench.delivery import BenchPlan, BenchResult, run_bench
from ojak.errors import OjakError
from ojak.rig.descriptors import require_descriptors
from ojak.rig.interruptible import interruptible


@click.command()
@click.option("--deliveries", type=click.IntRange(1, 1_000_000), default=5000, show_default=True, help="How many.")
@click.option("--hosts", type=click.IntRange(1, 5000), default=50, show_default=True, help="To how many hosts.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="With how many workers.")
@click.option(
    "--body-bytes", type=click.IntRange(300, 1 << 20), default=2048, show_default=True, help="Length of an activity."
)
@click.option("--keep", type=click.Path(path_type=Path), help="Keep queue, ledger and logs in this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def bench(deliveries: int, hosts: int, workers: int, body_bytes: int, keep: Path | None, *, as_json: bool) -> int:
    """Measure what a delivery costs by process, against a bare signature and a bare POST of the same run.

    A farm on loopback, a supervisor on an embedded MongoDB, kept connections, RSA-2048. Exit code 1 if anything was
    lost, unverified or over the limit, or doubled beyond what killed workers had begun.
    """
    plan = BenchPlan(deliveries=deliveries, hosts=hosts, workers=workers, body_bytes=body_bytes, keep=keep)
    shows = sys.stderr.isatty()

    def progress(done: int, total: int) -> None:
        if shows:
            print(f"\r{done:>8} of {total} deliveries", end="\n" if done >= total else "", file=sys.stderr, flush=True)

    def say(text: str) -> None:
        print(f"bench: {text}", file=sys.stderr)

    with interruptible(say):
        require_descriptors()
        try:
            result = run_bench(plan, say=say, progress=progress)
        except OSError as error:
            # Deliveries that stalled (BenchStalled), a folder that cannot be written, descriptors that ran out.
            raise OjakError(f"the bench could not go on: {error}") from error
    print(orjson.dumps(result.as_json()).decode() if as_json else _as_text(result))
    return 0 if result.account.clean else 1


def _as_text(result: BenchResult) -> str:
    shown = result.as_json()
    cpu, floors, ledger = shown["cpu_us_per_delivery"], shown["floor_us"], shown["ledger"]
    return "\n".join(
        [
            f"{shown['deliveries']} deliveries in {shown['seconds']} s: {shown['rate_per_s']}/s",
            "CPU a delivery, µs: " + ", ".join(f"{name} {value}" for name, value in cpu.items()),
            f"floors, µs: RSA-2048 signature {floors['rsa2048_sign']}, bare aiohttp POST {floors['aiohttp_post']}",
            f"overhead: {shown['overhead']} bare POSTs beyond the signature",
            " · ".join(f"{name.replace('_', ' ')} {value}" for name, value in ledger.items()),
        ]
    )
