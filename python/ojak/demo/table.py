# SPDX-License-Identifier: Apache-2.0
"""A demo's result in words, and as JSON."""

from typing import Any, Final

from ojak.demo.result import DemoResult, OutcomeLine

_HEADS: Final = ("outcome", "how or why", "deliveries", "hosts", "retried", "next try")
_RIGHT: Final = frozenset({2, 3, 4})
_MINUTE_S: Final = 60
_LONG_S: Final = 600


def as_text(result: DemoResult) -> str:
    """The table, a sentence, and as the last line the four numbers."""
    cells = [_HEADS, *(_cells(line) for line in result.lines)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(_HEADS))]
    rows = [
        "  ".join(
            cell.rjust(width) if place in _RIGHT else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join(["", rows[0], "  ".join("-" * width for width in widths), *rows[1:], "", *_sentences(result)])


def as_json(result: DemoResult) -> dict[str, Any]:
    """The same for programs."""
    verdict = result.verdict
    return {
        "activities": result.activities,
        "hosts": result.hosts,
        "workers": result.workers,
        "deliveries": result.deliveries,
        "seconds": round(result.seconds, 1),
        "outcomes": [
            {
                "outcome": line.outcome,
                "reason": line.reason,
                "deliveries": line.deliveries,
                "hosts": line.hosts,
                "retried": line.retried,
                "next_try_s": None if line.next_try_s is None else [round(wait_s, 1) for wait_s in line.next_try_s],
            }
            for line in result.lines
        ],
        "changed_bodies": result.changed,
        "folder": None if result.folder is None else str(result.folder),
        "ledger": {
            "lost": verdict.lost,
            "double": verdict.double,
            "unverified": verdict.unverified,
            "over_limit": verdict.over_limit,
        },
    }


def _cells(line: OutcomeLine) -> tuple[str, ...]:
    return (
        line.outcome,
        line.reason,
        f"{line.deliveries:,}",
        f"{line.hosts:,}",
        f"{line.retried:,}" if line.retried else "",
        "" if line.next_try_s is None else _wait(*line.next_try_s),
    )


def _wait(first_s: float, last_s: float) -> str:
    if last_s < 1:
        return "now"
    if first_s >= _LONG_S:
        return f"in {round(first_s / _MINUTE_S)} min"
    if round(first_s) == round(last_s):
        return f"in {round(last_s)} s"
    return f"in {round(first_s)} to {round(last_s)} s"


def _sentences(result: DemoResult) -> list[str]:
    bodies = (
        f"{result.changed:,} requests did not carry the bytes that were handed over"
        if result.changed
        else "every body arrived byte for byte"
    )
    summary = (
        f"{result.activities} activities, {result.deliveries:,} deliveries to {result.hosts} hosts; those to living"
        f" hosts were settled after {result.seconds:.1f} s, and {bodies}."
    )
    lines = [summary]
    if result.folder is not None:
        lines.append(f"Queue, ledger, keys and log are kept in {result.folder}")
    return [*lines, str(result.verdict)]
