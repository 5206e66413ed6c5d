# SPDX-License-Identifier: Apache-2.0
"""`BlockedDomains`: the domains that an operator lets nothing go to, with everything below them (SPEC section 3)."""

from collections.abc import Iterable
from typing import Final

from ojak.errors import ConfigError, shown
from ojak.model.inbox import CanonicalInbox, InvalidInbox, canonical_inbox

MAX_DOMAINS: Final = 100_000
_SHOWN_MAX: Final = 200
_ALLOWED: Final = "a domain such as example.org, without scheme, port or path"


class BlockedDomains:
    """A set of domains, each with all its subdomains, at whatever port.

    Args:
        names: domains in any form that a host of an inbox may have: capitals, U-labels, a trailing dot; a `*.` before
            one changes nothing. An address blocks itself.

    Raises:
        ConfigError: one is no domain, or there are too many.
    """

    __slots__ = ("_hosts",)

    def __init__(self, names: Iterable[str] = ()) -> None:
        if isinstance(names, str | bytes | bytearray) or not isinstance(names, Iterable):
            # Of a single name each character would be a domain.
            raise ConfigError(f"blocked_domains is {shown(names)}; allowed is a list of domains, also for one")
        self._hosts = frozenset(_host_of(name) for name in names)
        if len(self._hosts) > MAX_DOMAINS:
            raise ConfigError(f"blocked_domains holds {len(self._hosts)} domains; allowed are {MAX_DOMAINS}")

    def __bool__(self) -> bool:
        return bool(self._hosts)

    def covers(self, authority: str) -> bool:
        """Whether a host is one of them or lies below one.

        Args:
            authority: the host as inboxes have it in their canonical form, with its port if that is not the default.
        """
        if not self._hosts:
            return False
        host = authority[1:].partition("]")[0] if authority.startswith("[") else authority.partition(":")[0]
        while host not in self._hosts:
            _, dot, host = host.partition(".")
            if not dot:
                return False
        return True

    def check(self, inbox: CanonicalInbox) -> None:
        """Refuse an inbox whose host is blocked.

        Raises:
            InvalidInbox: it is.
        """
        if self.covers(inbox.authority):
            raise InvalidInbox("host", repr(inbox.authority), "a host outside the blocked domains")


def _host_of(name: object) -> str:
    if isinstance(name, str):
        bare = name.strip().removeprefix("*.").removeprefix(".")
        if bare.count(":") > 1 and not bare.startswith("["):
            bare = f"[{bare}]"
        try:
            inbox = canonical_inbox(f"https://{bare}/")
        except InvalidInbox:
            pass
        else:
            if inbox.target == "/" and ":" not in bare.rpartition("]")[2]:
                return inbox.host
    raise ConfigError(f"blocked_domains holds {repr(name)[:_SHOWN_MAX]}; allowed is {_ALLOWED}")
