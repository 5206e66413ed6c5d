# SPDX-License-Identifier: Apache-2.0
"""What an HTTP answer says of its host (SPEC section 4)."""

from ojak.breaker.circuit import Signal
from ojak.model.status import FINAL_STATUSES, permanent_status


def signal_of(status: int, final_statuses: frozenset[int] = FINAL_STATUSES) -> Signal:
    """Tell what an answer of `status` says of its host.

    A final one shows that it works, whatever it thinks of the activity: 2xx, 3xx, 4xx, and what `final_statuses` names.
    408 and 429 came at a bad time and say neither. Everything else is a broken server, a status below 200 or above 599
    too (RFC 9110 section 15).
    """
    if 200 <= status < 400 or permanent_status(status) or status in final_statuses:
        return Signal.SUCCESS
    return Signal.NOTHING if status in (408, 429) else Signal.FAILURE
