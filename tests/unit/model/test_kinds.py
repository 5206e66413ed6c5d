# SPDX-License-Identifier: Apache-2.0
"""Kinds of job, their lanes, their handlers, and what is handed over to them."""

import functools
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ojak import ConfigError, HandledJob, Handler, InputError
from ojak.model.handler import check_handlers
from ojak.model.inbox import InvalidInbox, canonical_inbox
from ojak.model.job import job_id
from ojak.model.kind import check_kind, is_kind_lane, kind_of, lane_of, lanes_of
from ojak.model.kind_job import MAX_PAYLOAD_BYTES, delay_of, kind_job_id, payload_bytes

NOW = datetime(2026, 1, 1, tzinfo=UTC)


make: Any = Handler


async def work(job: HandledJob) -> None: ...


def plain(job: HandledJob) -> None: ...


def yields(job: HandledJob) -> Iterator[None]:
    yield


async def yields_later(job: HandledJob) -> AsyncIterator[None]:
    yield


class Works:
    async def __call__(self, job: HandledJob) -> None: ...


@pytest.mark.parametrize("kind", ["", "Archive", "7z", "a b", "a#1", "ä", "a" * 41, "archive\n", None, 7, "delivery"])
def test_what_is_no_kind_is_refused(kind: Any):
    with pytest.raises(InputError, match=r"^kind is "):
        check_kind(kind)


def test_lanes_of_a_kind_are_its_own_and_no_hosts():
    assert check_kind("media-2_x") == "media-2_x"
    assert len(set(lanes_of("media"))) == 16
    assert {lane_of("media", bytes([n, 0])) for n in range(256)} == set(lanes_of("media"))
    for lane in lanes_of("media"):
        assert is_kind_lane(lane)
        assert kind_of(lane) == "media"
        with pytest.raises(InvalidInbox):
            canonical_inbox(f"https://{lane}.test@/inbox")
        # As far as a URL can hold it, it is not of the host.
        assert not is_kind_lane(canonical_inbox("https://media.test/inbox").authority)


def test_ids_of_jobs_and_of_deliveries_are_apart():
    assert kind_job_id("media", "k") != kind_job_id("medi", "ak")
    assert kind_job_id("media", "k") != job_id("media", "k")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "No"}, "handler: kind is 'No'"),
        ({"call": 3}, "call of handler 'media' is a int; allowed is a function"),
        ({"call": yields}, "call of handler 'media' is a generator function; allowed is one that returns"),
        ({"call": yields_later}, "call of handler 'media' is a generator function; allowed is one that returns"),
        ({"concurrency": 0}, "concurrency of handler 'media' is 0; allowed is a whole number from 1 to 256"),
        ({"concurrency": 1.5}, "allowed is a whole number from 1 to 256"),
        ({"concurrency": True}, "allowed is a whole number from 1 to 256"),
        ({"max_attempts": 101}, "max_attempts of handler 'media' is 101"),
        ({"timeout_s": 0}, "timeout_s of handler 'media' is 0; allowed is a number from 0.1"),
        ({"timeout_s": float("nan")}, "timeout_s of handler 'media' is nan"),
    ],
)
def test_a_handler_that_cannot_be_used_is_refused_by_name(fields: dict[str, Any], words: str):
    with pytest.raises(ConfigError) as raised:
        make(**({"kind": "media", "call": work} | fields))
    assert words in str(raised.value)


def test_which_handlers_run_in_the_loop():
    assert Handler(kind="media", call=work).is_async
    assert Handler(kind="media", call=functools.partial(work)).is_async
    assert Handler(kind="media", call=Works()).is_async
    assert not Handler(kind="media", call=plain).is_async


@pytest.mark.parametrize(
    ("handlers", "words"),
    [
        (Handler(kind="media", call=work), "handlers is a Handler; allowed is a list of Handler, also for one"),
        ([work], "handlers holds a function; allowed is Handler"),
        ([Handler(kind="media", call=work)] * 2, "handlers holds two of kind 'media'"),
        ({"media": work}, "handlers is a dict"),
    ],
)
def test_handlers_are_a_list_of_one_a_kind(handlers: Any, words: str):
    with pytest.raises(ConfigError, match=words):
        check_handlers(handlers)


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ("text", "payload is a str; allowed is a mapping or bytes"),
        (None, "payload is a NoneType"),
        ({"a": object()}, "payload cannot be written as JSON"),
        (b"x" * (MAX_PAYLOAD_BYTES + 1), "payload is 65537 bytes; allowed are 65536"),
        ({"a": "x" * MAX_PAYLOAD_BYTES}, "allowed are 65536"),
    ],
)
def test_a_payload_that_cannot_be_used_is_refused_and_not_quoted(payload: Any, words: str):
    with pytest.raises(InputError, match=words) as raised:
        payload_bytes(payload)
    assert "xxx" not in str(raised.value)


def test_payloads_become_bytes():
    assert payload_bytes({"user": 7}) == b'{"user":7}'
    assert payload_bytes(bytearray(b"\xff")) == b"\xff"


@pytest.mark.parametrize(
    ("when", "delay_s"),
    [
        ({"delay_s": 0.0}, 0.0),
        ({"delay_s": 5}, 5.0),
        ({"run_at": NOW + timedelta(hours=1)}, 3600.0),
        ({"run_at": NOW - timedelta(hours=1)}, 0.0),
    ],
)
def test_when_a_job_may_run(when: dict[str, Any], delay_s: float):
    assert delay_of(**({"run_at": None, "delay_s": 0.0} | when), now=NOW) == delay_s


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ({"run_at": NOW, "delay_s": 3}, "run_at and delay_s are given"),
        ({"run_at": datetime(2026, 1, 1)}, "allowed is a moment with its zone"),  # noqa: DTZ001 - that is tested
        ({"run_at": "tomorrow"}, "allowed is a moment with its zone"),
        ({"delay_s": -1}, "delay_s lies -1 s ahead"),
        ({"delay_s": float("nan")}, "delay_s lies nan s ahead"),
        ({"delay_s": "soon"}, "delay_s lies 'soon' s ahead"),
        ({"run_at": NOW + timedelta(days=4000)}, "run_at lies"),
    ],
)
def test_when_no_job_may_run(when: dict[str, Any], words: str):
    with pytest.raises(InputError, match=words):
        delay_of(**({"run_at": None, "delay_s": 0.0} | when), now=NOW)
