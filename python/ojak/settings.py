# SPDX-License-Identifier: Apache-2.0
"""An operator's settings: flags over `OJAK_*` over `ojak.toml` over defaults.

Only preflight and the command line load this module: the library beneath it is larger than the whole supervisor.
"""

import ast
import inspect
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, create_model
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from ojak.config import DelivererConfig
from ojak.errors import ConfigError
from ojak.model.domains import BlockedDomains
from ojak.model.key_fields import KeyFields

CONFIG_FILE: Final = "ojak.toml"
PREFIX: Final = "OJAK_"
WORKERS_MAX: Final = 256
WORKERS_CONCURRENCY_MAX: Final = 256
_SHOWN_MAX: Final = 200
SECRET: Final = frozenset({"mongo_url", "proxy"})
"""Settings whose values are never shown."""
_OR_NONE: Final = "or leave it out for the embedded server"
_DOTTED: Final = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"


def _listed(value: object) -> object:
    """A comma between two values is what a flag and a variable have for a list."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _networks(value: object) -> object:
    listed = _listed(value)
    return tuple(ip_network(str(part)) for part in listed) if isinstance(listed, list | tuple) else listed


def _domains(value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        BlockedDomains(value)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return value


def _key_fields(value: object) -> object:
    listed = _listed(value)
    if isinstance(listed, list | tuple) and all(isinstance(word, str) for word in listed):
        try:
            KeyFields.of_words(listed)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return tuple(listed)
    return listed


def _filled(value: object) -> object:
    """An empty text is most often a variable that somebody forgot to fill, and not the wish for another database."""
    if isinstance(value, str) and not value.strip():
        raise PydanticCustomError("empty", "empty")
    return value


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _allowed(text: str, **rules: Any) -> Any:
    """A field with the words that an error says what is allowed with."""
    return Field(json_schema_extra={"allowed": text}, **rules)


class OperatorSettings(BaseSettings):
    """What an operator sets beside how the delivery loop behaves."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    data: Annotated[Path, _allowed("a folder's path")] = Path("ojak-data")
    """The data folder: the embedded MongoDB, and where the supervisor says what runs."""
    mongo_url: Annotated[
        SecretStr | None,
        BeforeValidator(_filled),
        _allowed("a MongoDB URL such as mongodb://host:27017"),
    ] = None
    """The MongoDB to keep the queue in; without one, an embedded server runs in the data folder."""
    mongo_url_file: Annotated[Path | None, BeforeValidator(_filled), _allowed("a file's path")] = None
    """A file that holds the MongoDB URL, so that its password is in no process list and no environment."""
    database: Annotated[str, _allowed("1 to 63 of A-Z a-z 0-9 _ -", pattern=r"^[A-Za-z0-9_-]{1,63}$")] = "ojak"
    """The database of the queue."""
    workers: Annotated[int, _allowed(f"a whole number from 1 to {WORKERS_MAX}", ge=1, le=WORKERS_MAX)] = Field(
        default_factory=_cores
    )
    """How many worker processes; one a core unless set."""
    app: Annotated[str | None, _allowed("module:factory", pattern=rf"^{_DOTTED}:{_DOTTED}$")] = None
    """The application's factory, module:factory: its sender keys, callbacks, handlers and headers."""
    keys: Annotated[Path | None, _allowed("a folder's path")] = None
    """A folder with the senders' keys as PEM files, where no application gives them."""
    keys_collection: Annotated[
        str | None,
        _allowed(
            "collection, or database.collection",
            pattern=r"^([A-Za-z0-9_-]{1,63}\.)?[A-Za-z_][A-Za-z0-9_-]{0,119}$",
        ),
    ] = None
    """A MongoDB collection with the senders' keys instead of a folder, of the queue's database unless it names one."""
    keys_fields: Annotated[
        tuple[str, ...],
        NoDecode,
        BeforeValidator(_key_fields),
        _allowed("name=field, of sender, rsa, ed25519, rsa_id, ed25519_id and retired, separated by commas"),
    ] = ()
    """Where in that collection's rows the keys are, as in sender=id,rsa=keys.rsa; else in fields of these names."""
    allow_networks: Annotated[
        tuple[IPv4Network | IPv6Network, ...],
        NoDecode,
        BeforeValidator(_networks),
        _allowed("networks such as 10.0.0.0/8, separated by commas"),
    ] = ()
    """Private networks that may be delivered to all the same."""
    blocked_domains: Annotated[
        tuple[str, ...],
        NoDecode,
        BeforeValidator(_listed),
        AfterValidator(_domains),
        _allowed("domains such as example.org, separated by commas"),
    ] = ()
    """Domains that nothing is delivered to, with everything below them."""
    resolver_map: Annotated[Path | None, _allowed("a JSON file's path")] = None
    """A JSON file of host names with the addresses to use for them."""
    extra_ca: Annotated[Path | None, _allowed("a PEM file's path")] = None
    """A PEM file with further certificate authorities to trust."""
    proxy: Annotated[SecretStr | None, _allowed("an http URL such as http://proxy:3128")] = None
    """The HTTP proxy that everything goes out through."""
    user_agent: Annotated[str | None, _allowed("1 to 500 printable ASCII characters", pattern=r"^[ -~]{1,500}$")] = None
    """The User-Agent, in full."""
    instance_url: Annotated[str | None, _allowed("an http or https URL", pattern=r"^https?://[!-~]{1,500}$")] = None
    """The instance's own URL, named in the default User-Agent."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], _allowed("debug, info, warning or error")] = (
        "info"
    )
    """From which level on events are logged."""
    log_format: Annotated[Literal["text", "json"], _allowed("text or json")] = Field(
        default_factory=lambda: "text" if sys.stderr.isatty() else "json"
    )
    """The form of log lines; text on a terminal and JSON elsewhere unless set."""
    mongod: Annotated[Path | None, _allowed("a program's path")] = None
    """A mongod to run instead of the one of the `mongod` extra."""
    mongod_cache_gb: Annotated[float, _allowed("0.25 to 1024 GB", ge=0.25, le=1024)] = 0.25
    """The cache of the embedded MongoDB, in GB."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, environment, file; nothing is read from places that nobody named."""
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    def deliverer_config(self) -> DelivererConfig:
        """How the delivery loop of a worker behaves.

        Raises:
            ConfigError: A value is out of its range.
        """
        return DelivererConfig(**{name: getattr(self, name) for name in DelivererConfig.field_names()})

    def url(self) -> str | None:
        """The URL of the operator's own MongoDB, never empty, or None where the embedded server is to be used.

        Raises:
            ConfigError: The file that is to hold it cannot be read or is empty, or both are given.
        """
        if self.mongo_url_file is None:
            return self.mongo_url.get_secret_value() if self.mongo_url is not None else None
        if self.mongo_url is not None:
            raise ConfigError("mongo_url and mongo_url_file are both given; allowed is one of them")
        try:
            url = self.mongo_url_file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"mongo_url_file is {str(self.mongo_url_file)!r}; allowed is a readable file ({error})"
            ) from error
        if not url:
            raise ConfigError(
                f"mongo_url_file is {str(self.mongo_url_file)!r}, which is empty;"
                f" allowed is a file that holds a MongoDB URL, {_OR_NONE}"
            )
        return url


