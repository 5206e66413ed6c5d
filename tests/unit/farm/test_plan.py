# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

import orjson
import pytest

from ojak.farm import FarmPlan, HostPlan, Phase, PlanError, load_plan, parse_plan, plan_of_words
from ojak.farm.behaviour import Drip, HangUp, Moment, Reach, Respond, Silent, Unreachable
from ojak.farm.plan import Certificate
from ojak.farm.preset import PRESETS, apply_preset, preset_behaviour
from ojak.signing.scheme import Scheme


def test_words_give_so_many_hosts_each_and_the_rest_accepts() -> None:
    plan = plan_of_words(5, [("slow:700", 2), ("cavage-only+tls", 1)])
    assert [host.label for host in plan.hosts] == ["slow:700", "slow:700", "cavage-only+tls", "accept", "accept"]
    assert [host.name for host in plan.hosts] == [f"h0000{number}.farm.test" for number in range(1, 6)]
    assert [host.address for host in plan.hosts] == [f"127.1.0.{number}" for number in range(1, 6)]
    assert plan.hosts[0].script == (Phase(behaviour=Respond(latency_ms=700)),)
    assert plan.hosts[2].schemes == (Scheme.CAVAGE,)
    assert plan.hosts[2].tls


def test_addresses_go_past_255() -> None:
    plan = plan_of_words(70_000, [])
    assert plan.hosts[255].address == "127.1.1.0"
    assert plan.hosts[65_535].address == "127.2.0.0"


def test_more_behaviours_than_hosts_is_refused() -> None:
    with pytest.raises(PlanError, match="name 3 hosts, but hosts is 2"):
        plan_of_words(2, [("gone", 3)])


@pytest.mark.parametrize("word", PRESETS)
def test_each_word_makes_a_host_that_survives_a_plan_file(word: str) -> None:
    text = {"status": "status:418", "close-after": "close-after:4"}.get(word, word)
    plan = plan_of_words(2, [(text, 1)])
    assert parse_plan(orjson.loads(plan.to_json())) == plan


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slwo", "'slwo' is none of: accept, slow"),
        ("slow:fast", "written slow[:MS]"),
        ("slow:-3", "written slow[:MS]"),
        ("status", "written status:CODE"),
        ("status:600", "behaviour.respond.status is 600"),
        ("reset:never", "written reset[:MOMENT]"),
        ("accept+", "'' is none of"),
    ],
)
def test_a_wrong_word_is_named_with_what_is_allowed(text: str, words: str) -> None:
    with pytest.raises(PlanError, match=re.escape(words)):
        apply_preset(HostPlan(name="h"), text, "behaviour")


def test_words_of_a_phase_may_only_answer() -> None:
    assert preset_behaviour("reset:connect", "f") == HangUp(moment=Moment.CONNECT)
    with pytest.raises(PlanError, match="changes the host"):
        preset_behaviour("tls", "f")
    with pytest.raises(PlanError, match="changes the host"):
        preset_behaviour("rate-limited", "f")


