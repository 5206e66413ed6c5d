# SPDX-License-Identifier: Apache-2.0
from hypothesis import example, given
from hypothesis import strategies as st

from ojak.model.inbox import MAX_URL_BYTES, CanonicalInbox, InvalidInbox, canonical_inbox

ANY_CHARACTER = st.characters(exclude_categories=())
PIECES = st.sampled_from(
    [
        "http",
        "https",
        "HTTPS",
        ":",
        "//",
        "/",
        "\\",
        "@",
        "?",
        "#",
        "[",
        "]",
        "%",
        "%41",
        "::1",
        "1.2.3.4",
        "0x7f",
        ".",
        "example.org",
        "münchen",
        "xn--",
        "xn--a",
        "-",
        "_",
        "。",
        "ß",
        "\u200d",
        "\xad",
        "א",
        "١",
        ":80",
        "user:pw",
    ],
)
NEAR_MISSES = st.lists(PIECES | st.text(ANY_CHARACTER, max_size=3), max_size=12).map("".join)
HOSTS = st.text(ANY_CHARACTER, max_size=20)
LIKELY = st.builds("{}://{}{}".format, st.sampled_from(["http", "HTTPS"]), HOSTS, st.text(ANY_CHARACTER, max_size=9))


def canonical(url: str) -> CanonicalInbox | None:
    try:
        return canonical_inbox(url)
    except InvalidInbox:
        return None


@given(st.text(ANY_CHARACTER) | NEAR_MISSES | LIKELY)
@example("https://\ud800/")
@example("https://xn--/")
@example("https://\u00ad/")
@example("https://a" + "\u0300" * 250 + "/")
def test_any_string_is_canonical_or_refused(url: str) -> None:
    inbox = canonical(url)
    if inbox is None:
        return
    assert canonical_inbox(inbox.url) == inbox
    assert inbox.url == f"{inbox.scheme}://{inbox.authority}{inbox.target}"
    assert inbox.url.isascii()
    assert inbox.url.isprintable()
    assert " " not in inbox.url
    assert len(inbox.url) <= MAX_URL_BYTES
    assert inbox.target.startswith("/")
    assert inbox.host == inbox.host.lower()
    assert not set(inbox.host) & set("/?#@\\[]%")
    assert 1 <= inbox.port <= 65535


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#"), max_size=50))
def test_path_and_query_stay_byte_for_byte(tail: str) -> None:
    assert canonical_inbox(f"https://Example.org/{tail}").target == f"/{tail}"
    assert canonical_inbox(f"https://example.org/{tail}").target == f"/{tail}"


@given(NEAR_MISSES)
def test_the_fast_path_says_what_the_slow_one_says(url: str) -> None:
    # A capital letter in the scheme is what keeps the fast path from seeing the URL.
    for scheme in ("http", "https"):
        assert canonical(f"{scheme}://{url}") == canonical(f"{scheme.upper()}://{url}")
