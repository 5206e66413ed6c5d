# SPDX-License-Identifier: Apache-2.0
"""Makes a worker's `Deliverer` from its plan and the application's code."""

from ipaddress import ip_network
from pathlib import Path

from ojak.deliverer import Deliverer
from ojak.errors import ConfigError
from ojak.http.outbound import Outbound
from ojak.signing import CachingSenderKeys
from ojak.supervisor.app import AppHooks, load_app
from ojak.supervisor.key_source import key_store
from ojak.supervisor.plan import WorkerPlan
from ojak.worker.board import FlightBoard


async def build_deliverer(plan: WorkerPlan, board: FlightBoard) -> Deliverer:
    """Make the `Deliverer` of a worker, inside its event loop.

    Raises:
        AppError: The application's factory cannot be used.
        ConfigError: Nothing gives the senders' keys, or a setting cannot be used.
    """
    hooks = await load_app(plan.app) if plan.app is not None else AppHooks()
    keys = hooks.keys
    if keys is None:
        store = key_store(
            folder=plan.keys,
            collection=plan.keys_collection,
            fields=plan.keys_fields,
            mongo_url=plan.mongo_url,
            database=plan.database,
        )
        if store is None:
            raise ConfigError(
                "nothing gives the senders' keys: name a folder of PEM files with --keys, a collection with "
                "--keys-collection, or an application whose factory gives keys with --app"
            )
        keys = CachingSenderKeys(store)
    return Deliverer(
        plan.mongo_url,
        keys=keys,
        database=plan.database,
        config=plan.config,
        outbound=Outbound(
            allow_networks=tuple(ip_network(network) for network in plan.allow_networks),
            blocked_domains=plan.blocked_domains,
            resolver_map=_path(plan.resolver_map),
            extra_ca=_path(plan.extra_ca),
            proxy=plan.proxy,
            user_agent=plan.user_agent,
            instance_url=plan.instance_url,
        ),
        on_settled=hooks.on_settled,
        on_failure=hooks.on_failure,
        on_attempt=hooks.on_attempt,
        handlers=hooks.handlers,
        headers=hooks.headers,
        breakers=hooks.breakers or "shared",
        board=board,
        expected=plan.siblings,
    )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
