# SPDX-License-Identifier: Apache-2.0
"""Structured fields, read and written as an independent implementation does (RFC 8941)."""

import base64

import http_sf
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ojak.signing import Message, SignatureRefused, parse_signature_input, rfc9421_base


def unpadded(text: str) -> str:
    return text.rstrip("=")


key = st.from_regex(r"[a-z*][a-z0-9_.*-]{0,4}", fullmatch=True)
bare = st.one_of(
    st.integers(-(10**15), 10**15).map(str),
    st.decimals(-(10**6), 10**6, places=3).map(str),
    st.from_regex(r'"([ !#-\[\]-~]|\\["\\]){0,6}"', fullmatch=True),
    st.from_regex(r"[A-Za-z*][A-Za-z0-9:/!#$%&'*+.^_`|~-]{0,5}", fullmatch=True),
    # Padding may be left out; too much of it, or bits in it, are for each reader to judge.
    st.builds(
        lambda raw, cut: f":{cut(base64.b64encode(raw).decode())}:",
        st.binary(max_size=6),
        st.sampled_from([str, unpadded]),
    ),
    st.sampled_from(["?0", "?1", "?2", "1.", "-", "--1", "00", '"', ":", "1234567890123456", "@5", "é"]),
)
params = st.lists(
    st.builds("{}{}{}".format, st.sampled_from([";", "; "]), key, st.just("") | bare.map("={}".format))
).map("".join)
item = st.builds("{}{}".format, bare, params)
inner = st.builds("({}){}".format, st.lists(item, max_size=3).map(" ".join), params)
member = st.one_of(
    st.builds("{}={}".format, key, item), st.builds("{}={}".format, key, inner), st.builds("{}{}".format, key, params)
)
dictionary = st.lists(member, max_size=3).map(", ".join)


def theirs(text: str) -> list[tuple[str, str]] | None:
    """What http-sf makes of a dictionary: its inner lists, each written anew. None if it refuses."""
    try:
        parsed = http_sf.parse(text.encode("ascii"), tltype="dictionary")
    except ValueError:
        return None
    assert isinstance(parsed, dict)
    lists = {
        name: member for name, member in parsed.items() if isinstance(member, tuple) and isinstance(member[0], list)
    }
    return [(name, http_sf.ser({name: member}).removeprefix(f"{name}=")) for name, member in lists.items()]


def is_repeated(text: str) -> bool:
    """Whether a key stands twice somewhere, which RFC 8941 lets pass and a verifier does not."""
    found = False

    def repeated(*_: object) -> None:
        nonlocal found
        found = True

    try:
        http_sf.parse(text.encode("ascii"), tltype="dictionary", on_duplicate_key=repeated)
    except ValueError:
        return False
    return found


@given(text=dictionary)
@example('a=("x";a;a=2);b')
@example("a=(1.50 -0.0)")
def test_labels_are_read_and_written_as_another_reads_and_writes_them(text: str) -> None:
    dates = "@" in text  # RFC 9651 has them, RFC 8941, by which signatures are read, does not
    want = theirs(text)
    try:
        got = parse_signature_input(text)
    except SignatureRefused:
        assert want is None or dates or is_repeated(text)
    else:
        if not is_repeated(text):
            assert got == want


@given(text=dictionary)
def test_the_strict_form_of_a_field_is_that_of_another(text: str) -> None:
    message = Message([("Priority", text)], method="GET", url="https://a.example/")
    try:
        parsed = http_sf.parse(text.encode("ascii"), tltype="dictionary")
    except ValueError:
        parsed = None
    if parsed is None:
        with pytest.raises(SignatureRefused):
            rfc9421_base(message, [("priority", {"sf": True})], [])
    else:
        base = rfc9421_base(message, [("priority", {"sf": True})], [])
        assert base.startswith(f'"priority";sf: {http_sf.ser(parsed) if parsed else ""}\n')
