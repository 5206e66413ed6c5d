# SPDX-License-Identifier: Apache-2.0
"""`--app module:factory`: the application's code in a worker (SPEC section 1)."""

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ojak.breaker.store import BreakerStore
from ojak.errors import ConfigError
from ojak.model.handler import Handler, check_handlers
from ojak.model.outcome import DeliveryAttempt, DeliveryFailure, Settled
from ojak.signing import SenderKeys
from ojak.supervisor.exits import AppError
from ojak.worker.headers import HeadersFor


@dataclass(frozen=True, slots=True, kw_only=True)
class AppHooks:
    """What an application gives to a worker; a factory returns one, or any object or mapping with these names.

    Attributes:
        keys: Its `SenderKeys`.
        on_settled: Called with each `Settled`.
        on_failure: Called with each `DeliveryFailure`.
        on_attempt: Called with each `DeliveryAttempt`.
        handlers: What runs its own kinds of job: a list of `Handler`, one a kind.
        headers: Asked for further headers of each attempt, as an `Outgoing`.
        breakers: Its own `BreakerStore`; without one, breakers are kept in the queue's database.
    """

    keys: SenderKeys | None = None
    on_settled: Callable[[Settled], Awaitable[None] | None] | None = None
    on_failure: Callable[[DeliveryFailure], Awaitable[None] | None] | None = None
    on_attempt: Callable[[DeliveryAttempt], Awaitable[None] | None] | None = None
    handlers: Sequence[Handler] = ()
    headers: HeadersFor | None = None
    breakers: BreakerStore | None = None


async def load_app(path: str) -> AppHooks:
    """Import `module:factory`, call it (it may be async), and take what it gives.

    Raises:
        AppError: The module or factory is missing or raises, or what it gives cannot be used.
    """
    module, _, name = path.partition(":")
    if os.getcwd() not in sys.path:  # noqa: PTH109 - sys.path holds strings
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        factory: Any = importlib.import_module(module)
        for part in name.split("."):
            factory = getattr(factory, part)
        made = factory()
        if inspect.isawaitable(made):
            made = await made
    except (Exception, SystemExit) as error:
        raise AppError(f"app {path!r} cannot be made: {_one_line(error)}") from error
    return _hooks(path, made)


def _hooks(path: str, made: Any) -> AppHooks:
    if isinstance(made, AppHooks):
        return made
    names = [field.name for field in fields(AppHooks)]
    if isinstance(made, Mapping):
        unknown = sorted(str(key) for key in made if key not in names)
        if unknown:
            raise AppError(f"app {path!r} gives {unknown[0]!r}; allowed is {', '.join(names)}")
        found: dict[str, Any] = {name: made.get(name) for name in names}
    else:
        found = {name: getattr(made, name, None) for name in names}
    if all(value is None for value in found.values()):
        raise AppError(f"app {path!r} gives {type(made).__name__!r}; allowed is an object with {', '.join(names)}")
    for name in ("on_settled", "on_failure", "on_attempt", "headers"):
        if found[name] is not None and not callable(found[name]):
            raise AppError(f"app {path!r} gives {name} as {type(found[name]).__name__!r}; allowed is a function")
    if found["keys"] is not None and not callable(getattr(found["keys"], "keys_of", None)):
        raise AppError(f"app {path!r} gives keys without keys_of; allowed is a SenderKeys")
    try:
        found["handlers"] = check_handlers(found["handlers"] or ())
    except ConfigError as error:
        raise AppError(f"app {path!r}: {error}") from None
    if found["breakers"] is not None and not callable(getattr(found["breakers"], "admit", None)):
        raise AppError(f"app {path!r} gives breakers without admit; allowed is a BreakerStore")
    return AppHooks(**found)


def _one_line(error: BaseException) -> str:
    """Type, message and the application's line that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = next(
        (f" ({frame.filename}:{frame.lineno})" for frame in reversed(frames) if not frame.filename.startswith("<")), ""
    )
    # A syntax error's own place says more than the import that met it.
    if isinstance(error, SyntaxError) and error.filename:
        where = f" ({error.filename}:{error.lineno})"
        return f"{type(error).__name__}: {error.msg}{where}"
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"
