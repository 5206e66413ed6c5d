# SPDX-License-Identifier: Apache-2.0
"""Verifying: what the corpus does not hold. Limits, hosts, callbacks, and what an error shows."""

import pickle

import pytest

from ojak.errors import OjakError
from ojak.signing import (
    REASONS,
    BodyDigest,
    KeyRefused,
    Message,
    Policy,
    PrivateKey,
    PublicKey,
    SignatureRefused,
    parse_cavage,
    sign,
    sign_cavage,
    sign_rfc9421,
    verify,
    verify_message,
    verify_raw,
)

KEY = PrivateKey.generate_ed25519()
PUBLIC = PublicKey.from_pem(KEY.public_pem())
KEY_ID = "https://alice.example/users/alice#main-key"
URL = "https://remote.example/inbox"
BODY = b"{}"
NOW_S = 1_760_000_000
KEYS = {KEY_ID: PUBLIC}.get
SCHEMES = pytest.mark.parametrize("scheme", ["cavage", "rfc9421"])


def signed(scheme: str = "cavage", url: str = URL) -> list[tuple[str, str]]:
    return sign(KEY, KEY_ID, scheme, "POST", url, BodyDigest(BODY), NOW_S)


def refusal(fields: object, **given: object) -> str:
    arguments: dict[str, object] = {"method": "POST", "url": URL, "body": BODY, "resolve": KEYS, "now_s": NOW_S}
    with pytest.raises(SignatureRefused) as caught:
        verify(headers=fields, **{**arguments, **given})  # type: ignore[arg-type]
    assert caught.value.reason in REASONS
    assert "\n" not in str(caught.value)
    return caught.value.reason


@SCHEMES
def test_headers_may_be_bytes_and_any_iterable(scheme: str) -> None:
    fields = [(name.encode(), value.encode()) for name, value in signed(scheme)]
    assert verify("POST", URL, iter(fields), BODY, KEYS, now_s=NOW_S).key_id == KEY_ID


@SCHEMES
def test_bytes_that_are_no_text_elsewhere_in_the_message_do_not_matter(scheme: str) -> None:
    fields = [(name.encode(), value.encode()) for name, value in signed(scheme)]
    assert verify("POST", URL, [*fields, (b"X-Name", b"caf\xe9")], BODY, KEYS, now_s=NOW_S).key_id == KEY_ID


@SCHEMES
def test_the_number_and_size_of_headers_are_limited(scheme: str) -> None:
    fields = signed(scheme)
    assert refusal([*fields, *[("X-A", "1")] * 300]) == "invalid_header"
    assert refusal([*fields, ("X-A", "1" * 70_000)]) == "invalid_header"


def test_the_size_of_a_signature_is_limited() -> None:
    assert refusal([("Signature", 'keyId="' + "k" * 20_000 + '"')]) == "malformed_signature"
    assert refusal([("Signature", ",".join(f'a{i}="x"' for i in range(100)))]) == "malformed_signature"
    covered = " ".join(f"x-{number}" for number in range(100))
    text = f'keyId="k",headers="(request-target) host date digest {covered}",signature="AAAA"'
    assert refusal([("Host", "remote.example"), ("Signature", text)]) == "malformed_signature"
    components = " ".join(f'"x-{number}"' for number in range(100))
    fields = [("Signature-Input", f'a=({components});created=1;keyid="k"'), ("Signature", "a=:AAAA:")]
    assert refusal(fields) == "malformed_signature"


def test_what_a_signature_makes_us_read_is_limited() -> None:
    # Each of these components would have the whole field parsed again, for each label.
    list_ = ", ".join(f"k{number}" for number in range(3000))
    components = " ".join(f'"x";key="k{number}"' for number in range(17))
    for names, field, reason in (
        (components, "k1", "invalid_component"),
        ('"x";key="k1"', list_, "malformed_sf"),
        ('"x";sf', list_, "malformed_sf"),
    ):
        fields = [
            ("X", field),
            ("Content-Digest", BodyDigest(BODY).content_digest),
            (
                "Signature-Input",
                f'a=("@method" "@target-uri" "content-digest" {names});created={NOW_S};keyid="{KEY_ID}"',
            ),
            ("Signature", "a=:AAAA:"),
        ]
        assert refusal(fields) == reason
    names = " ".join(["x"] * 60)
    text = f'keyId="{KEY_ID}",headers="(request-target) host date digest {names}",signature="AAAA"'
    base = [field for field in signed() if field[0] != "Signature"]
    assert refusal([*base, ("X", "1" * 60_000), ("Signature", text)]) == "malformed_signature"


def test_only_so_many_labels_are_tried() -> None:
    asked: list[str] = []

    def resolve(key_id: str) -> PublicKey:
        asked.append(key_id)
        return PUBLIC

    own = dict(signed("rfc9421"))
    list_ = own["Signature-Input"].removeprefix("sig1=")
    many = 50
    own["Signature-Input"] = ", ".join(f"l{number}={list_}" for number in range(many))
    own["Signature"] = ", ".join(f"l{number}=:AAAA:" for number in range(many))
    assert refusal(own.items(), resolve=resolve) == "signature_mismatch"
    assert len(asked) == 8


