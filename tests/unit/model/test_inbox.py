# SPDX-License-Identifier: Apache-2.0
import dataclasses
from typing import Any

import pytest

from ojak.errors import OjakError
from ojak.model.inbox import MAX_URL_BYTES, Inbox, InvalidInbox, canonical_inbox

SAME = [
    "https://example.org/inbox",
    "https://example.org/users/ALLCAPS/inbox",
    "http://example.org//f/inbox",
    "https://example.org/caf%C3%A9/inb%6fx?x=%2f%2F&y",
    "https://example.org/_ap/inbox/user%40example.org:x",
    "https://example.org/a;b=1,2/@c!$&'()*?d=!$'()*,;:@/?",
    "https://example.org/inbox?",
    "https://example.org/a/../b/./c",
    "https://example.org:8443/inbox",
    "https://under_score.example.org/inbox",
    "https://xn--mnchen-3ya.example/inbox",
    "https://xn--0.example/inbox",
    "http://127.0.0.1:8081/i",
    "http://[::1]:8081/i",
    "http://localhost/i",
    "https://3com.example/i",
    "https://example.3com/i",
]

CHANGED = {
    "https://example.org": ("https://example.org/", "example.org", "/"),
    "https://example.org?x=1": ("https://example.org/?x=1", "example.org", "/?x=1"),
    "HTTPS://EXAMPLE.ORG/Inbox": ("https://example.org/Inbox", "example.org", "/Inbox"),
    "http://h.test:80/i": ("http://h.test/i", "h.test", "/i"),
    "https://h.test:443/i": ("https://h.test/i", "h.test", "/i"),
    "https://h.test:80/i": ("https://h.test:80/i", "h.test:80", "/i"),
    "https://h.test:/i": ("https://h.test/i", "h.test", "/i"),
    "https://h.test:0443/i": ("https://h.test/i", "h.test", "/i"),
    "http://H.Test:8081/i": ("http://h.test:8081/i", "h.test:8081", "/i"),
    "https://h.test./i": ("https://h.test/i", "h.test", "/i"),
    "https://h.test.:443/i": ("https://h.test/i", "h.test", "/i"),
    "https://münchen.example/i": ("https://xn--mnchen-3ya.example/i", "xn--mnchen-3ya.example", "/i"),
    "https://MÜNCHEN.example/i": ("https://xn--mnchen-3ya.example/i", "xn--mnchen-3ya.example", "/i"),
    "https://faß.example/i": ("https://xn--fa-hia.example/i", "xn--fa-hia.example", "/i"),
    "https://日本。example/i": ("https://xn--wgv71a.example/i", "xn--wgv71a.example", "/i"),
    "https://foo_bar.münchen.de/i": ("https://foo_bar.xn--mnchen-3ya.de/i", "foo_bar.xn--mnchen-3ya.de", "/i"),
    "https://ｅxample.org/i": ("https://example.org/i", "example.org", "/i"),
    "http://１２７.0.0.1/": ("http://127.0.0.1/", "127.0.0.1", "/"),
    "http://[2001:DB8:0:0:0:0:0:1]/i": ("http://[2001:db8::1]/i", "[2001:db8::1]", "/i"),
    "http://[::FFFF:1.2.3.4]:81/i": ("http://[::ffff:1.2.3.4]:81/i", "[::ffff:1.2.3.4]:81", "/i"),
    "http://[::ffff:102:304]/i": ("http://[::ffff:1.2.3.4]/i", "[::ffff:1.2.3.4]", "/i"),
}

REFUSED = {
    "": "url",
    "inbox": "url",
    "/inbox": "url",
    "//example.org/inbox": "url",
    "https:example.org/inbox": "url",
    "https:/example.org/inbox": "url",
    " https://example.org/": "url",
    "https://example.org/\n": "path",
    "ftp://example.org/": "scheme",
    "ap://did:key:z6Mk/inbox": "scheme",
    "ap+ef61://did:key:z6Mk/inbox": "scheme",
    "javascript://example.org/": "scheme",
    "https://user:pw@example.org/": "userinfo",
    "https://@example.org/": "userinfo",
    "https:///inbox": "host",
    "https://": "host",
    "https://:443/": "host",
    "https://./": "host",
    "https://a..b/": "host",
    "https://example.org../": "host",
    "https://.example.org/": "host",
    "https://exa mple.org/": "host",
    "https://exa%6dple.org/": "host",
    "https://example.org\t/": "host",
    "https://example.org\r\nX: y/": "host",
    "https://ex\x00ample.org/": "host",
    "https://example.org\\@evil.example/": "path",
    "https://a,b/": "host",
    "https://\ud800.example/": "host",
    "https://a\u2100b.example/": "host",
    "https://😀.example/": "host",
    "https://" + "a" * 64 + ".example/": "host",
    "https://" + "a." * 127 + "example/": "host",
    "https://" + "ü" * 300 + "/": "host",
    "http://127.1/": "host",
    "http://2130706433/": "host",
    "http://0x7f.0.0.1/": "host",
    "http://0x7f000001/": "host",
    "http://0177.0.0.1/": "host",
    "http://127.0.0.256/": "host",
    "http://1.2.3.4.5/": "host",
    "http://example.0x/": "host",
    "http://[::1%25eth0]/": "host",
    "http://[::1%eth0]/": "host",
    "http://[1.2.3.4]/": "host",
    "http://[::1/": "host",
    "http://::1/": "host",
    "http://[v1.x]/": "host",
    "https://example.org:0/": "port",
    "https://example.org:65536/": "port",
    "https://example.org:99999999/": "port",
    "https://example.org:+80/": "host",
    "https://example.org:8_0/": "host",
    "https://example.org:٨٠/": "host",
    "https://example.org/a b": "path",
    "https://example.org/café": "path",
    "https://example.org/?q=é": "path",
    "https://example.org/in\tbox": "path",
    "https://example.org/a\r\nHost: evil.example": "path",
    "https://example.org/a\x7f": "path",
    "https://example.org/a\x00": "path",
    "https://example.org/#frag": "fragment",
    "https://example.org#frag": "fragment",
    "https://example.org/a?b#": "fragment",
}


