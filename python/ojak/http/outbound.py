# SPDX-License-Identifier: Apache-2.0
"""`Outbound`: what an operator sets about requests to other servers, as frozen values checked at once."""

import os
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

from ojak.errors import ConfigError, shown
from ojak.http.guard import Guard
from ojak.http.resolver_map import NO_MAP, load_resolver_map
from ojak.http.user_agent import user_agent
from ojak.model.domains import BlockedDomains


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbound:
    """How requests go out (SPEC section 3).

    Attributes:
        allow_networks: networks that the address guard lets through though they are private, for tests and intranets.
        resolver_map: a JSON file of host names and their addresses, which go before DNS.
        extra_ca: a PEM file of certificates that are trusted beside the system's.
        proxy: the URL of the HTTP proxy that everything goes through. The environment's is never used.
        user_agent: the whole User-Agent; product, version and `instance_url` if None.
        instance_url: the URL of the instance that sends, for the User-Agent.
        blocked_domains: domains that nothing is sent to, with everything below them.
    """

    allow_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    resolver_map: Path | None = None
    extra_ca: Path | None = None
    proxy: str | None = None
    user_agent: str | None = None
    instance_url: str | None = None
    blocked_domains: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Said now, by name, and not by the first request.
        Guard(self.allow_networks)
        _ = self.agent
        _ = self.blocked
        for name in ("resolver_map", "extra_ca"):
            path = getattr(self, name)
            if path is not None and not _readable(path):
                raise ConfigError(f"{name} is {shown(path)}; allowed is a file that can be read")

    @property
    def agent(self) -> str:
        """The User-Agent."""
        return user_agent(self.instance_url, self.user_agent)

    @property
    def blocked(self) -> BlockedDomains:
        """The domains that nothing is sent to.

        Raises:
            ConfigError: one is no domain.
        """
        given = self.blocked_domains
        return _blocked(given) if isinstance(given, tuple) else BlockedDomains(given)  # type: ignore[redundant-expr]

    def transport_options(self) -> dict[str, Any]:
        """What the transport is made with.

        Raises:
            ConfigError: the resolver map cannot be read.
        """
        return {
            "guard": Guard(self.allow_networks),
            "resolver_map": load_resolver_map(self.resolver_map) if self.resolver_map else NO_MAP,
            "extra_ca": self.extra_ca,
            "proxy": self.proxy,
        }


def _readable(path: object) -> bool:
    try:
        return isinstance(path, str | os.PathLike) and os.access(path, os.R_OK)
    except ValueError:
        # A NUL, or a surrogate that is no byte of a name.
        return False


@lru_cache(maxsize=4)
def _blocked(names: tuple[str, ...]) -> BlockedDomains:
    # Lists have tens of thousands of domains, and every process makes the set a few times.
    return BlockedDomains(names)
