# SPDX-License-Identifier: Apache-2.0
"""Portable inboxes in their forms (FEP-ef61): which are the same one, and which are none."""

import dataclasses
from itertools import count
from typing import Any

import pytest

from ojak.model.inbox import InvalidInbox, canonical_inbox
from ojak.model.portable import (
    MAX_GATEWAYS,
    MAX_PORTABLE_BYTES,
    PortableInbox,
    canonical_portable,
    inbox_at,
    portable_form,
)

DID = "did:key:z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2"
URI = f"ap://{DID}/actor/inbox"
GATEWAYS = ("https://server1.example", "https://server2.example")

SAME = [
    URI,
    f"ap+ef61://{DID}/actor/inbox",
    f"AP://{DID}/actor/inbox",
    f"Ap+EF61://{DID}/actor/inbox",
    f"ap://{DID.replace(':', '%3A')}/actor/inbox",
    f"ap+ef61://{DID.replace(':', '%3a')}/actor/inbox",
    f"{URI}?gateways=https%3A%2F%2Fserver1.example,https%3A%2F%2Fserver2.example",
    f"{URI}?",
    f"https://server1.example/.well-known/apgateway/{DID}/actor/inbox",
    f"https://server1.example/.well-known/apgateway/{DID.replace(':', '%3A')}/actor/inbox",
    f"HTTPS://SERVER9.example:443/.well-known/apgateway/{DID}/actor/inbox?x=1",
    f"http://server1.example:8080/.well-known/apgateway/{DID}/actor/inbox",
]

OTHERS = [
    f"ap://{DID}/actor/Inbox",
    f"ap://{DID}/actor/inbox/",
    f"ap://{DID}/actor//inbox",
    f"ap://{DID}/actor/./inbox",
    f"ap://{DID}/actor/%69nbox",
    f"ap://{DID[:-1]}3/actor/inbox",
    "ap://did:web:example.com%3A3000/actor/inbox",
    "ap://did:web:example.com:users:3000/actor/inbox",
]

REFUSED = {
    "": "url",
    "actor/inbox": "url",
    "did:key:z6Mk/inbox": "url",
    "https://server1.example/inbox": "url",
    f"https://server1.example/apgateway/{DID}/inbox": "url",
    f"https://server1.example/x?/.well-known/apgateway/{DID}/inbox": "url",
    f"https://server1.example/.well-known/apgateway/{DID}/inbox#k": "fragment",
    f"https://user:pw@server1.example/.well-known/apgateway/{DID}/inbox": "userinfo",
    f"ftp://server1.example/.well-known/apgateway/{DID}/inbox": "url",
    f"{URI}#main-key": "fragment",
    f"ap:{DID}/inbox": "url",
    f"ap:/{DID}/inbox": "url",
    f" {URI}": "url",
    f"ap://{DID}": "path",
    f"ap://{DID}/": "path",
    f"ap://{DID}?x": "path",
    f"https://server1.example/.well-known/apgateway/{DID}": "path",
    f"ap://{DID}/in box": "path",
    f"ap://{DID}/inböx": "path",
    f"ap://{DID}/inbox\n": "path",
    f"ap://{DID}/in\x00box": "path",
    "ap:///inbox": "DID",
    "ap://server1.example/inbox": "DID",
    "ap://did:key:/inbox": "DID",
    "ap://did:key/inbox": "DID",
    "ap://DID:key:z6Mk/inbox": "DID",
    "ap://did:KEY:z6Mk/inbox": "DID",
    "ap://did:key:u6Mk/inbox": "DID",
    "ap://did:key:z6M%6B/inbox": "DID",
    "ap://did:key:z6M0/inbox": "DID",
    "ap://did%3Akey%3Az6M%256B/inbox": "DID",
    "ap://did%3Aex%3A%FF/inbox": "DID",
    "ap://did:web:exa mple/inbox": "DID",
    f"ap://user:pw@{DID}/inbox": "DID",
    f"ap://did:key:z{'6' * 3000}/inbox": "url",
}


def canonical(url: str, *gateways: str) -> str:
    return canonical_portable(PortableInbox(url, gateways or GATEWAYS)).uri


@pytest.mark.parametrize("url", SAME)
def test_one_inbox_in_all_its_forms(url: str):
    assert canonical(url) == URI
    assert canonical(canonical(url)) == URI


@pytest.mark.parametrize("url", OTHERS)
def test_what_is_not_the_same_stays_apart(url: str):
    assert canonical(url) == url


def test_a_did_that_is_encoded_as_a_whole_keeps_what_was_encoded_in_it():
    assert canonical("ap://did%3Aweb%3Aexample.com%253A3000/inbox") == "ap://did:web:example.com%3A3000/inbox"


@pytest.mark.parametrize(("url", "field"), REFUSED.items(), ids=range(len(REFUSED)))
def test_what_is_no_portable_inbox_is_refused_by_the_part_that_is_wrong(url: str, field: str):
    with pytest.raises(InvalidInbox) as refused:
        canonical(url)
    assert refused.value.field == field
    assert refused.value.allowed
    assert "pw" not in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


