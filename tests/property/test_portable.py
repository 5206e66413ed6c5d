# SPDX-License-Identifier: Apache-2.0
from hypothesis import example, given
from hypothesis import strategies as st

from ojak.model.inbox import InvalidInbox, canonical_inbox
from ojak.model.portable import (
    MAX_GATEWAYS,
    MAX_PORTABLE_BYTES,
    CanonicalPortableInbox,
    PortableInbox,
    canonical_portable,
    inbox_at,
    portable_form,
)

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
GATEWAYS = ("https://a.example", "https://b.example")
KEYS = st.text(BASE58, min_size=1, max_size=60).map(lambda key: f"did:key:z{key}")
PATHS = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#?"), min_size=1, max_size=40
).map(lambda path: f"/{path}")
QUERIES = st.sampled_from(["", "?", "?gateways=https%3A%2F%2Fa.example", "?x=%2F&y"])
PIECES = st.sampled_from(
    [
        "ap",
        "ap+ef61",
        "AP",
        "://",
        ":",
        "/",
        "did:key:z6Mk",
        "did%3Akey%3Az6Mk",
        "did:",
        "%3A",
        "%",
        "?",
        "#",
        "@",
        "\\",
        "https",
        "a.example",
        "/.well-known/apgateway/",
        "inbox",
        "ü",
        "\n",
        "..",
        "\ud800",
    ]
)
NEAR_MISSES = st.lists(PIECES | st.text(max_size=3), max_size=10).map("".join)


def canonical(url: str, gateways: tuple[str, ...] = GATEWAYS) -> CanonicalPortableInbox | None:
    try:
        return canonical_portable(PortableInbox(url, gateways))
    except InvalidInbox:
        return None


@given(did=KEYS, path=PATHS, query=QUERIES)
def test_all_forms_of_an_inbox_are_one(did: str, path: str, query: str) -> None:
    encoded = did.replace(":", "%3A")
    forms = [f"{scheme}://{name}{path}{query}" for scheme in ("ap", "ap+ef61", "AP") for name in (did, encoded)]
    forms += [f"https://a.example/.well-known/apgateway/{name}{path}{query}" for name in (did, encoded)]
    found = {canonical(form) for form in forms}
    assert found == {canonical(f"ap://{did}{path}")}
    (inbox,) = found
    assert inbox is not None
    assert inbox.uri == f"ap://{did}{path}"


@given(first=st.tuples(KEYS, PATHS), second=st.tuples(KEYS, PATHS))
def test_inboxes_of_other_keys_or_paths_stay_apart(first: tuple[str, str], second: tuple[str, str]) -> None:
    one, other = canonical("ap://" + "".join(first)), canonical("ap://" + "".join(second))
    assert one is not None
    assert other is not None
    assert (one.uri == other.uri) == (first == second)


@given(NEAR_MISSES | st.text())
@example("ap://did:key:z6Mk/\ud800")
@example("ap://did%3A%FF%3Az/x")
def test_any_string_is_a_portable_inbox_or_refused(url: str) -> None:
    inbox = canonical(url)
    if inbox is None:
        return
    assert canonical(inbox.uri) == inbox
    assert inbox.uri.isascii()
    assert inbox.uri.isprintable()
    assert " " not in inbox.uri
    for gateway in inbox.gateways:
        # What is POSTed at is a canonical inbox itself, byte for byte, of the host whose record counts it.
        at = inbox_at(gateway.origin, inbox.uri)
        assert canonical_inbox(at).url == at
        assert canonical_inbox(at).authority == gateway.authority
        assert len(at) <= MAX_PORTABLE_BYTES
        assert portable_form(at) == PortableInbox(inbox.uri, (gateway.origin,))


@given(
    st.lists(st.sampled_from(["https://a.example", "HTTPS://A.example/", "http://a.example", "https://b.example:8443"]))
)
def test_gateways_are_in_order_each_once_and_bounded(gateways: list[str]) -> None:
    inbox = canonical("ap://did:key:z6Mk/inbox", tuple(gateways))
    if inbox is None:
        assert not gateways or len(gateways) > MAX_GATEWAYS
        return
    origins = [gateway.origin for gateway in inbox.gateways]
    assert origins == list(dict.fromkeys(canonical_inbox(one).url.removesuffix("/") for one in gateways))
