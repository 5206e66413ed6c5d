# SPDX-License-Identifier: Apache-2.0
"""One attempt of one delivery: sign, post, knock once more if the scheme was refused, and say what it came to."""

import random
import time
from dataclasses import dataclass

from ojak.backoff import backoff_s
from ojak.clock import Clock
from ojak.config import DelivererConfig
from ojak.errors import SigningError
from ojak.http.knock import Knocker, Knocked
from ojak.http.transport import FaultReason, PostError
from ojak.model.job import Job
from ojak.model.outcome import (
    AttemptOutcome,
    AttemptPhases,
    DeliveryAttempt,
    FailureReason,
    SettledOutcome,
)
from ojak.model.status import StatusClass, classify_status, retry_after_s
from ojak.signing import Scheme, SenderKeys
from ojak.store.settle import Ended, Retried
from ojak.worker.bodies import Body
from ojak.worker.standings import Standings

_NAMED_RETRIES = 5
"""`retry_statuses` are retried up to so many attempts."""
_SHARED_GONE_S = 3600.0
_OWN_FAULT_S = 30.0
_DETAIL_BYTES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """What an attempt came to, for each who needs to know.

    Attributes:
        outcome: what the queue writes.
        attempt: what the application is told.
        tells: whether it tells anything of the host; a fault of our own does not.
        holds_host: whether the host asked for no more requests for now.
    """

    outcome: Ended | Retried
    attempt: DeliveryAttempt
    tells: bool
    holds_host: bool