def test_a_plan_file_with_groups_scripts_and_fields(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(
        """{"domain": "example.test", "seed": 7, "keep_alive_s": 5, "hosts": [
            {"count": 2, "behaviour": "rfc9421-only", "label": "new", "only_paths": ["/users/ALLCAPS/inbox"]},
            {"name": "odd.test", "address": "127.9.9.9", "cycle": true, "tls": true, "certificate": "expired",
             "script": [{"behaviour": "status:503", "requests": 2},
                        {"behaviour": {"kind": "drip", "part": "body"}, "for_s": 1.5}]}]}"""
    )
    plan = load_plan(path)
    assert [host.name for host in plan.hosts] == ["h00001.example.test", "h00002.example.test", "odd.test"]
    assert plan.hosts[1].schemes == (Scheme.RFC9421,)
    assert plan.hosts[1].label == "new"
    assert plan.hosts[2].certificate is Certificate.EXPIRED
    assert plan.hosts[2].script[0] == Phase(behaviour=Respond(status=503), requests=2)
    assert isinstance(plan.hosts[2].script[1].behaviour, Drip)
    assert plan.keep_alive_s == 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "is not JSON"),
        ("[]", "no JSON object with a list of hosts"),
        ('{"hosts": []}', "hosts is"),
        ('{"hosts": [3]}', "hosts[0] is '3', but an object is wanted"),
        ('{"hosts": [{"count": 0}]}', "hosts[0].count is 0"),
        ('{"hosts": [{"count": 2, "name": "a.test"}]}', "hosts[0] has a count and a name"),
        ('{"hosts": [{"count": 100000}]}', "hosts[0].count is 100000"),
        ('{"hosts": [{"colour": "red"}]}', "hosts[0].colour is 'red'"),
        ('{"hosts": [{"name": "A.test"}]}', "hosts[0].name is 'A.test'"),
        ('{"hosts": [{"name": "a.test"}, {"name": "a.test"}]}', "hosts[1].name 'a.test' is there twice"),
        ('{"hosts": [{"address": "127.1.0.2"}, {}]}', "hosts[1].address '127.1.0.2' is taken"),
        ('{"hosts": [{"address": "127.0.0.999"}]}', "hosts[0].address '127.0.0.999'"),
        ('{"hosts": [{"address": "10.0.0.1"}]}', "hosts[0].address is '10.0.0.1'"),
        ('{"hosts": [{"schemes": ["rot13"]}]}', "hosts[0].schemes[0] is 'rot13'"),
        ('{"hosts": [{"behaviour": {"kind": "silent"}}]}', "a word is wanted"),
        ('{"hosts": [{"script": [{"behaviour": "gone"}, {"behaviour": "accept"}]}]}', "script[0] never ends"),
        ('{"hosts": [{"script": [{"behaviour": "refuse", "requests": 2}, {"behaviour": "accept"}]}]}', "for_s"),
        ('{"hosts": [{"script": [{"behaviour": {"kind": "melt"}}]}]}', "hosts[0].script[0].behaviour is"),
        ('{"hosts": [{}], "http_port": 70000}', "http_port is 70000"),
    ],
)
def test_a_wrong_plan_file_is_refused_with_field_and_value(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(PlanError, match=re.escape(words)):
        load_plan(path)


def test_a_plan_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be read: No such file"):
        load_plan(tmp_path / "none.json")


def test_a_plan_made_in_code_is_checked_when_it_is_written() -> None:
    with pytest.raises(PlanError, match=r"hosts\[0\].script\[0\].behaviour.respond.status is 42"):
        FarmPlan(hosts=(HostPlan(name="h", script=(Phase(behaviour=Respond(status=42)),)),)).to_json()


@pytest.mark.parametrize(
    ("script", "cycle", "living"),
    [
        ((Phase(behaviour=Respond()),), False, True),
        ((Phase(behaviour=Respond(latency_ms=40_000)),), False, False),
        ((Phase(behaviour=Respond(status=410)),), False, False),
        ((Phase(behaviour=Silent(), requests=3), Phase(behaviour=Respond())), False, True),
        ((Phase(behaviour=Respond(), requests=3), Phase(behaviour=Unreachable())), False, False),
        ((Phase(behaviour=Respond(status=503), requests=3), Phase(behaviour=Respond(), requests=1)), True, True),
    ],
)
def test_living_means_that_it_accepts_in_the_end(script: tuple[Phase, ...], *, cycle: bool, living: bool) -> None:
    assert HostPlan(name="h", script=script, cycle=cycle).living is living


def test_only_hosts_that_can_be_unreachable_need_a_port_of_their_own() -> None:
    assert not HostPlan(name="h").needs_own_port
    assert HostPlan(name="h", own_port=True).needs_own_port
    gone = Phase(behaviour=Unreachable(reach=Reach.SWALLOWS))
    assert HostPlan(name="h", script=(gone,)).needs_own_port
