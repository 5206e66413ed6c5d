# SPDX-License-Identifier: Apache-2.0
"""`ojak farm`: the command."""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import click
import orjson

from ojak.errors import ConfigError, OjakError
from ojak.farm.errors import PlanError, PortTaken
from ojak.farm.farm import FarmSettings, with_ports
from ojak.farm.plan import HostPlan
from ojak.farm.plan_file import load_plan, plan_of_words
from ojak.farm.preset import PRESETS, apply_preset
from ojak.farm.process import die_with_parent, run_farm
from ojak.farm.report import FarmReport
from ojak.farm.site import Directory

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_PORT_TAKEN = 10

_COUNTED = re.compile(r"^(?P<words>[^=]+)=(?P<count>[0-9]{1,5})$")
_WORDS = "\n".join(f"  {preset.usage:<22} {preset.about}" for preset in PRESETS.values())


def _split(values: tuple[str, ...]) -> list[tuple[str, int]]:
    counted: list[tuple[str, int]] = []
    for value in values:
        match = _COUNTED.match(value)
        if match is None:
            raise PlanError(f"behaviour is {value!r}, but it is written WORD=COUNT, as slow:3000+tls=10")
        apply_preset(HostPlan(name="blank"), match["words"], "behaviour")
        counted.append((match["words"], int(match["count"])))
    return counted


@click.command(
    "farm",
    context_settings={"max_content_width": 120},
    epilog="\b\nBehaviours, to be joined by +:\n"
    + _WORDS
    + "\n\n\b\nExit codes: 0 stopped as asked · 1 failure · 2 usage or plan · 10 a port is in use.",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("ojak-farm"),
    show_default=True,
    help="Folder for resolver.json, ca.pem, farm.json, ledger.jsonl and the control socket.",
)
@click.option("--plan", "plan_path", type=click.Path(path_type=Path), help="Plan file (JSON); see docs/farm.md.")
@click.option("--hosts", type=int, help="How many hosts, without a plan file.  [default: 200]")
@click.option(
    "--behaviour", "behaviours", multiple=True, metavar="WORD=COUNT", help="So many of them do this; the rest accept."
)
@click.option("--tls", is_flag=True, help="All inboxes are https, without a plan file.")
@click.option("--seed", type=int, help="Of all chance, without a plan file.  [default: 1]")
@click.option("--http-port", type=click.IntRange(0, 65535), help="0: the system chooses.  [default: 0]")
@click.option("--tls-port", type=click.IntRange(0, 65535), help="0: the system chooses.  [default: 0]")
@click.option(
    "--keys",
    "keys_folders",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder of senders' PEM files, public or private, named by percent-encoded sender. May be repeated.",
)
@click.option(
    "--key-file",
    "key_files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="JSON file of public keys (PEM) by key id. May be repeated.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print what farm.json holds when ready, and the counters at the end."
)
@click.option("--die-with-parent", "with_parent", is_flag=True, help="End when the program that started this one ends.")
@click.option("--ready-fd", type=int, hidden=True)
@click.option("--stop-with-stdin", is_flag=True, hidden=True)
def farm(
    *,
    folder: Path,
    plan_path: Path | None,
    hosts: int | None,
    behaviours: tuple[str, ...],
    tls: bool,
    seed: int | None,
    http_port: int | None,
    tls_port: int | None,
    keys_folders: tuple[Path, ...],
    key_files: tuple[Path, ...],
    as_json: bool,
    with_parent: bool,
    ready_fd: int | None,
    stop_with_stdin: bool,
) -> None:
    """Serve many inboxes on loopback, each behaving as planned, and keep a ledger of what arrives.

    Every signature and digest is verified against the senders' keys. Point a sender to it with the resolver map and the
    certificate authority that it writes into its folder, and let it send to 127.0.0.0/8.
    """
    if with_parent:
        die_with_parent(os.getppid())
    said = True

    def ready(directory: Directory) -> None:
        nonlocal said
        said = _tell_ready(directory, folder, ready_fd=ready_fd, as_json=as_json)

    try:
        if plan_path is not None:
            if hosts is not None or behaviours or tls or seed is not None:
                raise PlanError("plan is given, so hosts, behaviour, tls and seed belong into its file")
            plan = load_plan(plan_path)
        else:
            plan = plan_of_words(
                200 if hosts is None else hosts, _split(behaviours), tls=tls, seed=1 if seed is None else seed
            )
        plan = with_ports(plan, http_port=http_port, tls_port=tls_port)
        settings = FarmSettings(folder=folder, keys_folders=keys_folders, key_files=key_files)
        report = run_farm(
            plan,
            settings,
            ready=ready,
            stop_with_stdin=stop_with_stdin,
        )
    except OjakError as error:
        click.echo(f"ojak farm: {error}", err=True)
        sys.exit(_exit_code(error))
    if not (_say(_summary(report, as_json=as_json)) and said):
        sys.exit(EXIT_FAILURE)


def _exit_code(error: OjakError) -> int:
    if isinstance(error, PortTaken):
        return EXIT_PORT_TAKEN
    return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILURE


def _tell_ready(directory: Directory, folder: Path, *, ready_fd: int | None, as_json: bool) -> bool:
    """Say that everything listens; whether the output could be written."""
    if as_json:
        said = _say(orjson.dumps(directory).decode())
    else:
        said = _say(
            f"farm ready: {len(directory.hosts)} hosts, http port {directory.http_port}, "
            f"tls port {directory.tls_port}, files in {folder}"
        )
    if ready_fd is not None:
        with suppress(OSError):
            os.write(ready_fd, b"ready\n")
            os.close(ready_fd)
    return said


def _summary(report: FarmReport, *, as_json: bool) -> str:
    if as_json:
        return orjson.dumps(report).decode()
    rejected = sum(report.rejected.values())
    return (
        f"arrivals {report.arrivals} · accepted {report.accepted} · unverified {report.unverified} · "
        f"rejected {rejected} · most open at one host {report.peak} · CPU {report.cpu_s:.1f} s"
    )


def _say(text: str) -> bool:
    """Print a line; False, in words, if it cannot be written. Whoever read it may have left: the farm serves on."""
    try:
        click.echo(text)
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            click.echo(f"ojak farm: the output cannot be written: {error.strerror}", err=True)
            return False
    return True
