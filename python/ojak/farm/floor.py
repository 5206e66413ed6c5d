# SPDX-License-Identifier: Apache-2.0
"""What all connections of a farm share: its hosts, its ledger, its counters."""

from asyncio import get_running_loop
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from ojak.farm.host import Host
from ojak.farm.inspector import Inspector
from ojak.farm.ledger_book import LedgerBook

if TYPE_CHECKING:
    from ojak.farm.connection import Connection

_TELL_AFTER_S = 0.005


class Floor:
    """The farm's hosts and what is written down about them.

    Attributes:
        hosts: by name.
        by_address: by loopback address.
        by_authority: by what a Host field may say, port included where it is not the scheme's own.
        rejected: requests that reached no inbox, by reason.
        connections: those that are open.
        watchers: called whenever a counter moved, while somebody waits for that.
    """

    __slots__ = (
        "_connection",
        "_telling",
        "book",
        "by_address",
        "by_authority",
        "connections",
        "connections_max",
        "hosts",
        "inspector",
        "rejected",
        "watchers",
    )

    def __init__(self, *, hosts: dict[str, Host], inspector: Inspector, book: LedgerBook, connections_max: int) -> None:
        self.hosts = hosts
        self.by_address = {host.plan.address: host for host in hosts.values()}
        self.by_authority: dict[str, Host] = {}
        self.inspector = inspector
        self.book = book
        self.rejected: Counter[str] = Counter()
        self.connections: set[Connection] = set()
        self.connections_max = connections_max
        self.watchers: set[Callable[[], None]] = set()
        self._connection = 0
        self._telling = False

    def next_connection(self) -> int:
        """A number for a new connection."""
        self._connection += 1
        return self._connection

    def admit(self, host: Host, port: int, *, tls: bool) -> None:
        """Let a host be found by the Host fields that name it at `port`."""
        suffix = "" if port == (443 if tls else 80) else f":{port}"
        self.by_authority[host.plan.name + suffix] = host
        self.by_authority[host.plan.address + suffix] = host

    def moved(self) -> None:
        """A counter moved: tell who waits, soon and not for each request."""
        if not self._telling:
            self._telling = True
            get_running_loop().call_later(_TELL_AFTER_S, self._tell)

    def _tell(self) -> None:
        self._telling = False
        for watcher in tuple(self.watchers):
            watcher()

    def close_connections(self) -> None:
        """Close all, at the end."""
        for connection in tuple(self.connections):
            connection.expire()

    def sweep(self, idle_rounds: int, busy_rounds: int) -> None:
        """Close what has been idle, or busy, for too many rounds."""
        for connection in tuple(self.connections):
            connection.rounds += 1
            if connection.rounds > (busy_rounds if connection.busy else idle_rounds):
                connection.expire()
