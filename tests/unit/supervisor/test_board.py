# SPDX-License-Identifier: Apache-2.0
"""The board that a worker leaves behind."""

import os

from hypothesis import given
from hypothesis import strategies as st

from ojak.worker.board import ID_BYTES, FlightBoard


def job(number: int) -> bytes:
    return number.to_bytes(ID_BYTES, "big")


def test_it_shows_what_is_begun_and_not_stored() -> None:
    board = FlightBoard()
    slots = [board.begin(job(number)) for number in range(5)]
    board.clear(slots[1])
    board.clear(slots[4])
    assert sorted(board.snapshot()) == [job(0), job(2), job(3)]
    board.close()


def test_a_new_board_says_nothing() -> None:
    board = FlightBoard()
    assert board.stamp is None
    assert not board.ready
    assert board.snapshot() == []
    assert (board.beats, board.begun, board.stored) == (0, 0, 0)
    board.close()


def test_beats_carry_the_counters() -> None:
    board = FlightBoard()
    board.clear(board.begin(job(1)))
    board.begin(job(2))
    board.beat()
    board.beat()
    assert (board.beats, board.begun, board.stored) == (2, 2, 1)
    board.close()


def test_beyond_its_slots_deliveries_go_unrecorded_and_nothing_breaks() -> None:
    board = FlightBoard(slots=2)
    slots = [board.begin(job(number)) for number in range(3)]
    assert slots[2] == -1
    assert sorted(board.snapshot()) == [job(0), job(1)]
    for slot in slots:
        board.clear(slot)
    assert board.snapshot() == []
    assert board.begin(job(7)) >= 0
    assert board.snapshot() == [job(7)]
    board.close()


def test_another_process_writes_and_this_one_reads_after_its_death() -> None:
    board = FlightBoard()
    pid = os.fork()
    if pid == 0:
        board.set_stamp(b"s" * ID_BYTES)
        board.begin(job(1))
        board.clear(board.begin(job(2)))
        board.mark_ready()
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    assert board.stamp == b"s" * ID_BYTES
    assert board.ready
    assert board.snapshot() == [job(1)]
    board.close()


@given(st.lists(st.one_of(st.integers(0, 2**128 - 1), st.just(None)), max_size=60))
def test_a_snapshot_is_what_a_set_would_hold(steps: list[int | None]) -> None:
    board = FlightBoard(slots=8)
    held: list[tuple[int, bytes]] = []
    for step in steps:
        if step is None and held:
            board.clear(held.pop(0)[0])
        elif step is not None and len(held) < 8:
            held.append((board.begin(job(step)), job(step)))
    assert sorted(board.snapshot()) == sorted(name for _, name in held)
    board.close()
