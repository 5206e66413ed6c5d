# SPDX-License-Identifier: Apache-2.0
"""What a running farm says of itself."""

from dataclasses import dataclass
from enum import StrEnum


class Counted(StrEnum):
    """A counter that can be waited for."""

    ARRIVALS = "arrivals"
    ACCEPTED = "accepted"
    UNVERIFIED = "unverified"
    CONNECTIONS = "connections"
    OPEN = "open"
    """Requests that are open now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """One host's counters.

    Attributes:
        name, label: as planned.
        behaviour: what it does now.
        arrivals, accepted, unverified: requests so far.
        connections: made so far.
        open: requests that are open now.
        peak: the most that were open at once.
    """

    name: str
    label: str
    behaviour: str
    arrivals: int
    accepted: int
    unverified: int
    connections: int
    open: int
    peak: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmReport:
    """The farm's counters.

    Attributes:
        pid: the farm's process.
        hosts: how many it has.
        arrivals, accepted, unverified: requests so far, over all hosts.
        connections: made so far.
        open_connections: that stand now.
        open: requests that are open now.
        peak: the most that were open at once at one host.
        rejected: requests that reached no inbox, by reason.
        cpu_s: CPU time of the farm's process since its start, user and system.
        uptime_s: since it was ready.
    """

    pid: int
    hosts: int
    arrivals: int
    accepted: int
    unverified: int
    connections: int
    open_connections: int
    open: int
    peak: int
    rejected: dict[str, int]
    cpu_s: float
    uptime_s: float
