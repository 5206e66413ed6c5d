# SPDX-License-Identifier: Apache-2.0
"""How a host of the farm treats a request: each behaviour a small value that knows how to play itself."""

from typing import Annotated

from pydantic import Field

from ojak.farm.behaviour.exchange import Exchange, Player
from ojak.farm.behaviour.hostile import Drip, HugeBody, HugeHead, Interim, Part, Raw
from ojak.farm.behaviour.respond import RateLimited, Respond, RetryAfterForm, render
from ojak.farm.behaviour.silence import HangUp, Moment, Reach, Silent, Unreachable

Behaviour = Annotated[
    Respond | RateLimited | Silent | HangUp | Unreachable | Drip | Interim | HugeHead | HugeBody | Raw,
    Field(discriminator="kind"),
]
"""Any behaviour; in a plan file an object whose `kind` says which."""

__all__ = [
    "Behaviour",
    "Drip",
    "Exchange",
    "HangUp",
    "HugeBody",
    "HugeHead",
    "Interim",
    "Moment",
    "Part",
    "Player",
    "RateLimited",
    "Raw",
    "Reach",
    "Respond",
    "RetryAfterForm",
    "Silent",
    "Unreachable",
    "render",
]
