# SPDX-License-Identifier: Apache-2.0
"""Properties seen from Python: refused or right, never a crash; and the same as independent implementations say."""

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ojak import signing
from ojak.signing import (
    REASONS,
    BodyDigest,
    FollowersDigest,
    KeyRefused,
    Message,
    Policy,
    PrivateKey,
    PublicKey,
    SignatureRefused,
    canonical_json,
    sign,
    sign_document,
    verify,
    verify_document,
)

KEY = PrivateKey.generate_ed25519()
PUBLIC = PublicKey.from_pem(KEY.public_pem())
ACTOR = "https://alice.example/users/alice"
KEY_ID = f"{ACTOR}#ed25519-key"
NOW_S = 1_760_000_000

anything = st.text(st.characters())  # lone surrogates too
printable = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E))
field = st.tuples(
    st.sampled_from(["Signature", "Signature-Input", "Host", "Date", "Digest", "Content-Digest", "X-A"]) | anything,
    st.one_of(
        anything,
        printable,
        st.binary(max_size=40),
        st.builds('keyId="k",headers="{}",signature="{}"'.format, printable, printable),
        st.builds("sig1=({});created=1760000000;{}".format, printable, printable),
        st.builds("sig1=:{}:".format, printable),
        st.builds("SHA-256={}".format, printable),
    ),
)


def refused_or_not(function: Any, *args: object, **kwargs: object) -> None:
    refusal: SignatureRefused | KeyRefused | None = None
    try:
        function(*args, **kwargs)
    except (SignatureRefused, KeyRefused) as refused:
        refusal = refused
    if refusal is not None:
        assert refusal.reason in REASONS
        assert "\n" not in str(refusal)
        assert len(str(refusal)) < 1000


@given(
    method=st.sampled_from(["POST", "GET"]) | anything,
    url=st.builds("https://remote.example/{}".format, anything) | anything,
    fields=st.lists(field, max_size=6),
    body=st.none() | st.binary(max_size=40),
    scheme=st.sampled_from([None, "cavage", "rfc9421"]),
    label=st.none() | printable,
    coverage=st.sampled_from(["activitypub", "none"]),
)
def test_nothing_that_arrives_is_a_crash_or_passes(
    *, method: str, url: str, fields: Any, body: bytes | None, scheme: str | None, label: str | None, coverage: Any
) -> None:
    with pytest.raises(SignatureRefused) as caught:
        verify(
            method,
            url,
            fields,
            body,
            lambda _: PUBLIC,
            now_s=NOW_S,
            policy=Policy(coverage=coverage, max_age_s=None, queryless=True),
            scheme=scheme,
            label=label,
        )
    assert caught.value.reason in REASONS


@given(text=anything, other=anything, binary=st.binary(max_size=60), flag=st.booleans())
def test_every_entry_refuses_or_answers(*, text: str, other: str, binary: bytes, flag: bool) -> None:
    for form in ("pem", "multibase"):
        for value in (text, binary, f"z{text}"):
            refused_or_not(signing.load_key, value, private=flag, form=form)
    refused_or_not(signing.parse_cavage, text)
    refused_or_not(signing.parse_signature_input, text)
    refused_or_not(signing.parse_target, text)
    refused_or_not(signing.CollectionSync.parse, text)
    refused_or_not(signing.canonical_json, binary)
    refused_or_not(sign, KEY, text, "cavage", "POST", "https://a.example/", None, NOW_S, [(other, text)])
    refused_or_not(sign, KEY, "k", "rfc9421", "GET", text, None, NOW_S, accept_signature=other)
    refused_or_not(FollowersDigest.of, text, [other])


@given(
    components=st.lists(printable | st.tuples(printable, st.dictionaries(printable, printable | st.booleans()))),
    params=st.lists(st.tuples(printable, printable | st.booleans() | st.integers())),
    label=anything,
    names=st.lists(anything, max_size=4),
    created_s=st.none() | st.integers(-(2**63), 2**63 - 1),
    add=st.lists(st.sampled_from(["host", "date", "digest", "content-digest", "created", "x"]), max_size=3),
)
def test_every_part_may_be_anything(
    *, components: Any, params: Any, label: str, names: list[str], created_s: int | None, add: list[str]
) -> None:
    message = Message([("Host", "a.example")], method="POST", url="https://a.example/x?y=1", body=b"{}")
    if all(character.isascii() for character in label):
        refused_or_not(
            signing.sign_rfc9421,
            message,
            KEY,
            algorithm="ed25519",
            components=components,
            params=params,
            label=label,
            add=add,
            now_s=NOW_S,
        )
    refused_or_not(
        signing.sign_cavage,
        message,
        KEY,
        "k",
        algorithm="hs2019",
        headers=names,
        created_s=created_s,
        add=add,
        now_s=NOW_S,
    )


@given(body=st.binary(max_size=300))
def test_digests_are_those_of_the_standard_library(body: bytes) -> None:
    digest = BodyDigest(body, ["sha-256", "sha-512"])
    encoded = {name: base64.b64encode(hashlib.new(name, body).digest()).decode() for name in ("sha256", "sha512")}
    assert digest.digest == f"SHA-256={encoded['sha256']},SHA-512={encoded['sha512']}"
    assert digest.content_digest == f"sha-256=:{encoded['sha256']}:, sha-512=:{encoded['sha512']}:"


json_values: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(value=json_values)
def test_canonical_json_is_the_same_json_in_one_form(value: object) -> None:
    canonical = canonical_json(json.dumps(value).encode())
    # As doubles: a large one may be written with digits that another int would have.
    assert json.loads(canonical, parse_int=float) == json.loads(json.dumps(value), parse_int=float)
    assert canonical_json(canonical) == canonical
    assert canonical_json(json.dumps(value, ensure_ascii=False, indent=2).encode()) == canonical


@given(document=st.dictionaries(st.text("abcxyz@", max_size=6), json_values, max_size=4))
def test_a_proof_holds_for_its_document_alone(document: dict[str, object]) -> None:
    document = {**document, "actor": ACTOR}
    before = json.dumps(document)
    made = sign_document(document, KEY, verification_method=KEY_ID, created="2026-01-02T03:04:05Z")
    assert json.dumps(document) == before

    def resolve(method: str) -> tuple[PublicKey, str] | None:
        return (PUBLIC, ACTOR) if method == KEY_ID else None

    for _ in range(2):
        assert verify_document(made, resolve, now_s=NOW_S) == KEY_ID
    for changed in ({**made, "extra": 1}, {**made, "actor": "https://mallory.example/"}):
        with pytest.raises(SignatureRefused):
            verify_document(changed, resolve, now_s=NOW_S)


@given(followers=st.lists(st.sampled_from([f"https://b.example/u/{n}" for n in range(6)] + ["https://c.example/u"])))
def test_the_followers_digest_is_the_exclusive_or(followers: list[str]) -> None:
    want = 0
    for follower in {follower for follower in followers if "b.example" in follower}:
        want ^= int.from_bytes(hashlib.sha256(follower.encode()).digest(), "big")
    assert FollowersDigest.of("https://b.example/inbox", followers).hex == f"{want:064x}"
