# SPDX-License-Identifier: Apache-2.0
"""What the farm has entered of a host."""

from ojak.farm import Arrival, Counted, FarmHandle, FarmHost


def only(farm: FarmHandle, word: str) -> FarmHost:
    (host,) = farm.labelled(word)
    return host


def last(farm: FarmHandle, host: FarmHost) -> Arrival:
    return farm.ledger().at(host.name).arrivals[-1]


def left(farm: FarmHandle, host: FarmHost) -> Arrival:
    """The last arrival, once the farm has heard that its sender went away."""
    assert farm.client.wait(Counted.OPEN, host.name, at_most=0)
    return last(farm, host)