@SCHEMES
@pytest.mark.parametrize("host", ["evil.example", "remote.example:8443", "remote.example.evil.example", ""])
def test_a_signature_over_another_host_is_refused(scheme: str, host: str) -> None:
    # A request that was made for another server, handed on with its Host.
    message = Message([("Host", host)], method="POST", url=URL, body=BODY)
    names = ["(request-target)", "host", "date", "digest"]
    if scheme == "cavage":
        fields = sign_cavage(
            message, KEY, KEY_ID, algorithm="hs2019", headers=names, add=["date", "digest"], now_s=NOW_S
        )
    else:
        fields = sign_rfc9421(
            message,
            KEY,
            algorithm="ed25519",
            components=["@method", "host", "@path", "content-digest"],
            params=[("created", NOW_S), ("keyid", KEY_ID)],
            add=["content-digest"],
        )
    assert refusal([("Host", host), *fields]) == "wrong_authority"


def test_two_hosts_are_refused() -> None:
    message = Message([("Host", "remote.example")] * 2, method="POST", url=URL, body=BODY)
    names = ["(request-target)", "host", "date", "digest"]
    fields = sign_cavage(message, KEY, KEY_ID, algorithm="hs2019", headers=names, add=["date", "digest"], now_s=NOW_S)
    assert refusal([("Host", "remote.example"), ("Host", "remote.example"), *fields]) == "invalid_header"


def test_an_end_counts_even_where_it_is_not_covered() -> None:
    fields = dict(signed("cavage"))
    fields["Signature"] += f",expires={NOW_S - 4000}"
    assert refusal(fields.items()) == "expired"
    fields["Signature"] = fields["Signature"].replace(f"expires={NOW_S - 4000}", f"expires={NOW_S - 4000}.5")
    assert refusal(fields.items()) == "expired"


def test_without_a_list_only_created_is_covered_and_has_to_be_there() -> None:
    # draft-cavage-12 section 2.1.6; the date is what the names of the time before it cover.
    anything = Policy(coverage="none")
    for text, reason in (
        ('keyId="k",signature="AAAA"', "missing_param"),
        ('keyId="k",algorithm="hs2019",signature="AAAA"', "missing_param"),
        ('keyId="k",algorithm="rsa-sha256",signature="AAAA"', "missing_component"),
    ):
        assert refusal([("Host", "remote.example"), ("Signature", text)], policy=anything) == reason


def test_a_parameter_called_signature_is_no_prefix() -> None:
    assert parse_cavage('signature = "x", keyId="k"') == [("signature", "x"), ("keyId", "k")]
    assert parse_cavage('Signature keyId="k"') == [("keyId", "k")]


def test_an_end_may_have_a_fraction() -> None:
    # draft-cavage-12 section 2.1.5 allows it, and the text as written is what is signed.
    fields = [("Host", "remote.example"), ("Digest", BodyDigest(BODY).digest)]
    message = Message(fields, method="POST", url=URL, body=BODY)
    names = ["(request-target)", "(created)", "host", "digest"]
    whole = sign_cavage(message, KEY, KEY_ID, algorithm="hs2019", headers=names, created_s=NOW_S, expires_s=NOW_S + 9)
    text = whole[0][1].replace(f"expires={NOW_S + 9}", f"expires={NOW_S + 9}.25")
    assert verify("POST", URL, [*fields, ("Signature", text)], BODY, KEYS, now_s=NOW_S).key_id == KEY_ID


@SCHEMES
def test_the_key_is_asked_for_only_by_a_signature_that_could_pass(scheme: str) -> None:
    asked: list[str] = []
    fields = signed(scheme)
    assert refusal(fields, resolve=asked.append, now_s=NOW_S + 100_000) == "stale"
    assert refusal(fields[:-1], resolve=asked.append) == "missing_signature"
    assert asked == []
    assert refusal(fields, resolve=asked.append) == "unknown_key"
    assert asked == [KEY_ID]


@SCHEMES
def test_what_a_resolver_raises_goes_up_as_it_is(scheme: str) -> None:
    def broken(_: str) -> PublicKey:
        raise ConnectionError("no route")

    with pytest.raises(ConnectionError, match="no route"):
        verify("POST", URL, signed(scheme), BODY, broken, now_s=NOW_S)

    def stopped(_: str) -> PublicKey:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify("POST", URL, signed(scheme), BODY, stopped, now_s=NOW_S)
    with pytest.raises(TypeError):
        verify("POST", URL, signed(scheme), BODY, lambda _: "no key", now_s=NOW_S)  # type: ignore[arg-type, return-value]


@SCHEMES
def test_a_refused_key_is_the_reason(scheme: str) -> None:
    def weak(_: str) -> PublicKey:
        raise KeyRefused("weak_key", "the RSA key has 512 bits; at least 1024 are wanted")

    assert refusal(signed(scheme), resolve=weak) == "weak_key"


