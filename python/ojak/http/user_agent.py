# SPDX-License-Identifier: Apache-2.0
"""How we name ourselves to other servers."""

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from ojak.errors import ConfigError, shown

_ALLOWED: Final = re.compile(r"[!-~](?:[ -~]{0,498}[!-~])?")


def user_agent(instance_url: str | None = None, given: str | None = None) -> str:
    """Return the User-Agent to send: `given`, or product, version and the instance's URL, so that others can ask.

    Raises ConfigError if the result is not 1 to 500 printable ASCII characters.
    """
    if not isinstance(given, str | None):
        raise ConfigError(f"user_agent is {shown(given)}; allowed are 1 to 500 printable ASCII characters")
    field, value = ("user_agent", given) if given is not None else ("instance_url", instance_url)
    agent = given if given is not None else f"Ojak/{_version()}"
    if given is None and instance_url is not None:
        agent += f" (+{instance_url})"
    if not _ALLOWED.fullmatch(agent):
        raise ConfigError(f"{field} is {shown(value)}; allowed are 1 to 500 printable ASCII characters")
    return agent


@cache
def _version() -> str:
    try:
        return version("ojak")
    except PackageNotFoundError:
        return "0"
