# SPDX-License-Identifier: Apache-2.0
"""A farm as a child process, for tests, the bench and the demo."""

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from ojak.farm.client import AsyncFarmClient, FarmClient
from ojak.farm.errors import FarmError, FarmGone
from ojak.farm.ledger import Ledger
from ojak.farm.plan import FarmPlan
from ojak.farm.report import FarmReport
from ojak.farm.site import Directory, FarmHost, Site

START_S = 30.0
STOP_S = 10.0


class FarmHandle:
    """A farm that runs, or ran.

    Attributes:
        site: where its files are.
        pid: its process.
        http_port, tls_port: the shared listeners.
        hosts: all its hosts, as planned.
        client, async_client: to speak to it.
    """

    def __init__(self, site: Site, process: subprocess.Popen[bytes]) -> None:
        self.site = site
        directory = Directory.read(site)
        self.pid = directory.pid
        self.http_port = directory.http_port
        self.tls_port = directory.tls_port
        self.hosts: tuple[FarmHost, ...] = directory.hosts
        self.client = FarmClient(site.control)
        self.async_client = AsyncFarmClient(site.control)
        self._process = process
        self._by_name = {host.name: host for host in directory.hosts}

    @property
    def resolver_path(self) -> Path:
        """The resolver map, for senders."""
        return self.site.resolver

    @property
    def ca_path(self) -> Path:
        """The certificate authority, for senders."""
        return self.site.authority

    def host(self, name: str) -> FarmHost:
        """The host of that name."""
        return self._by_name[name]

    def labelled(self, label: str | None = None) -> tuple[FarmHost, ...]:
        """The hosts with that label, in the plan's order; None: all."""
        return tuple(host for host in self.hosts if label is None or host.label == label)

    def inboxes(self, label: str | None = None, path: str = "/inbox") -> tuple[str, ...]:
        """An inbox URL of each host with that label."""
        return tuple(host.inbox(path) for host in self.labelled(label))

    def report(self) -> FarmReport:
        """The farm's counters, CPU time among them."""
        return self.client.report()

    def ledger(self, *, after: int = 0) -> Ledger:
        """Everything that arrived up to now, or after the arrival numbered `after`; also of a farm that is dead."""
        if self._process.poll() is None:
            # a farm that is dying has written what it will write
            try:
                self.client.flush()
            except FarmGone:
                self._process.wait(STOP_S)
        return Ledger.load(self.site.ledger, after=after)

    def stop(self) -> None:
        """Have it stop, and wait for that. Its ledger can still be read."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it without a chance to say anything."""
        self._process.kill()
        self._process.wait()


@contextmanager
def running_farm(
    plan: FarmPlan,
    *,
    folder: Path,
    keys_folders: Sequence[Path] = (),
    key_files: Sequence[Path] = (),
    start_s: float = START_S,
) -> Iterator[FarmHandle]:
    """Run a farm as a child process until the block ends, and yield its handle once it is ready.

    It ends with this process too, however that ends: its standard input is a pipe from here.

    Args:
        plan: what it is to be.
        folder: for its files; the ledger stays there.
        keys_folders: of the senders' PEM files.
        key_files: JSON files of PEMs by key id.
        start_s: how long it may take to be ready.

    Raises:
        PlanError: the plan is not usable.
        FarmError: it did not start; its own words.
    """
    site = Site(folder=folder.absolute())
    site.prepare()
    plan_path = site.folder / "plan.json"
    plan_path.write_bytes(plan.to_json())
    command = [sys.executable, "-m", "ojak.farm", "--dir", str(site.folder), "--plan", str(plan_path)]
    for path in keys_folders:
        command += ["--keys", str(path)]
    for path in key_files:
        command += ["--key-file", str(path)]
    ready_end, child_end = os.pipe()
    with TemporaryFile() as said:
        try:
            process = subprocess.Popen(  # noqa: S603  # our own module, by our own interpreter
                [*command, "--stop-with-stdin", "--ready-fd", str(child_end)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                pass_fds=(child_end,),
            )
        except BaseException:
            os.close(ready_end)
            raise
        finally:
            os.close(child_end)
        try:
            _await_ready(ready_end, process, said, start_s)
            handle = FarmHandle(site, process)
            try:
                yield handle
            finally:
                handle.stop()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdin is not None and not process.stdin.closed:
                process.stdin.close()


def _await_ready(ready_end: int, process: "subprocess.Popen[bytes]", said: IO[bytes], start_s: float) -> None:
    deadline_s = time.monotonic() + start_s
    with selectors.DefaultSelector() as selector, os.fdopen(ready_end, "rb", buffering=0) as ready:
        selector.register(ready, selectors.EVENT_READ)
        if not selector.select(max(0.0, deadline_s - time.monotonic())):
            raise FarmError(f"the farm was not ready within {start_s} s")
        if ready.read(16):
            return
    # the pipe ended unsaid: the child is dead or dying
    process.wait(STOP_S)
    said.seek(0)
    words = said.read(4096).decode(errors="replace").strip()
    raise FarmError(words.removeprefix("ojak farm: ") or f"the farm ended with exit code {process.returncode}")
