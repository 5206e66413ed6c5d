# SPDX-License-Identifier: Apache-2.0
"""The mock inbox farm: many hosts on loopback, scripted faults, every signature verified, a ledger of what arrived."""

from ojak.farm.arrival import Arrival, Ending
from ojak.farm.audit import (
    Delivery,
    OverLimit,
    Verdict,
    accepted_counts,
    arrival_counts,
    doubles,
    judge,
    lost,
    order_by_host,
    over_limit,
    peaks,
    unverified,
)
from ojak.farm.client import AsyncFarmClient, FarmClient
from ojak.farm.errors import FarmError, FarmGone, PlanError, PortTaken
from ojak.farm.handle import FarmHandle, running_farm
from ojak.farm.ledger import Ledger
from ojak.farm.order import EVERY
from ojak.farm.plan import FarmPlan, HostPlan, Phase
from ojak.farm.plan_file import load_plan, parse_plan, plan_of_words
from ojak.farm.report import Counted, FarmReport, HostReport
from ojak.farm.site import Directory, FarmHost, Site

__all__ = [
    "EVERY",
    "Arrival",
    "AsyncFarmClient",
    "Counted",
    "Delivery",
    "Directory",
    "Ending",
    "FarmClient",
    "FarmError",
    "FarmGone",
    "FarmHandle",
    "FarmHost",
    "FarmPlan",
    "FarmReport",
    "HostPlan",
    "HostReport",
    "Ledger",
    "OverLimit",
    "Phase",
    "PlanError",
    "PortTaken",
    "Site",
    "Verdict",
    "accepted_counts",
    "arrival_counts",
    "doubles",
    "judge",
    "load_plan",
    "lost",
    "order_by_host",
    "over_limit",
    "parse_plan",
    "peaks",
    "plan_of_words",
    "running_farm",
    "unverified",
]
