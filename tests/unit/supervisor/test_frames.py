# SPDX-License-Identifier: Apache-2.0
"""The line between the supervisor and a child."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ojak.supervisor.frames import Frame, FrameKind, Link, Obituary, pack_number, unpack_number
from ojak.worker.board import SLOTS


@pytest.fixture
def links() -> Iterator[tuple[Link, Link]]:
    ours, theirs = Link.pair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_messages_keep_their_borders(links: tuple[Link, Link]) -> None:
    ours, theirs = links
    assert ours.send(FrameKind.PLAN, b"one")
    assert ours.send(FrameKind.LOCKED)
    assert theirs.receive() == Frame(kind=FrameKind.PLAN, payload=b"one")
    assert theirs.receive() == Frame(kind=FrameKind.LOCKED)


def test_the_end_of_the_other_side_is_told(links: tuple[Link, Link]) -> None:
    ours, theirs = links
    theirs.close()
    assert ours.receive() is None
    assert not ours.send(FrameKind.LOCKED)


def test_a_side_that_reads_nothing_does_not_hold_the_other_up(links: tuple[Link, Link]) -> None:
    ours, _ = links
    ours.set_timeout(0)
    sent = 0
    while ours.send(FrameKind.PLAN, bytes(10_000)):
        sent += 1
        assert sent < 1000


def test_nothing_to_read_is_not_the_end(links: tuple[Link, Link]) -> None:
    ours, _ = links
    ours.set_timeout(0)
    with pytest.raises(BlockingIOError):
        ours.receive()


def test_an_obituary_of_a_full_board_fits(links: tuple[Link, Link]) -> None:
    ours, theirs = links
    full = Obituary(number=7, stamp=b"s" * 16, begun=tuple(number.to_bytes(16, "big") for number in range(SLOTS)))
    ours.set_timeout(0)
    assert ours.send(FrameKind.OBITUARY, full.to_bytes())
    frame = theirs.receive()
    assert frame is not None
    assert Obituary.from_bytes(frame.payload) == full


@given(
    st.builds(
        Obituary,
        number=st.integers(0, 2**64 - 1),
        stamp=st.binary(min_size=16, max_size=16),
        begun=st.lists(st.binary(min_size=16, max_size=16), max_size=20).map(tuple),
    )
)
def test_an_obituary_arrives_as_it_was_sent(obituary: Obituary) -> None:
    assert Obituary.from_bytes(obituary.to_bytes()) == obituary


@given(st.integers(-(2**31), 2**31))
def test_a_number_arrives_as_it_was_sent(number: int) -> None:
    assert unpack_number(pack_number(number)) == number
