# SPDX-License-Identifier: Apache-2.0
"""Servers that close their connections after an answer without saying so."""

from typing import Final

_KEEP_S: Final = 3600.0
_MAX: Final = 4096


class Closers:
    """A bounded memory of such servers, by authority.

    On kept connections every second POST to one of them would go out on a connection that is just being closed. It
    gets a fresh one each time, and is told so.
    """

    __slots__ = ("_until_s",)

    def __init__(self) -> None:
        self._until_s: dict[str, float] = {}

    def learn(self, authority: str, now_s: float) -> None:
        """Remember one for an hour."""
        self._until_s.pop(authority, None)
        while len(self._until_s) >= _MAX:
            del self._until_s[next(iter(self._until_s))]
        self._until_s[authority] = now_s + _KEEP_S

    def knows(self, authority: str, now_s: float) -> bool:
        """Whether a server is one of them, as far as is known."""
        until_s = self._until_s.get(authority)
        if until_s is None:
            return False
        if now_s < until_s:
            return True
        del self._until_s[authority]
        return False
