# SPDX-License-Identifier: Apache-2.0
"""A time as a flag gives it: 90s, 15m, 1h, 2d, 1w; ten years at most."""

import re
from datetime import timedelta
from typing import Any, Final

import click

_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DURATION: Final = re.compile(r"([0-9]{1,7})([smhdw])")
_LONGEST: Final = timedelta(days=3650)


class Duration(click.ParamType[timedelta]):
    """A whole number with its unit: seconds, minutes, hours, days or weeks."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read it."""
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            self.fail(f"{value!r} is no time; allowed is a number with s, m, h, d or w, such as 90s or 1h", param, ctx)
        given = timedelta(seconds=int(match[1]) * _UNITS_S[match[2]])
        if not timedelta() < given <= _LONGEST:
            self.fail(
                f"{value!r} is too {'long' if given else 'short'}; allowed is more than nothing and at most ten years",
                param,
                ctx,
            )
        return given
