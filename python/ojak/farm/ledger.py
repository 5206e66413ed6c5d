# SPDX-License-Identifier: Apache-2.0
"""The ledger as others read it, also after the farm was killed."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import orjson

from ojak.farm.arrival import Arrival, Ending
from ojak.farm.errors import FarmError

_FIELDS = tuple(field.name for field in fields(Arrival))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Everything that arrived, in order of arrival."""

    arrivals: tuple[Arrival, ...]

    @classmethod
    def load(cls, path: Path, *, after: int = 0) -> "Ledger":
        """Read a ledger file, from the arrival after the one numbered `after`.

        A last line that a killed farm left unfinished is passed over: its request was not answered.

        Raises:
            FarmError: the file cannot be read, or is no ledger.
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise FarmError(f"ledger file {path} cannot be read: {error.strerror}") from error
        rows: dict[int, list[object]] = {}
        lines = data.split(b"\n")
        for number, line in enumerate(lines[:-1], start=1):
            try:
                row = orjson.loads(line)
                if row[0] > after:
                    rows[row[0]] = row
            except (orjson.JSONDecodeError, LookupError, TypeError) as error:
                raise FarmError(f"ledger file {path} is damaged in line {number}") from error
        return cls(arrivals=tuple(_arrival(rows[seq]) for seq in sorted(rows)))

    def __len__(self) -> int:
        return len(self.arrivals)

    def __iter__(self) -> Iterator[Arrival]:
        return iter(self.arrivals)

    def after(self, seq: int) -> "Ledger":
        """Only what arrived after the arrival numbered `seq`."""
        return Ledger(arrivals=tuple(arrival for arrival in self.arrivals if arrival.seq > seq))

    def at(self, host: str) -> "Ledger":
        """Only what arrived at a host."""
        return Ledger(arrivals=tuple(arrival for arrival in self.arrivals if arrival.host == host))


def _arrival(row: list[object]) -> Arrival:
    values = dict(zip(_FIELDS, row, strict=True))
    values["ending"] = Ending(str(values["ending"]))
    return Arrival(**values)  # type: ignore[arg-type]  # the farm wrote these fields in this order
