# SPDX-License-Identifier: Apache-2.0
"""Open files: what runs a farm, a supervisor and a database needs some, and says so before it starts anything."""

import resource
from contextlib import suppress
from typing import Final

from ojak.errors import OjakError

NEEDED: Final = 512


def require_descriptors() -> None:
    """Raise the limit of open files as far as the system lets, and see that it is enough.

    Raises:
        OjakError: it is not; says how many there are and how many are needed.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < NEEDED and (hard == resource.RLIM_INFINITY or hard > soft):
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (NEEDED if hard == resource.RLIM_INFINITY else hard, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft != resource.RLIM_INFINITY and soft < NEEDED:
        raise OjakError(f"the limit of open files is {soft} (ulimit -n); needed are {NEEDED} and more")
