# SPDX-License-Identifier: Apache-2.0
"""When a child that died is started again."""

from typing import Final

FIRST_S: Final = 0.5
LONGEST_S: Final = 60.0
STEADY_S: Final = 60.0


class RestartDelay:
    """Half a second, doubling to a minute; from the start again after a minute up.

    Pure: it is told how long the child was up.
    """

    __slots__ = ("_next_s",)

    def __init__(self) -> None:
        self._next_s = FIRST_S

    def next_s(self, up_s: float) -> float:
        """Seconds to wait after a child that was up for `up_s` seconds died."""
        if up_s >= STEADY_S:
            self._next_s = FIRST_S
        delay_s = self._next_s
        self._next_s = min(LONGEST_S, delay_s * 2)
        return delay_s
