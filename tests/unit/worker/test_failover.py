# SPDX-License-Identifier: Apache-2.0
"""What a gateway's answer makes of a delivery, before anything is asked of the database."""

from dataclasses import replace

from tests.jobs import TEMPLATE

from ojak.model.failover import Came, Route, Tried
from ojak.model.job import Job
from ojak.model.outcome import SettledOutcome
from ojak.store.settle import Ended, without_attempt
from ojak.worker.failover import Passed, given_up, passed

URI = "ap://did:key:z6Mk/inbox"
ORIGINS = ("https://g0.test", "https://g1.test:8443", "http://g2.test")


def job(place: int = 0, *tried: Tried) -> Job:
    return replace(TEMPLATE, inbox=URI, route=Route(origins=ORIGINS, place=place, tried=tried))


def gone(place: int) -> Tried:
    return Tried(place=place, came=Came.GONE, status=404, reason="status-404")


def test_a_request_goes_to_the_gateway_whose_turn_it_is():
    assert job(1).url == "https://g1.test:8443/.well-known/apgateway/did:key:z6Mk/inbox"
    assert replace(TEMPLATE, inbox="https://h.test/i").url == "https://h.test/i"
    route = job(1).route
    assert route is not None
    assert route.authorities() == ["g0.test", "g1.test:8443", "g2.test"]


def test_while_gateways_are_left_it_goes_on():
    outcome = passed(job(0), Came.FAILED, status=500, reason="status-500", scheme="cavage", maybe=True)
    assert isinstance(outcome, Passed)
    assert (outcome.spent, outcome.goes_on, outcome.maybe_delivered) == (True, True, True)
    assert outcome.tried == (Tried(place=0, came=Came.FAILED, status=500, reason="status-500", scheme="cavage"),)


def test_the_last_of_final_answers_ends_it_with_what_all_said():
    outcome = passed(job(2, gone(0), gone(1)), Came.REFUSED, status=403, reason="status-403", detail="no")
    assert isinstance(outcome, Ended)
    assert (outcome.outcome, outcome.status, outcome.spent, outcome.detail) == (SettledOutcome.REFUSED, 403, True, "no")
    assert [one.status for one in outcome.tried] == [404, 404, 403]
    outcome = passed(job(2, gone(0), gone(1)), Came.GONE, status=410, reason="status-410", detail="no")
    assert isinstance(outcome, Ended)
    assert (outcome.outcome, outcome.detail) == (SettledOutcome.RECIPIENT_GONE, "")


def test_a_failure_at_the_last_is_not_the_end():
    outcome = passed(job(2, gone(0), gone(1)), Came.FAILED, status=500, reason="status-500")
    assert isinstance(outcome, Passed)
    assert (outcome.spent, outcome.goes_on) == (True, False)


def test_a_gateway_that_is_asked_again_counts_once():
    outcome = passed(job(0, Tried(place=0, came=Came.FAILED, free=True)), Came.GONE, status=404, reason="status-404")
    assert isinstance(outcome, Passed)
    assert outcome.tried == (gone(0),)


def test_an_attempt_that_other_gateways_were_asked_in_counts_however_it_ends():
    assert without_attempt(job(1, gone(0)), SettledOutcome.CANCELLED, "cancelled").spent
    assert not without_attempt(job(1), SettledOutcome.CANCELLED, "cancelled").spent
    probe = Tried(place=0, came=Came.FAILED, free=True)
    assert not without_attempt(job(1, probe), SettledOutcome.CANCELLED, "cancelled").spent


def test_a_host_that_has_long_been_away_ends_what_has_no_other_gateway():
    plain = given_up(TEMPLATE)
    assert isinstance(plain, Ended)
    assert plain.outcome is SettledOutcome.HOST_UNAVAILABLE
    portable = given_up(job(0))
    assert isinstance(portable, Passed)
    assert portable.unavailable
    assert not portable.spent
