# SPDX-License-Identifier: Apache-2.0
"""How long a failed delivery waits before it is tried again."""

from random import Random


def backoff_s(attempt: int, random: Random) -> float:
    """Return the seconds to wait after attempt number `attempt` failed: n⁴ + 15 + jitter.

    `attempt` counts from 1. The jitter is uniform up to n⁴/2 + 10·n, so that deliveries that failed together do not
    come back together. `random` is the caller's, so that a simulation can seed it.

    Raises ValueError if `attempt` is less than 1.

    Source: SPEC section 2.
    """
    if attempt < 1:
        msg = f"attempt is {attempt}; it must be 1 or more"
        raise ValueError(msg)
    fourth = attempt**4
    return fourth + 15 + random.uniform(0, fourth / 2 + 10 * attempt)
