# SPDX-License-Identifier: Apache-2.0
"""The first child: reads the settings, brings the embedded server up, makes the database ready, and leaves.

It loads what the supervisor must not: the settings library, the database driver, an event loop.
"""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from ojak.errors import ConfigError, OjakError
from ojak.settings import OperatorSettings, unknown_variables
from ojak.store.database import QueueDatabase, connect
from ojak.store.embedded.command import mongod_command, mongod_environment
from ojak.store.embedded.folder import prepare_folder
from ojak.store.embedded.replica import await_primary
from ojak.store.embedded.server import await_leftover
from ojak.store.embedded.wheel import find_mongod
from ojak.store.setup import set_up
from ojak.supervisor.exits import ExitCode, exit_code_of
from ojak.supervisor.flags import parse_argv
from ojak.supervisor.frames import FrameKind, Link, unpack_number
from ojak.supervisor.lines import log_lines, say
from ojak.supervisor.plan import MongodPlan, SupervisorPlan, WorkerPlan

log: Final = logging.getLogger(__name__)

SELECTION_MS: Final = 5000
"""An operator who waits at a terminal hears of a wrong address sooner than a running worker would give up."""


class _SupervisorGone(OjakError):
    """The supervisor went away, or wants no more of this start."""


def run_preflight(argv: list[str], link: Link) -> int:
    """Do everything that comes before the workers; answers the exit code."""
    try:
        settings = parse_argv(argv)
        plan = plan_of(settings)
        _start(settings, plan, link)
    except SystemExit as answered:
        return int(answered.code or 0) if not isinstance(answered.code, str) else int(ExitCode.USAGE)
    except _SupervisorGone:
        return int(ExitCode.FAILURE)
    except OjakError as error:
        say(str(error))
        return int(exit_code_of(error))
    except KeyboardInterrupt:
        return int(ExitCode.FAILURE)
    return int(ExitCode.OK)


def plan_of(settings: OperatorSettings) -> SupervisorPlan:
    """The settings as the values that the supervisor and its workers need.

    Raises:
        ConfigError: What a setting names is not there or of another kind, or the URL's file is empty.
    """
    url = settings.url()
    if settings.keys is not None and settings.keys_collection is not None:
        raise ConfigError("keys and keys_collection are both given; allowed is one of them")
    for name in ("keys", "resolver_map", "extra_ca"):
        path: Path | None = getattr(settings, name)
        if path is None:
            continue
        if not path.exists():
            raise ConfigError(f"{name} is {str(path)!r}, which is not there; allowed is one that exists")
        if name == "keys" and not path.is_dir():
            raise ConfigError(f"keys is {str(path)!r}, which is no folder; allowed is the folder of the senders' keys")
        if name != "keys" and path.is_dir():
            raise ConfigError(f"{name} is {str(path)!r}, which is a folder; allowed is a file")
    return SupervisorPlan(
        data_dir=str(settings.data.absolute()),
        workers=settings.workers,
        worker=WorkerPlan(
            mongo_url=url or "",
            database=settings.database,
            embedded=url is None,
            app=settings.app,
            keys=_absolute(settings.keys),
            keys_collection=settings.keys_collection,
            keys_fields=settings.keys_fields,
            allow_networks=tuple(str(network) for network in settings.allow_networks),
            blocked_domains=settings.blocked_domains,
            resolver_map=_absolute(settings.resolver_map),
            extra_ca=_absolute(settings.extra_ca),
            proxy=settings.proxy.get_secret_value() if settings.proxy is not None else None,
            user_agent=settings.user_agent,
            instance_url=settings.instance_url,
            siblings=settings.workers,
            log_level=settings.log_level,
            log_format=settings.log_format,
            config=settings.deliverer_config(),
        ),
    )


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def _start(settings: OperatorSettings, plan: SupervisorPlan, link: Link) -> None:
    link.set_timeout(None)
    log_lines(settings.log_level, settings.log_format)
    link.send(FrameKind.PLAN, plan.to_bytes())
    answer = link.receive()
    if answer is None or answer.kind is not FrameKind.LOCKED:
        raise _SupervisorGone("the supervisor ends")
    for name in unknown_variables():
        log.warning("variable looks like a setting and is none", extra={"variable": name})
    url = _bring_up_mongod(settings, plan, link) if plan.worker.embedded else plan.worker.mongo_url
    asyncio.run(_make_ready(replace(plan.worker, mongo_url=url)))
    link.send(FrameKind.SET_UP, url.encode())


def _bring_up_mongod(settings: OperatorSettings, plan: SupervisorPlan, link: Link) -> str:
    program = find_mongod(settings.mongod)
    folder = prepare_folder(Path(plan.data_dir))
    await_leftover(folder)
    folder.rotate_log()
    mongod = MongodPlan(
        command=mongod_command(program, folder, cache_gb=settings.mongod_cache_gb),
        environment=mongod_environment(),
        output=str(folder.output),
        log=str(folder.log),
        address=str(folder.address),
        url=folder.url,
    )
    link.send(FrameKind.MONGOD, mongod.to_bytes())

    def ended(timeout_s: float) -> int | None:
        link.set_timeout(timeout_s)
        try:
            frame = link.receive()
        except TimeoutError:
            return None
        if frame is None:
            raise _SupervisorGone("the supervisor ends")
        return unpack_number(frame.payload) if frame.kind is FrameKind.MONGOD_ENDED else None

    await_primary(folder, ended)
    folder.publish()
    return folder.url


async def _make_ready(plan: WorkerPlan) -> None:
    client = connect(plan.mongo_url, serverSelectionTimeoutMS=SELECTION_MS)
    try:
        await set_up(QueueDatabase(client, plan.database))
    finally:
        await client.close()
