# SPDX-License-Identifier: Apache-2.0
"""A resolver map: an operator's, or a test's, own addresses for some host names."""

import contextlib
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Final

import orjson

from ojak.errors import ConfigError
from ojak.model.inbox import InvalidInbox, canonical_inbox

ResolverMap = Mapping[str, tuple[str, ...]]
"""Addresses by canonical host name."""

NO_MAP: Final[ResolverMap] = MappingProxyType({})
_MAX_FILE_BYTES: Final = 64 << 20


def load_resolver_map(path: str | Path) -> ResolverMap:
    """Read a resolver map from a JSON file: an object of host names, each with an address or a list of them.

    Raises ConfigError, naming the file, the host and what is allowed, if it cannot be used.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"resolver map {str(path)!r} cannot be read: {error.strerror}") from error
    if len(text) > _MAX_FILE_BYTES:
        raise ConfigError(f"resolver map {str(path)!r} is too long; allowed are {_MAX_FILE_BYTES} bytes")
    try:
        entries = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"resolver map {str(path)!r} is no JSON: {error}") from error
    if not isinstance(entries, dict):
        raise ConfigError(f"resolver map {str(path)!r} holds no JSON object; allowed is {{host: address}}")
    return MappingProxyType({_host(path, name): _addresses(path, name, given) for name, given in entries.items()})


def _host(path: str | Path, name: str) -> str:
    try:
        inbox = canonical_inbox(f"http://{name}/")
    except InvalidInbox as error:
        raise ConfigError(f"resolver map {str(path)!r} has host {name!r}; allowed: {error.allowed}") from error
    if ":" in name or inbox.target != "/":
        raise ConfigError(f"resolver map {str(path)!r} has host {name!r}; allowed is a host name without a port")
    return inbox.host


def _addresses(path: str | Path, name: str, given: object) -> tuple[str, ...]:
    listed = given if isinstance(given, list) else [given]
    addresses: list[str] = []
    for address in listed:
        with contextlib.suppress(ValueError):
            if isinstance(address, str):
                addresses.append(str(ip_address(address)))
    if not listed or len(addresses) < len(listed):
        raise ConfigError(
            f"resolver map {str(path)!r} has {given!r} for host {name!r}; allowed is an IP address or a list of them"
        )
    return tuple(addresses)
