# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ojak.farm import Ending, FarmError, Ledger
from ojak.farm.ledger_book import LedgerBook, Row


def enter(book: LedgerBook, *, host: str = "h1", verdict: str = "verified", takes: bool = True) -> Row:
    return book.begin(
        host=host,
        inbox=f"http://{host}/inbox",
        activity="https://a/1",
        body_sha256="ab",
        scheme="cavage",
        key_id="k",
        verdict=verdict,
        takes=takes,
        connection=3,
        open_requests=2,
    )


def test_a_row_written_while_open_is_read_with_its_end(tmp_path: Path) -> None:
    book = LedgerBook(tmp_path / "l")
    row = enter(book)
    book.flush()
    (arrival,) = Ledger.load(tmp_path / "l")
    assert (arrival.ending, arrival.status, arrival.ended_s, arrival.accepted) == (Ending.OPEN, None, None, False)
    book.status(row, 202)
    book.end(row)
    book.close()
    (arrival,) = Ledger.load(tmp_path / "l")
    assert (arrival.ending, arrival.status, arrival.accepted) == (Ending.ANSWERED, 202, True)
    assert arrival.ended_s is not None
    assert arrival.ended_s >= arrival.arrived_s
    assert (arrival.host, arrival.inbox, arrival.activity) == ("h1", "http://h1/inbox", "https://a/1")
    assert (arrival.connection, arrival.open_requests, arrival.key_id) == (3, 2, "k")
    assert (book.arrivals, book.accepted) == (1, 1)


def test_what_was_flushed_survives_and_a_torn_line_is_passed_over(tmp_path: Path) -> None:
    book = LedgerBook(tmp_path / "l")
    for _ in range(3):
        book.end(enter(book))
    book.flush()
    data = (tmp_path / "l").read_bytes()
    (tmp_path / "l").write_bytes(data[:-5])
    assert [arrival.seq for arrival in Ledger.load(tmp_path / "l")] == [1, 2]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "l").write_bytes(b"[1]\nnonsense\n")
    with pytest.raises(FarmError, match="damaged in line 2"):
        Ledger.load(tmp_path / "l", after=1)
    with pytest.raises(FarmError, match="cannot be read"):
        Ledger.load(tmp_path / "none")


def test_parts_of_a_ledger(tmp_path: Path) -> None:
    book = LedgerBook(tmp_path / "l")
    for host in ("h1", "h2", "h1"):
        enter(book, host=host)
    book.close()
    ledger = Ledger.load(tmp_path / "l")
    assert len(ledger) == 3
    assert [arrival.seq for arrival in ledger.after(1)] == [2, 3]
    assert [arrival.seq for arrival in ledger.at("h1")] == [1, 3]
    assert [arrival.seq for arrival in Ledger.load(tmp_path / "l", after=2)] == [3]


@pytest.mark.parametrize(
    ("verdict", "takes", "unverified"),
    [
        ("verified", True, False),
        ("unasked", True, False),
        ("signature_mismatch", True, True),
        ("signature_mismatch", False, False),
        ("verified", False, False),
    ],
)
def test_unverified_counts_only_where_the_host_takes_the_scheme(
    tmp_path: Path, verdict: str, *, takes: bool, unverified: bool
) -> None:
    book = LedgerBook(tmp_path / "l")
    enter(book, verdict=verdict, takes=takes)
    book.close()
    (arrival,) = Ledger.load(tmp_path / "l")
    assert arrival.unverified is unverified


def test_a_ledger_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(FarmError, match="cannot be written: No such file"):
        LedgerBook(tmp_path / "none" / "l")
    book = LedgerBook(Path("/dev/full"))
    enter(book)
    with pytest.raises(FarmError, match="cannot be written: No space left"):
        book.flush()
