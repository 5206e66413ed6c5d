# SPDX-License-Identifier: Apache-2.0
import pytest

from ojak.demo.cast import FULL_CAST, SORTS, dead_labels, plan_of_cast


@pytest.mark.parametrize("hosts", [10, 40, 200, 1000])
def test_a_farm_has_so_many_hosts_and_the_sorts_in_proportion(hosts):
    plan = plan_of_cast(hosts)
    assert len(plan.hosts) == hosts
    labels = [host.label for host in plan.hosts]
    for sort in SORTS:
        assert labels.count(sort.word) == sort.count * hosts // FULL_CAST


def test_of_two_hundred_hosts_most_accept_and_every_sort_is_there():
    plan = plan_of_cast(FULL_CAST)
    labels = [host.label for host in plan.hosts]
    assert labels.count("accept") > 60
    assert {sort.word for sort in SORTS} < set(labels)
    assert {host.tls for host in plan.hosts} == {True, False}


def test_a_host_that_nobody_waits_for_never_accepts():
    for host in plan_of_cast(FULL_CAST).hosts:
        assert not (host.label in dead_labels() and host.living and host.label not in {"expired", "untrusted"})
