# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ojak.errors import ConfigError
from ojak.http.resolver_map import load_resolver_map


def test_names_become_canonical_and_addresses_a_tuple(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text('{"H.test": "127.0.0.1", "münchen.test": ["::1", "127.0.0.2"], "a.test.": "2001:DB8:0::1"}')
    assert load_resolver_map(path) == {
        "h.test": ("127.0.0.1",),
        "xn--mnchen-3ya.test": ("::1", "127.0.0.2"),
        "a.test": ("2001:db8::1",),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no JSON"),
        ("[]", "holds no JSON object"),
        ('{"h.test": 5}', "has 5 for host 'h.test'; allowed is an IP address"),
        ('{"h.test": []}', r"has \[\] for host"),
        ('{"h.test": "localhost"}', "has 'localhost' for host"),
        ('{"h.test": ["127.0.0.1", "127.1"]}', "for host"),
        ('{"h.test:80": "127.0.0.1"}', "a host name without a port|host 'h.test:80'"),
        ('{"h.test:81": "127.0.0.1"}', "a host name without a port"),
        ('{"h.test/x": "127.0.0.1"}', "a host name without a port"),
        ('{"h test": "127.0.0.1"}', "has host 'h test'; allowed: a host name"),
        ('{"u@h.test": "127.0.0.1"}', "has host 'u@h.test'"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "map.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        load_resolver_map(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_resolver_map(tmp_path / "none.json")
