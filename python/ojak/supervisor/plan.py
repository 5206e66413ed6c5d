# SPDX-License-Identifier: Apache-2.0
"""What preflight hands to the supervisor: plain frozen values, read from the settings once, so that no other process
loads the settings library. Imports the standard library and pure modules alone.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from ojak.config import DelivererConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """What a worker is to do.

    Attributes:
        mongo_url: Where the queue is. Never logged: it may hold a password.
        database: The database's name.
        embedded: Whether it is the supervisor's own server, which dies with it.
        app: `module:factory` of the application's code, or nothing.
        keys: The folder of senders' keys, or nothing.
        keys_collection: The collection of senders' keys, or nothing.
        keys_fields: Where in its rows they are.
        allow_networks: Networks that may be dialled though they are private.
        blocked_domains: Domains that nothing is sent to.
        resolver_map: A JSON file of names and their addresses, or nothing.
        extra_ca: A PEM file of further certificate authorities, or nothing.
        proxy: The proxy that every request goes through, or nothing. Never logged: it may hold a password.
        user_agent: The User-Agent in full, or nothing for the default one.
        instance_url: The instance's URL, which the default User-Agent names.
        siblings: How many workers start together, itself included.
        log_level: `debug`, `info`, `warning` or `error`.
        log_format: `text` or `json`.
        config: How the delivery loop behaves.
    """

    mongo_url: str = field(repr=False)
    database: str
    embedded: bool
    app: str | None
    keys: str | None
    keys_collection: str | None = None
    keys_fields: tuple[str, ...] = ()
    allow_networks: tuple[str, ...]
    blocked_domains: tuple[str, ...] = ()
    resolver_map: str | None
    extra_ca: str | None
    proxy: str | None = field(repr=False)
    user_agent: str | None
    instance_url: str | None
    siblings: int
    log_level: str
    log_format: str
    config: DelivererConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorPlan:
    """What the supervisor is to run.

    Attributes:
        data_dir: The data folder, absolute.
        workers: How many workers.
        worker: What each does. With the embedded server its `mongo_url` is empty until that answers.
    """

    data_dir: str
    workers: int
    worker: WorkerPlan

    def to_bytes(self) -> bytes:
        """As it travels."""
        return json.dumps(asdict(self), default=sorted).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Self:
        """As it arrived."""
        data: dict[str, Any] = json.loads(payload)
        worker: dict[str, Any] = data.pop("worker")
        config: dict[str, Any] = worker.pop("config")
        for name in ("retry_statuses", "final_statuses"):
            config[name] = frozenset(config[name])
        for name in ("allow_networks", "blocked_domains", "keys_fields"):
            worker[name] = tuple(worker[name])
        return cls(worker=WorkerPlan(config=DelivererConfig(**config), **worker), **data)


@dataclass(frozen=True, slots=True, kw_only=True)
class MongodPlan:
    """How the embedded server is run.

    Attributes:
        command: Its command line.
        environment: Its whole environment.
        output: The file that its standard streams go to.
        log: Its own log.
        address: The file that says where it answers; removed once it has stopped.
        url: Where it answers.
    """

    command: list[str]
    environment: dict[str, str]
    output: str
    log: str
    address: str
    url: str

    def to_bytes(self) -> bytes:
        """As it travels."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Self:
        """As it arrived."""
        return cls(**json.loads(payload))
