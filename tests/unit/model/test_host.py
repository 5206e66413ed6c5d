# SPDX-License-Identifier: Apache-2.0
import pytest

from ojak.errors import InputError
from ojak.model.host import canonical_host
from ojak.model.inbox import canonical_inbox


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("x.test", "x.test"),
        ("X.Test.", "x.test"),
        ("x.test:8443", "x.test:8443"),
        ("x.test:443", "x.test"),
        ("x.test:0443", "x.test"),
        ("x.test:80", "x.test"),
        ("x.test:080", "x.test"),
        ("x.test:8080", "x.test:8080"),
        ("https://x.test", "x.test"),
        ("https://x.test/", "x.test"),
        ("https://x.test:443/", "x.test"),
        ("http://x.test:80", "x.test"),
        ("http://x.test:443", "x.test:443"),
        ("https://x.test:80", "x.test:80"),
        ("HTTP://x.test:443", "x.test:443"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("[2606:4700::80]", "[2606:4700::80]"),
        ("[2606:4700:0:0::1]:80", "[2606:4700::1]"),
        ("192.0.2.1:443", "192.0.2.1"),
    ],
)
def test_a_host_is_named_as_it_is_kept(given: str, kept: str):
    assert canonical_host(given) == kept


@pytest.mark.parametrize("url", ["https://x.test/i", "http://x.test/i", "http://x.test:443/i", "https://x.test:80/i"])
def test_the_origin_of_any_inbox_names_its_host(url: str):
    assert canonical_host(url.removesuffix("/i")) == canonical_inbox(url).authority


@pytest.mark.parametrize(
    "given",
    [
        *("", "/", "a b", "ftp://x.test", "u@x.test", "https://u@x.test", "x.test:99999", "x.test?q"),
        *("x.test/", "x.test/path", "https://", "https:///", "https://x.test/in", "https://x.test//"),
        "http://https://x.test",
    ],
)
def test_what_is_no_host_is_refused_with_what_is_allowed(given: str):
    with pytest.raises(InputError, match=r"host is .*allowed is a host's name.*http://example\.org:443"):
        canonical_host(given)
