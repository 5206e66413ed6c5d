# SPDX-License-Identifier: Apache-2.0
"""The farm's folder: what a sender reads there to find the farm and trust it."""

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import orjson

from ojak.farm.errors import FarmError

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a farm's files are.

    Attributes:
        folder: the one given to `--dir`.
    """

    folder: Path

    @property
    def resolver(self) -> Path:
        """The resolver map: a JSON object of addresses by name."""
        return self.folder / "resolver.json"

    @property
    def authority(self) -> Path:
        """The certificate authority's certificate, PEM."""
        return self.folder / "ca.pem"

    @property
    def directory(self) -> Path:
        """The list of hosts with ports and the farm's pid, written last: once it is there, the farm is ready."""
        return self.folder / "farm.json"

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.folder / "ledger.jsonl"

    @property
    def control(self) -> Path:
        """The control socket."""
        return self.folder / "control.sock"

    def prepare(self) -> None:
        """Make the folder, for its user alone, and take away what an earlier farm left in it.

        Raises:
            FarmError: it cannot be made or written.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in (self.directory, self.control):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise FarmError(f"folder {self.folder} cannot be used: {error.strerror}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmHost:
    """A host as senders see it.

    Attributes:
        name, address, label: as planned.
        origin: scheme and authority of its inboxes.
        living: whether it accepts in the end.
    """

    name: str
    address: str
    label: str
    origin: str
    living: bool

    def inbox(self, path: str = "/inbox") -> str:
        """The URL of an inbox; every path is one, unless the plan says otherwise."""
        return self.origin + path


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """What `farm.json` holds.

    Attributes:
        pid: the farm's process.
        http_port, tls_port: the shared listeners.
        own_port, own_tls_port: of the hosts that listen for themselves; 0: there are none.
        hosts: all of them, as planned.
    """

    pid: int
    http_port: int
    tls_port: int
    own_port: int
    own_tls_port: int
    hosts: tuple[FarmHost, ...]

    def write(self, site: Site) -> None:
        """Write it whole or not at all."""
        write_json(site.directory, {"version": _VERSION} | asdict(self))

    @classmethod
    def read(cls, site: Site) -> Self:
        """Read it.

        Raises:
            FarmError: there is none, or it is of another version.
        """
        try:
            value = orjson.loads(site.directory.read_bytes())
        except (OSError, orjson.JSONDecodeError) as error:
            raise FarmError(f"folder {site.folder} holds no farm that is ready: {error}") from error
        if value.pop("version", None) != _VERSION:
            raise FarmError(f"file {site.directory} was written by another version of the farm")
        hosts = tuple(FarmHost(**host) for host in value.pop("hosts"))
        return cls(hosts=hosts, **value)


def write_resolver(site: Site, hosts: Iterable[FarmHost]) -> None:
    """Write the resolver map."""
    write_json(site.resolver, {host.name: host.address for host in hosts})


def write_json(path: Path, value: object) -> None:
    """Write a file in one step, so that nobody reads half of it."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    draft.replace(path)
