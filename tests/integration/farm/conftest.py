# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.farm.sender import Sender

from ojak.farm import FarmHandle, FarmPlan, HostPlan, parse_plan, running_farm

WORDS = (
    "accept",
    "slow:300",
    "status:503",
    "gone",
    "redirect:https://elsewhere.example/inbox",
    "rate-limited:2,7",
    "flapping:1,2",
    "silent",
    "reset",
    "reset:connect",
    "reset:answer-head",
    "reset:answer-body",
    "cut:answer-head",
    "cut:answer-body",
    "refuse",
    "black-hole",
    "cavage-only",
    "rfc9421-only",
    "no-scheme",
    "unsigned",
    "close-each",
    "accept+tls",
    "slow:300+tls+own-port",
    "expired",
    "wrong-name",
    "untrusted",
    "drip-head:10",
    "drip-body:10",
    "interim",
    "endless-interim:10",
    "huge-head:3000000",
    "many-fields:5000",
    "huge-body:50000000",
    "bomb",
    "garbage",
)


@pytest.fixture(scope="session")
def sender(tmp_path_factory: pytest.TempPathFactory) -> Sender:
    return Sender(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="session")
def keys_folder(sender: Sender) -> Path:
    return sender.keys.folder


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory, keys_folder: Path) -> Iterator[FarmHandle]:
    """A farm with one host of each sort, found by its word. Tests leave each host as they found it."""
    hosts: list[dict[str, object]] = [{"behaviour": word} for word in WORDS]
    hosts.append(
        {"label": "picky", "only_paths": ["/users/ALLCAPS/inbox"], "content_types": ["application/activity+json"]}
    )
    with running_farm(
        parse_plan({"hosts": hosts}), folder=tmp_path_factory.mktemp("zoo"), keys_folders=[keys_folder]
    ) as farm:
        yield farm


def plan_of(*hosts: HostPlan, keep_alive_s: float = 75) -> FarmPlan:
    return FarmPlan(hosts=hosts, keep_alive_s=keep_alive_s)