def test_a_refused_key_does_not_stop_another_label() -> None:
    one = dict(signed("rfc9421"))
    both = [
        ("Content-Digest", one["Content-Digest"]),
        ("Signature-Input", one["Signature-Input"].replace("sig1", "a").replace(KEY_ID, "weak")),
        ("Signature", one["Signature"].replace("sig1", "a")),
        ("Signature-Input", one["Signature-Input"]),
        ("Signature", one["Signature"]),
    ]

    def resolve(key_id: str) -> PublicKey:
        if key_id == "weak":
            raise KeyRefused("weak_key", "too small")
        return PUBLIC

    assert verify("POST", URL, both, BODY, resolve, now_s=NOW_S).label == "sig1"


def test_a_message_with_signature_input_gets_no_second_chance_as_cavage() -> None:
    fields = [*signed("cavage"), ("Signature-Input", 'sig1=("@method");created=1;keyid="k"')]
    assert refusal(fields) == "malformed_signature"


def test_a_response_is_signed_and_verified_with_its_request() -> None:
    request = Message(signed("rfc9421"), method="POST", url=URL, body=BODY)
    bare = Message([], status=202, body=b"ok", request=request)
    fields = sign_rfc9421(
        bare,
        KEY,
        algorithm="ed25519",
        components=[
            "@status",
            "content-digest",
            ("@method", {"req": True}),
            ("signature", {"req": True, "key": "sig1"}),
        ],
        params=[("keyid", KEY_ID)],
        add=["content-digest", "created"],
        now_s=NOW_S,
    )
    answer = Message(fields, status=202, body=b"ok", request=request)
    assert verify_message(answer, KEYS, now_s=NOW_S).covered[0] == '"@status"'
    for changed in (
        Message(fields, status=200, body=b"ok", request=request),
        Message(fields, status=202, body=b"no", request=request),
        Message(fields, status=202, body=b"ok", request=Message(signed("rfc9421"), method="PUT", url=URL, body=BODY)),
        Message(fields, status=202, body=b"ok"),
    ):
        with pytest.raises(SignatureRefused):
            verify_message(changed, KEYS, now_s=NOW_S)


@pytest.mark.parametrize(
    "parts",
    [{}, {"method": "POST"}, {"url": URL}, {"status": 200, "method": "GET"}, {"status": 99}, {"status": 1000}],
)
def test_a_message_is_a_request_or_a_response(parts: dict[str, object]) -> None:
    with pytest.raises(SignatureRefused) as caught:
        Message([], **parts)  # type: ignore[arg-type]
    assert caught.value.reason == "invalid_param"


@pytest.mark.parametrize(
    "setting", [{"min_rsa_bits": 512}, {"max_skew_s": -1}, {"max_age_s": -1}, {"coverage": "some"}]
)
def test_a_policy_is_checked(setting: dict[str, object]) -> None:
    with pytest.raises(SignatureRefused) as caught:
        Policy(**setting)  # type: ignore[arg-type]
    assert caught.value.reason == "invalid_param"


def test_a_raw_signature_needs_the_algorithm_of_its_key() -> None:
    with pytest.raises(SignatureRefused) as caught:
        verify_raw(PUBLIC, "rsa-v1_5-sha256", b"x", b"y")
    assert caught.value.reason == "algorithm_mismatch"
    with pytest.raises(SignatureRefused) as caught:
        verify_raw(PUBLIC, "hmac-sha256", b"x", b"y")
    assert caught.value.reason == "unknown_algorithm"


@pytest.mark.parametrize("hex_", ["00" * 32, "01" + "00" * 31, "ec" + "ff" * 30 + "7f", "ee" + "ff" * 31])
def test_a_key_of_small_order_is_refused(hex_: str) -> None:
    # Every message "verifies" with such a key.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(hex_))
    with pytest.raises(KeyRefused) as caught:
        PublicKey.from_pem(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert caught.value.reason == "weak_key"


def test_refusals_are_of_the_tree_and_pickle() -> None:
    for refused in (SignatureRefused("stale", "too old"), KeyRefused("weak_key", "too small")):
        assert isinstance(refused, OjakError)
        again = pickle.loads(pickle.dumps(refused))
        assert (type(again), again.reason, str(again)) == (type(refused), refused.reason, str(refused))


def test_an_error_shows_neither_signature_nor_body() -> None:
    secret = b"a body that nobody else may read"
    fields = sign(KEY, KEY_ID, "cavage", "POST", URL, BodyDigest(secret), NOW_S)
    signature = dict(fields)["Signature"].rpartition('signature="')[2]
    for body in (secret, b"other"):
        with pytest.raises(SignatureRefused) as caught:
            verify("POST", URL + "x", fields, body, KEYS, now_s=NOW_S)
        assert signature[:40] not in str(caught.value)
        assert "nobody" not in str(caught.value)