def _delivery_fields() -> Iterator[tuple[str, Any]]:
    texts = dict(_field_texts(DelivererConfig))
    for field in fields(DelivererConfig):
        default = WORKERS_CONCURRENCY_MAX if field.name == "concurrency_max" else field.default
        assert default is not MISSING
        kind: Any = field.type
        words = {int: "a whole number", float: "a number"}.get(kind, "text")
        if isinstance(default, frozenset):
            kind, words = Annotated[kind, NoDecode, BeforeValidator(_listed)], "whole numbers, separated by commas"
        yield field.name, (Annotated[kind, _allowed(words, description=texts.get(field.name))], default)


def _field_texts(described: type) -> Iterator[tuple[str, str]]:
    """The strings that stand below a class's fields."""
    body = ast.parse(inspect.getsource(described)).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, text in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            yield field.target.id, inspect.cleandoc(str(text.value.value)).replace("\n", " ")


@cache
def settings_class() -> type[OperatorSettings]:
    """The settings with one more for each field of `DelivererConfig`."""
    return create_model("Settings", __base__=OperatorSettings, **dict(_delivery_fields()))


def load_settings(flags: Mapping[str, str], *, config: Path | None = None) -> OperatorSettings:
    """Read the settings.

    Args:
        flags: What the command line gave, by field name.
        config: The file to read; `ojak.toml` in the working folder, if there is one, unless named.

    Raises:
        ConfigError: One line for each setting that is not usable, with where it came from, its value, and what is
            allowed.
    """
    named = config or (Path(os.environ[f"{PREFIX}CONFIG"]) if os.environ.get(f"{PREFIX}CONFIG") else None)
    file = named or Path(CONFIG_FILE)
    if named is not None and not named.is_file():
        raise ConfigError(f"configuration file {str(named)!r} is not there; allowed is a readable TOML file")
    base = settings_class()
    loaded = type("Loaded", (base,), {"model_config": SettingsConfigDict(toml_file=file), "__module__": __name__})
    try:
        settings: OperatorSettings = loaded(**flags)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(base, detail, flags, file) for detail in error.errors())) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"configuration file {str(file)!r} is no TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration file {str(file)!r} cannot be read: {error}") from error
    try:
        settings.deliverer_config()
    except ConfigError as error:
        name, _, rest = str(error).partition(" ")
        raise ConfigError(f"{_origin(name, flags, file)} {rest}") from None
    return settings


