# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from ojak.errors import ConfigError
from ojak.http.user_agent import user_agent


def test_product_version_and_instance() -> None:
    assert re.fullmatch(r"Ojak/[0-9][0-9a-z.+]*", user_agent())
    assert user_agent("https://a.test/") == f"{user_agent()} (+https://a.test/)"
    assert user_agent("https://a.test/", "Mine/1") == "Mine/1"


@pytest.mark.parametrize("url", ["https://a.test/\r\nX: y", "https://é.test/", "x" * 600])
def test_what_cannot_be_sent(url: str) -> None:
    with pytest.raises(ConfigError, match="instance_url is"):
        user_agent(url)
