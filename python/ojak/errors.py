# SPDX-License-Identifier: Apache-2.0
"""The error tree, cut by the phase in which an error can occur.

Everything that Ojak raises on purpose derives from `OjakError`, so that one `except` catches it, and its text is one
sentence that a person can act on: it names the field, the value and what is allowed, and never holds a key or a body.
"""


class OjakError(Exception):
    """The root of every error that Ojak raises on purpose."""


class ConfigError(OjakError):
    """A setting is not usable. Names the field, its value and what is allowed."""


class InputError(OjakError):
    """What the application handed over is not usable: an activity, an inbox, a sender. Nothing of it was queued."""


class SigningError(OjakError):
    """A key or a signature: it could not be loaded, made or verified."""


class UnknownSender(SigningError):
    """No key is known for a sender (SPEC section 1, `Sent`).

    Attributes:
        sender: the sender's id, as it was asked for.
    """

    def __init__(self, sender: str) -> None:
        super().__init__(f"sender {sender!r} has no key here; give it one, or check the spelling of the id")
        self.sender = sender


class StoreError(OjakError):
    """The queue's database refused, cannot be reached, or holds what this program cannot use."""


class QueueUnavailable(StoreError):
    """MongoDB did not answer in time. Whether a write was applied is unknown; every call can be repeated safely."""


class DeliveryError(OjakError):
    """One POST did not come through (raised by `deliver`; the queue turns these into outcomes)."""


_SHOWN_MAX = 80


def shown(value: object) -> str:
    """A value as an error's text quotes it: short, in ASCII, and whatever its own `repr` does."""
    try:
        text = ascii(value)
    except Exception:  # noqa: BLE001 - an int of more digits than Python writes, or somebody's own class
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