def origins(flags: Mapping[str, str], *, config: Path | None = None) -> dict[str, str]:
    """Where the value of each setting comes from: its flag, its variable, the file, or `default`.

    Args:
        flags: As for `load_settings`, which accepts them.
        config: Likewise.
    """
    file = config or Path(os.environ.get(f"{PREFIX}CONFIG") or CONFIG_FILE)
    in_file = tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}
    found: dict[str, str] = {}
    for name in settings_class().model_fields:
        if name in flags or PREFIX + name.upper() in os.environ:
            found[name] = _origin(name, flags, file)
        else:
            found[name] = str(file) if name in in_file else "default"
    return found


def unknown_variables() -> list[str]:
    """Variables that look like settings and are none, such as a misspelt one."""
    known = {PREFIX + name.upper() for name in settings_class().model_fields} | {f"{PREFIX}CONFIG"}
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name.upper() not in known)


def _explain(base: type[OperatorSettings], detail: Any, flags: Mapping[str, str], file: Path) -> str:
    name = str(detail["loc"][0]) if detail["loc"] else "settings"
    origin = _origin(name, flags, file)
    if detail["type"] == "extra_forbidden":
        return f"{origin} is not a setting; `ojak supervisor --help` lists them"
    field = base.model_fields.get(name)
    extra = field.json_schema_extra if field is not None else None
    allowed = extra.get("allowed") if isinstance(extra, dict) else detail["msg"]
    if detail["type"] == "empty":
        return f"{origin} is empty; allowed is {allowed}, {_OR_NONE}"
    value = "not shown" if name in SECRET else repr(_given(name, flags, detail))[:_SHOWN_MAX]
    return f"{origin} is {value}; allowed is {allowed}"


def _given(name: str, flags: Mapping[str, str], detail: Any) -> object:
    return flags.get(name, os.environ.get(PREFIX + name.upper(), detail.get("input")))


def _origin(name: str, flags: Mapping[str, str], file: Path) -> str:
    if name in flags:
        return flag_of(name)
    if PREFIX + name.upper() in os.environ:
        return PREFIX + name.upper()
    return f"{name} in {file}" if file.is_file() else name


def flag_of(name: str) -> str:
    """The flag of a setting."""
    return "--" + name.replace("_", "-")
