# SPDX-License-Identifier: Apache-2.0
"""Order: what an activity is about, and which activities take which back (SPEC section 2, "Order"). Pure."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

MAX_KEY_BYTES: Final = 2048
"""Keys are ids, which are URLs; a longer one orders nothing."""

_ABOUT_THEIR_OBJECT: Final = frozenset({"Create", "Update", "Delete"})

TAKEN_BACK_BY: Final[Mapping[str, str]] = {"Create": "Delete", "Follow": "Undo", "Like": "Undo", "Announce": "Undo"}
"""What is dropped when it was not begun and what takes it back is queued, each with the type of that."""

TAKES_BACK: Final[Mapping[str, tuple[str, ...]]] = {
    taker: tuple(taken for taken, by in TAKEN_BACK_BY.items() if by == taker) for taker in set(TAKEN_BACK_BY.values())
}
"""The same from the other side: which types a Delete drops, and an Undo."""

_DEEPEST: Final = 8


def implicit_key(activity: Mapping[str, Any]) -> str | None:
    """The key that deliveries of an activity are ordered by where the application gives none.

    Create, Update, Delete: the object's id. Undo: the key of what it undoes if that is embedded, else its id.
    Everything else: its own id. None: no id, and so no order. Source: SPEC section 2.
    """
    for _ in range(_DEEPEST):
        kind = first_type(activity.get("type"))
        if kind in _ABOUT_THEIR_OBJECT:
            return reference(activity.get("object"))
        if kind != "Undo":
            return reference(activity)
        undone = activity.get("object")
        if not isinstance(undone, dict):
            return reference(undone)
        activity = undone
    return None


def first_type(value: object) -> str:
    """A `type`, the first of several, "" if there is none."""
    if isinstance(value, list):
        value = value[0] if value else ""
    return value if isinstance(value, str) else ""


def reference(value: object) -> str | None:
    """The id that a property refers to: a string, or the `id` of an object. None if there is no usable one."""
    if isinstance(value, Mapping):
        value = value.get("id")
    if isinstance(value, str) and value and len(value.encode("utf-8", "surrogatepass")) <= MAX_KEY_BYTES:
        return value
    return None


def order_of(key: str, inbox: str) -> bytes:
    """What deliveries that go one after another share: 16 bytes of a hash over order key and canonical inbox.

    The inbox, not the host: a recipient that fails must not hold up its neighbours.
    """
    return sha256(f"{key}\0{inbox}".encode("utf-8", "surrogatepass")).digest()[:16]
