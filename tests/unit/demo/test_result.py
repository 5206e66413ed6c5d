# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ojak.demo.result import DemoResult, OutcomeLine, count_changed, lines_of
from ojak.demo.table import as_json, as_text
from ojak.farm import Arrival, Ending, Verdict
from ojak.store.counts import DeliveryRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROW = DeliveryRow(
    activity_id="https://a.test/1",
    inbox="https://b.test/inbox",
    lane="b.test",
    state="delivered",
    tries=1,
    deaths=0,
    maybe_delivered=0,
    status=202,
    reason="",
    scheme="cavage",
    run_at=NOW,
)
RESULT = DemoResult(
    activities=1,
    hosts=2,
    workers=2,
    deliveries=2000,
    seconds=12.34,
    lines=(
        OutcomeLine(
            outcome="delivered", reason="cavage", deliveries=1999, hosts=2, retried=3, next_try_s=None
        ),
        OutcomeLine(
            outcome="waiting", reason="reset", deliveries=1, hosts=1, retried=0, next_try_s=(14.2, 14.3)
        ),
    ),
    changed=0,
    verdict=Verdict(lost=0, double=0, unverified=0, over_limit=0),
    folder=None,
)  # fmt: skip


def test_deliveries_are_grouped_by_how_they_ended_and_what_waits_says_when_it_is_tried():
    rows = [
        ROW,
        replace(ROW, lane="c.test", tries=2),
        replace(ROW, scheme="rfc9421", reason="html-answer"),
        replace(ROW, state="refused", reason="status-404"),
        replace(ROW, state="queued", reason="reset", tries=1, run_at=NOW + timedelta(seconds=20)),
        replace(ROW, state="leased", reason="reset", tries=2, run_at=NOW - timedelta(seconds=5)),
        replace(ROW, state="queued", reason="", tries=0, run_at=NOW),
    ]
    lines = lines_of(rows, NOW, held={})
    assert [(line.outcome, line.reason, line.deliveries, line.hosts, line.retried) for line in lines] == [
        ("delivered", "cavage", 2, 2, 1),
        ("delivered", "rfc9421 html-answer", 1, 1, 0),
        ("refused", "status-404", 1, 1, 0),
        ("waiting", "reset", 2, 1, 1),
        ("waiting", "not tried yet", 1, 1, 0),
    ]
    assert [line.next_try_s for line in lines] == [None, None, None, (0.0, 20.0), (0.0, 0.0)]


def test_what_a_quarantine_holds_is_tried_next_when_that_ends_and_not_now():
    waiting = replace(ROW, state="queued", reason="connect-refused", lane="held.test", run_at=NOW)
    rows = [waiting, replace(waiting, run_at=NOW + timedelta(seconds=90)), replace(waiting, lane="other.test")]
    (line,) = lines_of(rows, NOW, held={"held.test": NOW + timedelta(seconds=60)})
    assert line.next_try_s == (0.0, 90.0)
    (line,) = lines_of(rows[:1], NOW, held={"held.test": NOW + timedelta(seconds=60)})
    assert line.next_try_s == (60.0, 60.0)


def test_a_body_that_is_not_what_was_handed_over_is_counted():
    arrival = Arrival(
        seq=1, host="b.test", inbox="https://b.test/inbox", activity="https://a.test/1", body_sha256="aa",
        scheme="cavage", key_id="k", verdict="verified", takes=True, status=202, ending=Ending.ANSWERED,
        arrived_s=1.0, arrived_at_s=1.0, ended_s=1.1, connection=1, open_requests=1,
    )  # fmt: skip
    arrivals = [arrival, replace(arrival, body_sha256="bb"), replace(arrival, activity="https://a.test/2")]
    assert count_changed(arrivals, {"https://a.test/1": "aa"}) == 2


def test_the_table_ends_with_the_four_numbers():
    lines = as_text(RESULT).splitlines()
    assert lines[-1] == "lost 0 · double 0 · unverified 0 · over limit 0"
    assert any(line.split() == ["delivered", "cavage", "1,999", "2", "3"] for line in lines)
    assert any(line.endswith("in 14 s") for line in lines)
    assert "every body arrived byte for byte" in lines[-2]


def test_what_was_kept_is_named_and_a_changed_body_is_no_clean_run():
    kept = replace(RESULT, folder=Path("/somewhere"), changed=2)
    assert "/somewhere" in as_text(kept).splitlines()[-2]
    assert "2 requests did not carry" in as_text(kept)
    assert RESULT.clean
    assert not kept.clean
    assert not replace(RESULT, verdict=Verdict(lost=1, double=0, unverified=0, over_limit=0)).clean


def test_json_holds_the_same():
    shown = as_json(RESULT)
    assert shown["ledger"] == {"lost": 0, "double": 0, "unverified": 0, "over_limit": 0}
    assert [line["next_try_s"] for line in shown["outcomes"]] == [None, [14.2, 14.3]]
