# SPDX-License-Identifier: Apache-2.0
import pytest

from ojak.errors import ConfigError
from ojak.http.outbound import Outbound
from ojak.model.domains import BlockedDomains
from ojak.model.inbox import InvalidInbox, canonical_inbox


def covers(domains: BlockedDomains, url: str) -> bool:
    return domains.covers(canonical_inbox(url).authority)


@pytest.mark.parametrize(
    "url",
    [
        "https://bad.example/inbox",
        "https://BAD.example./inbox",
        "https://a.b.bad.example/inbox",
        "http://bad.example:8080/inbox",
        "https://www.blå.example/inbox",
        "https://xn--bl-zia.example/inbox",
        "https://192.0.2.7:8443/inbox",
        "https://[2001:DB8::1]/inbox",
        "https://[2001:db8:0::1]:8443/inbox",
        "https://deep.x.star.example/inbox",
    ],
)
def test_a_domain_is_blocked_with_all_below_it_in_whatever_form_and_at_any_port(url: str):
    names = ["Bad.Example.", "BLÅ.example", "192.0.2.7", "2001:db8::1", "*.star.example", "ünused.test"]
    assert covers(BlockedDomains(names), url)
    with pytest.raises(InvalidInbox, match="outside the blocked domains"):
        BlockedDomains(names).check(canonical_inbox(url))


@pytest.mark.parametrize(
    "url",
    [
        "https://notbad.example/inbox",
        "https://example/inbox",
        "https://bad.example.org/inbox",
        "https://xbad.example/inbox",
        "https://192.0.2.70/inbox",
    ],
)
def test_its_neighbours_are_not(url: str):
    assert not covers(BlockedDomains(["bad.example", "0.2.test", "192.0.2.7"]), url)


def test_without_any_nothing_is():
    assert not BlockedDomains()
    assert not covers(BlockedDomains(), "https://bad.example/inbox")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "https://bad.example",
        "bad.example:8080",
        "bad.example/path",
        "b d.example",
        "u@bad.example",
        "a#b",
        "*",
        ".",
    ],
)
def test_what_is_no_domain_is_refused_by_name(name: str):
    with pytest.raises(ConfigError, match="allowed is a domain such as"):
        Outbound(blocked_domains=(name,))


def test_what_is_no_text_is_too():
    with pytest.raises(ConfigError, match="holds 7"):
        BlockedDomains([7])  # type: ignore[list-item]