@pytest.mark.parametrize(
    ("ref", "value"),
    [
        (7, "a int"),
        (b"x", "a bytes"),
        ("x" * 4097, "4097 bytes long"),
        ("\u20ac" * 1366, "4098 bytes long"),
        ("a\ud800", "a string with a lone surrogate"),
    ],
)
def test_a_reference_that_cannot_be_kept_is_refused(ref: Any, value: str):
    with pytest.raises(InvalidInbox) as refusal:
        Inbox("https://example.org/inbox", ref=ref)
    assert (refusal.value.field, refusal.value.value) == ("ref", value)
    assert refusal.value.allowed == "None, or a string of at most 4096 bytes"


@pytest.mark.parametrize("ref", [None, "", "x" * 4096, "\u20ac" * 1365, "a\x00b"])
def test_a_reference_stays_as_it_is(ref: str | None):
    assert Inbox("https://example.org/inbox", ref=ref).ref == ref


@pytest.mark.parametrize("url", [None, 7, b"https://example.org/inbox", ["https://example.org/inbox"]])
def test_what_is_no_text_is_no_inbox(url: Any):
    with pytest.raises(InvalidInbox, match="allowed: a string") as refusal:
        canonical_inbox(url)
    assert refusal.value.field == "url"


@pytest.mark.parametrize("url", SAME)
def test_a_canonical_url_stays_as_it_is(url: str) -> None:
    assert canonical_inbox(url).url == url


@pytest.mark.parametrize(("url", "wanted"), CHANGED.items())
def test_every_way_to_write_a_url_comes_to_one(url: str, wanted: tuple[str, str, str]) -> None:
    inbox = canonical_inbox(url)
    assert (inbox.url, inbox.authority, inbox.target) == wanted
    assert canonical_inbox(inbox.url) == inbox


@pytest.mark.parametrize(("url", "field"), REFUSED.items())
def test_what_is_no_inbox_is_refused_with_its_part(url: str, field: str) -> None:
    with pytest.raises(InvalidInbox) as caught:
        canonical_inbox(url)
    assert isinstance(caught.value, OjakError)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"inbox {field} is ")
    assert "allowed: " in str(caught.value)
    assert str(caught.value).replace("…", "").isascii()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1200


def test_parts_of_an_ipv6_inbox() -> None:
    inbox = canonical_inbox("https://[2001:db8::1]:8443/i")
    assert (inbox.host, inbox.port, inbox.authority) == ("2001:db8::1", 8443, "[2001:db8::1]:8443")


@pytest.mark.parametrize(("url", "port"), [("http://a/", 80), ("https://a/", 443), ("https://a:80/", 80)])
def test_port_is_known_also_when_it_is_the_default(url: str, port: int) -> None:
    assert canonical_inbox(url).port == port


def test_two_kibibytes_are_the_most() -> None:
    longest = "https://example.org/".ljust(MAX_URL_BYTES, "a")
    assert canonical_inbox(longest).url == longest
    with pytest.raises(InvalidInbox, match="2049 characters long; allowed: at most 2048 bytes"):
        canonical_inbox(longest + "a")
    with pytest.raises(InvalidInbox, match="2049 bytes long"):
        canonical_inbox("https://example.org?".ljust(MAX_URL_BYTES, "a"))


@pytest.mark.parametrize(
    "url",
    [
        "https://alice:hunter2@example.org/",
        "https://alice:hunter2@example.org/#x",
        "alice:hunter2@example.org",
        "https:///alice:hunter2@example.org/",
        "https:alice:hunter2@example.org/",
        "https:\\\\alice:hunter2@example.org/",
        "ftp://alice:hunter2@example.org/",
    ],
)
def test_a_password_is_not_shown(url: str) -> None:
    with pytest.raises(InvalidInbox) as caught:
        canonical_inbox(url)
    assert "hunter2" not in f"{caught.value}{caught.value.value}{caught.value.__cause__}{caught.value.__context__}"


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(InvalidInbox) as caught:
        canonical_inbox("x" * 2000)
    assert len(caught.value.value) < 120


def test_inbox_takes_its_url_by_position_and_the_rest_by_name() -> None:
    inbox = Inbox("https://example.org/inbox", shared=True, ref="7")
    assert inbox == Inbox(url="https://example.org/inbox", shared=True, ref="7")
    assert not Inbox("https://example.org/inbox").shared
    with pytest.raises(TypeError):
        Inbox("https://example.org/inbox", True)  # type: ignore[call-arg]
    with pytest.raises(dataclasses.FrozenInstanceError):
        inbox.shared = False  # type: ignore[misc]