def test_a_delivery_is_posted_below_the_well_known_path_of_a_gateway():
    inbox = canonical_portable(PortableInbox(f"{URI}?x=1", ["https://Server1.example:443/", "http://h.test:8080"]))
    urls = [inbox_at(gateway.origin, inbox.uri) for gateway in inbox.gateways]
    assert urls == [
        f"https://server1.example/.well-known/apgateway/{DID}/actor/inbox",
        f"http://h.test:8080/.well-known/apgateway/{DID}/actor/inbox",
    ]
    assert [gateway.authority for gateway in inbox.gateways] == ["server1.example", "h.test:8080"]
    for url, gateway in zip(urls, inbox.gateways, strict=True):
        assert canonical_inbox(url).url == url
        assert canonical_inbox(url).authority == gateway.authority


def test_gateways_keep_their_order_and_each_counts_once():
    given = [
        "https://b.example",
        "https://a.example",
        "https://B.example/",
        "http://b.example",
        "https://münchen.example",
    ]
    found = canonical_portable(PortableInbox(URI, given)).gateways
    assert [gateway.origin for gateway in found] == [
        "https://b.example",
        "https://a.example",
        "http://b.example",
        "https://xn--mnchen-3ya.example",
    ]


def test_a_compatible_id_names_a_gateway_if_no_others_are_given():
    url = f"https://server9.example/.well-known/apgateway/{DID}/actor/inbox"
    (own,) = canonical_portable(PortableInbox(url)).gateways
    assert own.origin == "https://server9.example"
    assert [one.origin for one in canonical_portable(PortableInbox(url, GATEWAYS)).gateways] == [*GATEWAYS]


@pytest.mark.parametrize(
    ("gateways", "field"),
    [
        ([], "gateways"),
        ([f"https://g{n}.example" for n in range(MAX_GATEWAYS + 1)], "gateways"),
        (["https://a.example/path"], "gateways[0]"),
        (["https://a.example?x"], "gateways[0]"),
        (["https://a.example", "https://b.example/#x"], "gateways[1] fragment"),
        (["https://a.example", "ftp://b.example"], "gateways[1] scheme"),
        (["https://user:pw@b.example"], "gateways[0] userinfo"),
        (["b.example"], "gateways[0] url"),
        ([None], "gateways[0] url"),
        (["https://a.example", f"https://{'x.' * 100}example"], "gateways[1]"),
    ],
)
def test_gateways_that_cannot_be_posted_to_are_refused_by_name(gateways: list[Any], field: str):
    uri = URI if len(gateways) != 2 or "x." not in str(gateways) else f"ap://{DID}/{'i' * (MAX_PORTABLE_BYTES - 200)}"
    with pytest.raises(InvalidInbox) as refused:
        canonical_portable(PortableInbox(uri, gateways))
    assert refused.value.field == field
    assert "pw" not in str(refused.value)


def test_any_gateways_that_come_one_by_one_are_taken_and_no_more_than_can_be_used():
    def origins() -> Any:
        yield from GATEWAYS

    assert PortableInbox(URI, origins()).gateways == GATEWAYS
    endless = PortableInbox(URI, (f"https://g{n}.example" for n in count()))  # type: ignore[arg-type]
    with pytest.raises(InvalidInbox, match="more than 10; allowed: 1 to 10 origins"):
        canonical_portable(endless)


@pytest.mark.parametrize("gateways", ["https://a.example", b"x", 7, None])
def test_what_is_no_list_of_gateways_is_an_error(gateways: Any):
    with pytest.raises(InvalidInbox, match="gateways is a"):
        PortableInbox(URI, gateways)


@pytest.mark.parametrize("url", [None, 7, b"ap://did:key:z6Mk/inbox"])
def test_an_id_that_is_no_text_is_refused(url: Any):
    with pytest.raises(InvalidInbox, match="inbox url is a"):
        canonical(url)


def test_a_reference_is_bounded_as_that_of_any_inbox():
    assert PortableInbox(URI, GATEWAYS, ref="x").ref == "x"
    with pytest.raises(InvalidInbox, match="ref"):
        PortableInbox(URI, GATEWAYS, ref="x" * 5000)


def test_it_is_a_frozen_value():
    inbox = PortableInbox(URI, GATEWAYS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        inbox.url = "x"  # type: ignore[misc]


def test_an_ordinary_inbox_in_the_compatible_form_is_recognised():
    url = f"https://server1.example/.well-known/apgateway/{DID}/actor/inbox"
    assert portable_form(url) == PortableInbox(URI, ("https://server1.example",))
    for other in (
        "https://a.example/inbox",
        f"https://a.example/x{url}",
        f"{url}#x",
        "https://a.example/.well-known/apgateway/x",
    ):
        assert portable_form(other) is None
