# SPDX-License-Identifier: Apache-2.0
"""One kind's jobs in a worker, under random interleavings of lease, begin, end and loss."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from ojak import HandledJob, Handler, Priority
from ojak.model.kind_job import KindJob
from ojak.worker.kind_line import KindLine


async def work(job: HandledJob) -> None: ...


def job(number: int, deaths: int) -> KindJob:
    return KindJob(
        id=number.to_bytes(16, "big"),
        kind="archive",
        lane="archive#00",
        priority=Priority.FANOUT,
        key=None,
        payload=b"",
        tries=0,
        deaths=deaths,
        order=None,
        queued_at=datetime(2026, 1, 1, tzinfo=UTC),
        stamp=b"s",
    )


MOVES = st.lists(
    st.tuples(st.sampled_from(["lease", "begin", "end", "lose", "time", "stale"]), st.integers(0, 5)), max_size=80
)


@given(
    concurrency=st.integers(1, 5),
    ahead_s=st.sampled_from([0.0, 0.5, 5.0]),
    suspects=st.sets(st.integers(0, 60)),
    moves=MOVES,
)
def test_no_more_run_than_allowed_no_two_suspects_innocents_in_order_and_none_is_lost(
    concurrency: int, ahead_s: float, suspects: set[int], moves: list[tuple[str, int]]
):
    line = KindLine(Handler(kind="archive", call=work, concurrency=concurrency), ahead_s=ahead_s, now_s=0.0)
    now_s, made = 0.0, 0
    waiting: list[KindJob] = []
    running: list[KindJob] = []
    for what, number in moves:
        innocents = [item for item in waiting if not item.deaths]
        suspect_runs = any(item.deaths for item in running)
        if what == "lease":
            wanted = line.want()
            # A free slot is never left without a job that could be had.
            assert wanted or len(waiting) + len(running) >= concurrency
            leased = [job(made + place, int(made + place in suspects)) for place in range(min(number, wanted))]
            made += len(leased)
            waiting += leased
            line.add(leased)
        elif what == "begin":
            begun = line.next(now_s=now_s, suspect_runs=suspect_runs)
            can = len(running) < concurrency and bool(innocents if suspect_runs else waiting)
            assert (begun is not None) is can
            if begun is not None:
                assert not (begun.deaths and suspect_runs)
                assert begun.deaths or begun is innocents[0]
                waiting.remove(begun)
                running.append(begun)
        elif what == "end" and running:
            line.finished()
            running.pop(number % len(running))
        elif what == "lose":
            gone = {item.id for item in waiting[:number]}
            assert {item.id for item in line.take(gone)} == gone
            waiting = waiting[number:]
        elif what == "time":
            now_s += number / 5
            line.measure(now_s)
        elif what == "stale":
            stale = line.stale_suspects(now_s)
            assert all(item.deaths for item in stale)
            waiting = [item for item in waiting if item not in stale]
        assert line.open == len(running) <= concurrency
        assert len(line) == len(waiting)
        if not waiting and len(running) < concurrency:
            assert line.is_low()
            assert line.want()
    assert {item.id for item in line.take_all()} == {item.id for item in waiting}
    assert len(line) == 0
