# SPDX-License-Identifier: Apache-2.0
"""How deliveries, counts and times look in a terminal, and as JSON by line."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import MAXYEAR, UTC, datetime
from typing import Any, Final

import click

from ojak.model.explanation import DeliveryState, GatewayState, WaitsFor
from ojak.model.job import UNFINISHED
from ojak.model.selection import Cancelled

_WIDEST: Final = 200


def print_json(value: Mapping[str, Any]) -> None:
    """Print one object on a line of its own."""
    click.echo(json.dumps(value, default=_plain))


def _plain(value: object) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)


def print_deliveries_json(deliveries: Iterable[DeliveryState]) -> None:
    """Print each delivery as an object on a line of its own."""
    for delivery in deliveries:
        print_json(asdict(delivery))


def print_delivery(delivery: DeliveryState, *, named: bool) -> None:
    """Print a delivery: where to, how it stands, and what was answered last. With its activity if `named`."""
    about = f"{_cut(delivery.activity_id)} → " if named else ""
    click.echo(f"{about}{delivery.inbox}")
    click.echo(f"  {_standing(delivery)}")
    for gateway in delivery.gateways:
        click.echo(f"    {gateway.origin}{_gateway(gateway, delivery)}")


def _gateway(gateway: GatewayState, delivery: DeliveryState) -> str:
    parts = [gateway.reason] if gateway.reason else []
    if gateway.next:
        parts.append("took it" if delivery.waits_for is None else "is next")
    if gateway.held_until is not None:
        without_end = gateway.held_until.year == MAXYEAR
        parts.append(f"held until {'it is resumed' if without_end else time_in_words(gateway.held_until)}")
    return f" · {' · '.join(parts)}" if parts else ""


def _standing(delivery: DeliveryState) -> str:
    parts = [delivery.state]
    if delivery.waits_for is not None:
        parts.append(_waiting(delivery))
    if delivery.finished_at is not None and delivery.waits_for is None:
        parts.append(time_in_words(delivery.finished_at))
    if delivery.attempts:
        parts.append(f"{delivery.attempts} attempt{'s' if delivery.attempts > 1 else ''}")
    last = " ".join(part for part in (_status(delivery), delivery.scheme or "") if part)
    if last:
        parts.append(f"last {last}")
    if delivery.maybe_delivered:
        parts.append("the inbox may have it")
    if delivery.detail:
        parts.append(_cut(delivery.detail))
    return " · ".join(parts)


def _status(delivery: DeliveryState) -> str:
    return delivery.reason or (f"status {delivery.status}" if delivery.status is not None else "")


def _waiting(delivery: DeliveryState) -> str:
    at = f" until {time_in_words(delivery.next_try)}" if delivery.next_try is not None else ""
    match delivery.waits_for:
        case WaitsFor.TIME:
            return f"next try {time_in_words(delivery.next_try)}"
        case WaitsFor.HOST:
            return f"its host is held{at}"
        case WaitsFor.PAUSE:
            return f"paused{at or ' until it is resumed'}"
        case WaitsFor.SENDER:
            return f"its sender is held{at}"
        case WaitsFor.INBOX:
            return f"its inbox is held{at}"
        case WaitsFor.ORDER:
            return f"behind {_cut(delivery.behind)}" if delivery.behind else "behind another delivery"
        case WaitsFor.ANSWER:
            return "a worker has it"
        case _:
            return "can go now"


def print_counts(counts: Mapping[str, int]) -> None:
    """Print counts by state, what waits first; a line each."""
    order = {state: place for place, state in enumerate(UNFINISHED)}
    for state, count in sorted(counts.items(), key=lambda item: (order.get(item[0], len(order)), item[0])):
        click.echo(f"{count:>10}  {state}")


def print_cancelled(done: Cancelled, *, as_json: bool) -> None:
    """Print what a cancel came to."""
    if as_json:
        print_json({"cancelled": done.count, "on_wire": done.on_wire})
        return
    click.echo(f"{counted(done.count, 'delivery')} cancelled")
    if done.on_wire:
        click.echo(f"{counted(done.on_wire, 'request')} had begun already, and end as what they come to")


def counted(number: int, what: str) -> str:
    """A number with its noun: 1 delivery, 2 deliveries."""
    return (
        f"{number} {what[:-1] + 'ies' if number != 1 and what.endswith('y') else what + ('s' if number != 1 else '')}"
    )


def time_in_words(moment: datetime | None) -> str:
    """A moment in UTC, or that it is not known."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ") if moment is not None else "unknown"


def printable(text: str) -> str:
    """What others wrote, as a terminal may have it: without its control characters and halves of characters."""
    return text if text.isprintable() else ascii(text)[1:-1]


def _cut(text: str | None) -> str:
    text = printable(text or "")
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
