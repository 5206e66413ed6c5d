# SPDX-License-Identifier: Apache-2.0
"""Plans from a JSON file, and from the command line's words."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from ojak.farm.address import MAX_HOSTS, host_name
from ojak.farm.errors import PlanError
from ojak.farm.plan import FarmPlan, HostPlan, check_plan
from ojak.farm.preset import apply_preset, preset_behaviour

DOMAIN = "farm.test"
_MAX_BYTES = 64 << 20


def load_plan(path: Path) -> FarmPlan:
    """Read a plan file; `docs/farm.md` tells its form.

    Raises:
        PlanError: it cannot be read, is not JSON, or a field is not usable.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise PlanError(f"plan file {path} is larger than {_MAX_BYTES} bytes")
        value = orjson.loads(path.read_bytes())
    except OSError as error:
        raise PlanError(f"plan file {path} cannot be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise PlanError(f"plan file {path} is not JSON: {error}") from error
    return parse_plan(value)


def parse_plan(value: object) -> FarmPlan:
    """A plan from the value of a plan file.

    Raises:
        PlanError: names the field, its value and what is allowed.
    """
    if not isinstance(value, dict) or not isinstance(value.get("hosts"), list):
        raise PlanError("the plan is no JSON object with a list of hosts")
    fields = dict(value)
    domain = fields.pop("domain", DOMAIN)
    if not isinstance(domain, str):
        raise PlanError(f"domain is {domain!r}, but a string is wanted")
    hosts: list[object] = []
    for index, entry in enumerate(fields["hosts"]):
        hosts.extend(_expand(entry, f"hosts[{index}]", domain, len(hosts)))
        if len(hosts) > MAX_HOSTS:
            raise PlanError(f"hosts[{index}] makes more than {MAX_HOSTS} hosts")
    fields["hosts"] = hosts
    return check_plan(fields)


def _expand(entry: object, field: str, domain: str, before: int) -> Iterator[dict[str, Any]]:
    """One host a dict: an entry may stand for `count` of them and name what they do by a preset."""
    if not isinstance(entry, dict):
        raise PlanError(f"{field} is {str(entry)[:80]!r}, but an object is wanted")
    own = dict(entry)
    count = own.pop("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_HOSTS:
        raise PlanError(f"{field}.count is {count!r}, but a whole number from 1 to {MAX_HOSTS} is wanted")
    if count > 1 and ("name" in own or "address" in own):
        raise PlanError(f"{field} has a count and a name or an address; only one host can have it")
    base: dict[str, Any] = {}
    if "behaviour" in own:
        text = own.pop("behaviour")
        if not isinstance(text, str):
            raise PlanError(
                f"{field}.behaviour is {str(text)[:80]!r}, but a word is wanted; an object goes into script"
            )
        base = _changed(apply_preset(HostPlan(name="blank"), text, f"{field}.behaviour"))
        base["label"] = text
    if isinstance(own.get("script"), list):
        own["script"] = [_phase(phase, f"{field}.script[{index}]") for index, phase in enumerate(own["script"])]
    for number in range(before + 1, before + 1 + count):
        yield {"name": host_name(number, domain)} | base | own


def _phase(phase: object, field: str) -> object:
    if isinstance(phase, dict) and isinstance(phase.get("behaviour"), str):
        return phase | {"behaviour": preset_behaviour(phase["behaviour"], f"{field}.behaviour")}
    return phase


def _changed(host: HostPlan) -> dict[str, Any]:
    """What a preset changed: only that must win over an entry's own fields' defaults."""
    blank = asdict(HostPlan(name="blank"))
    return {name: value for name, value in asdict(host).items() if value != blank[name]}


def plan_of_words(hosts: int, behaviours: Iterable[tuple[str, int]], *, tls: bool = False, seed: int = 1) -> FarmPlan:
    """A plan of `hosts` hosts: so many of each behaviour, in that order, and the rest accept.

    Raises:
        PlanError: an unknown behaviour, or more of them than hosts.
    """
    entries: list[dict[str, object]] = [{"behaviour": text, "count": count} for text, count in behaviours if count]
    named = sum(count for _, count in behaviours)
    if named > hosts:
        raise PlanError(f"behaviours name {named} hosts, but hosts is {hosts}; give more hosts")
    if hosts > named:
        entries.append({"behaviour": "accept", "count": hosts - named})
    if tls:
        entries = [entry | {"tls": True} for entry in entries]
    return parse_plan({"hosts": entries, "seed": seed})
