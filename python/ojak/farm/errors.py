# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with the mock inbox farm itself."""

from ojak.errors import ConfigError, OjakError


class FarmError(OjakError):
    """The farm could not start, or stopped answering."""


class PlanError(ConfigError):
    """A plan is not usable. Names the field, its value and what is allowed."""


class PortTaken(FarmError):
    """A port that was asked for is in use by another program.

    Attributes:
        port: the port that could not be bound.
    """

    def __init__(self, *, purpose: str, port: int) -> None:
        super().__init__(f"{purpose} port {port} is in use; give another one, or 0 to let the system choose")
        self.port = port


class FarmGone(FarmError):
    """The farm did not answer on its control socket: it has stopped, or is stopping."""
