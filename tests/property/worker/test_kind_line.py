# SPDX-License-Identifier: Apache-2.0
"""One kind's jobs in a worker, under random interleavings of lease, begin, end and loss."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from ojak import HandledJob, Handler, Priority
from ojak.model.kind_job import KindJob
from ojak.worker.kind_line import KindLine


async def work(job: HandledJob) -> None: ...


def job(number: int) -> KindJob:
    return KindJob(
        id=number.to_bytes(16, "big"),
        kind="archive",
        lane="archive#00",
        priority=Priority.FANOUT,
        key=None,
        payload=b"",
        tries=0,
        deaths=0,
        order=None,
        queued_at=datetime(2026, 1, 1, tzinfo=UTC),
        stamp=b"s",
    )


MOVES = st.lists(st.tuples(st.sampled_from(["lease", "begin", "end", "lose", "time"]), st.integers(0, 5)), max_size=80)


@given(concurrency=st.integers(1, 5), ahead_s=st.sampled_from([0.0, 0.5, 5.0]), moves=MOVES)
def test_no_more_run_than_allowed_in_order_and_none_is_lost(
    concurrency: int, ahead_s: float, moves: list[tuple[str, int]]
):
    line = KindLine(Handler(kind="archive", call=work, concurrency=concurrency), ahead_s=ahead_s, now_s=0.0)
    now_s, made, open_jobs = 0.0, 0, 0
    waiting: list[bytes] = []
    for what, number in moves:
        if what == "lease":
            wanted = line.want()
            assert wanted >= 0
            # A free slot is never left without a job that could be had.
            assert wanted or len(waiting) + open_jobs >= concurrency
            leased = [job(made + place) for place in range(min(number, wanted))]
            made += len(leased)
            waiting += [item.id for item in leased]
            line.add(leased)
        elif what == "begin":
            begun = line.next()
            assert (begun is not None) is (bool(waiting) and open_jobs < concurrency)
            if begun is not None:
                assert begun.id == waiting.pop(0)
                open_jobs += 1
        elif what == "end" and open_jobs:
            line.finished()
            open_jobs -= 1
        elif what == "lose":
            gone = set(waiting[:number])
            assert {item.id for item in line.take(gone)} == gone
            waiting = waiting[number:]
        elif what == "time":
            now_s += number / 5
            line.measure(now_s)
        assert line.open == open_jobs <= concurrency
        assert len(line) == len(waiting)
        if not waiting and open_jobs < concurrency:
            assert line.is_low()
            assert line.want()
    assert [item.id for item in line.take_all()] == waiting
    assert len(line) == 0
