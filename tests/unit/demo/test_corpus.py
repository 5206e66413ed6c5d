# SPDX-License-Identifier: Apache-2.0
from importlib.resources import files

import orjson

from ojak.demo.corpus import load_corpus
from ojak.demo.fanout import FANOUT, fanout, pool_of
from ojak.farm import FarmHost


def test_every_activity_is_there_as_its_file_has_it_and_says_who_sends_it():
    pieces = load_corpus()
    assert len(pieces) == 88
    for piece in pieces:
        assert piece.body == (files("ojak.demo") / "activities" / piece.name).read_bytes()
        assert piece.sender.startswith(("http://", "https://"))


def test_no_two_activities_share_an_id_so_that_none_has_to_wait_for_another():
    pieces = load_corpus()
    assert len({piece.identity for piece in pieces}) == len(pieces)
    assert all(orjson.loads(piece.body)["id"] == piece.identity for piece in pieces)


def _hosts(count: int) -> list[FarmHost]:
    return [
        FarmHost(name=f"h{n}.test", address="127.0.0.1", label="accept", origin=f"http://h{n}.test", living=True)
        for n in range(count)
    ]


def test_a_fan_out_is_of_distinct_inboxes_shared_and_personal_and_the_same_each_time():
    pool = pool_of(_hosts(200))
    first = fanout(pool, 1)
    assert first == fanout(pool, 1)
    assert first != fanout(pool, 2)
    assert len({inbox.url for inbox in first}) == FANOUT
    assert {inbox.shared for inbox in first} == {True, False}


def test_the_smallest_farm_has_inboxes_enough():
    assert len(fanout(pool_of(_hosts(10)), 1)) == FANOUT
