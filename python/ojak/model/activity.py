# SPDX-License-Identifier: Apache-2.0
"""`Activity`: what is delivered, as the bytes that go out and the few facts that the queue reads off them."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from ojak.errors import InputError, shown
from ojak.model.order import first_type, implicit_key, reference

MAX_ID_BYTES = 2048
"""Ids are URLs; a longer one is refused, since it becomes part of index entries."""


class InvalidActivity(InputError):
    """The activity cannot be queued. Nothing of the call was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """An activity to deliver. Its bytes go out as they are (SPEC section 2).

    Attributes:
        body: the bytes, a JSON object.
        key: SHA-256 of the bytes: where the body is stored, once for all its deliveries.
        id: its `id`, or None if it has none.
        type: its first `type`, or "".
        object_id: the id of its `object` (a string, or the `id` of an object), or None.
        order_key: what it is about: deliveries that share it go one after another. None: no order.
    """

    body: bytes
    key: bytes
    id: str | None
    type: str
    object_id: str | None
    order_key: str | None

    @property
    def identity(self) -> str:
        """What deliveries are deduplicated by: the id, or the bytes of an activity that has none."""
        return self.id if self.id is not None else f"sha256:{self.key.hex()}"


def activity_of(source: bytes | str | Mapping[str, Any], *, max_bytes: int) -> Activity:
    """Read an activity off bytes or text, which are kept as they are, or off a mapping, which is serialised once.

    Args:
        source: a JSON object.
        max_bytes: the largest body taken.

    Raises:
        InvalidActivity: no JSON, no object, too large, or an `id` that is not a usable string. Names field and value;
            never quotes the body.
    """
    body = _bytes_of(source)
    if len(body) > max_bytes:
        raise InvalidActivity(f"activity is {len(body)} bytes long; allowed are {max_bytes} (max_body_bytes)")
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidActivity(
            f"activity is not JSON (line {error.lineno}, column {error.colno}); allowed is a JSON object in UTF-8"
        ) from None
    if not isinstance(parsed, dict):
        raise InvalidActivity(f"activity is a JSON {_json_name(parsed)}; allowed is a JSON object")
    return Activity(
        body=body,
        key=sha256(body).digest(),
        id=_id_of(parsed),
        type=first_type(parsed.get("type")),
        object_id=reference(parsed.get("object")),
        order_key=implicit_key(parsed),
    )


def check_text(field: str, value: object, *, what: str = "text") -> None:
    """Refuse what is no text of 1 to 2048 bytes: the sender's id, an order key, a batch's tag.

    Args:
        field: its name, for the error.
        value: what was given.
        what: what it should be, in words.

    Raises:
        InputError: names the field, the value and what is allowed.
    """
    if isinstance(value, str) and value:
        try:
            if len(value.encode()) <= MAX_ID_BYTES and "\0" not in value:
                return
        except UnicodeEncodeError:
            pass
    raise InputError(f"{field} is {shown(value)}; allowed is {what} of 1 to {MAX_ID_BYTES} bytes without NUL")


def _bytes_of(source: bytes | str | Mapping[str, Any]) -> bytes:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if isinstance(source, str):
        try:
            return source.encode()
        except UnicodeEncodeError:
            raise InvalidActivity("activity holds a lone surrogate; allowed is text that UTF-8 can carry") from None
    if isinstance(source, Mapping):
        try:
            return orjson.dumps(source if isinstance(source, dict) else dict(source))
        except (TypeError, orjson.JSONEncodeError) as error:
            raise InvalidActivity(f"activity cannot be written as JSON: {error}") from None
    raise InvalidActivity(f"activity is a {type(source).__name__}; allowed is bytes, str or a mapping")


def _id_of(parsed: dict[str, Any]) -> str | None:
    value = parsed.get("id")
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise InvalidActivity(f"activity has as id a JSON {_json_name(value)}; allowed is a string, or no id at all")
    if len(value.encode()) > MAX_ID_BYTES:
        raise InvalidActivity(f"activity has an id of {len(value)} characters; allowed are {MAX_ID_BYTES} bytes")
    return value


def _json_name(value: object) -> str:
    names: dict[type, str] = {str: "string", list: "array", bool: "boolean", int: "number", float: "number"}
    if value == "":
        return "string without a character"
    return "null" if value is None else names.get(type(value), "object")
