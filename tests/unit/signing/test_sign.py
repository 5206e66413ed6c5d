# SPDX-License-Identifier: Apache-2.0
"""Signing what is sent: the profile of SPEC section 6, whatever the machine's locale, and beside other threads."""

import base64
import contextlib
import hashlib
import locale
import threading
import time

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from ojak.signing import BodyDigest, PrivateKey, PublicKey, Scheme, SignatureRefused, parse_cavage, sign, verify

RSA, ED25519 = PrivateKey.generate_rsa(), PrivateKey.generate_ed25519()
KEY_ID = "https://alice.example/users/alice#main-key"
URL = "https://remote.example/inbox?x=1"
BODY = b'{"type":"Create"}'
DIGEST = BodyDigest(BODY)
NOW_S = 1_760_000_000


def test_cavage_is_written_as_every_server_reads_it() -> None:
    fields = sign(RSA, KEY_ID, "cavage", "POST", URL, DIGEST, NOW_S)
    assert [name for name, _ in fields] == ["Host", "Date", "Digest", "Signature"]
    sent = dict(fields)
    assert sent["Host"] == "remote.example"
    assert sent["Date"] == "Thu, 09 Oct 2025 08:53:20 GMT"
    assert sent["Digest"] == "SHA-256=" + base64.b64encode(hashlib.sha256(BODY).digest()).decode()
    head = f'keyId="{KEY_ID}",algorithm="rsa-sha256",headers="(request-target) host date digest",signature="'
    assert sent["Signature"].startswith(head)
    base = f"(request-target): post /inbox?x=1\nhost: remote.example\ndate: {sent['Date']}\ndigest: {sent['Digest']}"
    public = load_pem_public_key(RSA.public_pem().encode())
    assert isinstance(public, rsa.RSAPublicKey)
    signature = base64.b64decode(dict(parse_cavage(sent["Signature"]))["signature"])
    public.verify(signature, base.encode(), padding.PKCS1v15(), SHA256())


def test_rfc9421_is_written_as_every_server_reads_it() -> None:
    fields = sign(RSA, KEY_ID, "rfc9421", "POST", URL, DIGEST, NOW_S)
    assert [name for name, _ in fields] == ["Host", "Date", "Content-Digest", "Signature-Input", "Signature"]
    sent = dict(fields)
    params = (
        '("@method" "@target-uri" "@authority" "content-digest")'
        f';created={NOW_S};keyid="{KEY_ID}";alg="rsa-v1_5-sha256"'
    )
    assert sent["Signature-Input"] == f"sig1={params}"
    base = (
        f'"@method": POST\n"@target-uri": {URL}\n"@authority": remote.example\n'
        f'"content-digest": {sent["Content-Digest"]}\n"@signature-params": {params}'
    )
    public = load_pem_public_key(RSA.public_pem().encode())
    assert isinstance(public, rsa.RSAPublicKey)
    signature = base64.b64decode(sent["Signature"].removeprefix("sig1=:").removesuffix(":"))
    public.verify(signature, base.encode(), padding.PKCS1v15(), SHA256())


@pytest.mark.parametrize("key", [RSA, ED25519], ids=["rsa", "ed25519"])
@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_what_is_signed_verifies_with_the_extra_headers_covered(key: PrivateKey, scheme: Scheme, method: str) -> None:
    digest, body = (DIGEST, BODY) if method == "POST" else (None, None)
    extra = [("Collection-Synchronization", 'collectionId="a", url="b", digest="c"')]
    fields = sign(key, KEY_ID, scheme, method, URL, digest, NOW_S, extra)
    assert "Collection-Synchronization" not in dict(fields), "the caller's own fields are the caller's to send"
    public = PublicKey.from_pem(key.public_pem())
    verified = verify(method, URL, [*fields, *extra], body, {KEY_ID: public}.get, now_s=NOW_S)
    assert (verified.key_id, verified.scheme) == (KEY_ID, scheme)
    assert any("collection-synchronization" in name for name in verified.covered)
    with pytest.raises(SignatureRefused) as caught:
        verify(method, URL, [*fields, ("Collection-Synchronization", "other")], body, {KEY_ID: public}.get, now_s=NOW_S)
    assert caught.value.reason == "signature_mismatch"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"url": "ftp://remote.example/"}, "invalid_url"),
        ({"url": "https://remote.example/a b"}, "invalid_url"),
        ({"url": "https://remote.example/\ud800"}, "invalid_url"),
        ({"url": "https://user:pw@remote.example/"}, "invalid_url"),
        ({"method": "PO ST"}, "invalid_header"),
        ({"key_id": 'a"b'}, "invalid_param"),
        ({"key_id": "é"}, "invalid_param"),
        ({"key_id": ""}, "invalid_param"),
        ({"scheme": "hmac"}, "invalid_param"),
        ({"now_s": -1}, "invalid_param"),
        ({"now_s": 10**15}, "invalid_param"),
        ({"headers": [("X-A", "1\r\nX-B: 2")]}, "invalid_header"),
        ({"headers": [("X A", "1")]}, "invalid_header"),
        ({"headers": [("X-A", "\ud800")]}, "invalid_header"),
        ({"headers": [("Date", "Thu, 01 Jan 1970 00:00:00 GMT")]}, "invalid_param"),
        ({"headers": [("signature", "x")]}, "invalid_param"),
        ({"headers": [("X-A", "1")] * 300}, "invalid_header"),
        ({"headers": [("X-A", "1" * 70_000)]}, "invalid_header"),
    ],
)
def test_what_cannot_be_signed_is_refused_in_one_sentence(change: dict[str, object], reason: str) -> None:
    given: dict[str, object] = {
        "key_id": KEY_ID,
        "scheme": "cavage",
        "method": "POST",
        "url": URL,
        "digest": DIGEST,
        "now_s": NOW_S,
        "headers": [],
    }
    with pytest.raises(SignatureRefused) as caught:
        sign(ED25519, **{**given, **change})  # type: ignore[arg-type]
    assert caught.value.reason == reason
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("when", ["2025-09-01", "2024-02-29", "2025-03-31"])
@pytest.mark.parametrize("name", ["de_DE.UTF-8", "ja_JP.UTF-8", "ar_EG.UTF-8", "C"])
def test_the_date_is_english_and_gmt_whatever_the_locale(name: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    before = locale.setlocale(locale.LC_ALL)
    try:
        with contextlib.suppress(locale.Error):  # a machine without it shows the rest all the same
            locale.setlocale(locale.LC_ALL, name)
        now_s = int(time.mktime(time.strptime(when, "%Y-%m-%d")))
        date = dict(sign(ED25519, KEY_ID, "cavage", "GET", URL, None, now_s))["Date"]
    finally:
        locale.setlocale(locale.LC_ALL, before)
        monkeypatch.undo()
        time.tzset()
    names = {"2025-09-01": "Sun, 31 Aug 2025", "2024-02-29": "Wed, 28 Feb 2024", "2025-03-31": "Sun, 30 Mar 2025"}
    assert date == f"{names[when]} 18:15:00 GMT"


def test_rsa_signs_without_the_gil() -> None:
    # The other thread only gets anywhere while the first one signs if that lets the GIL go.
    stop, turns = threading.Event(), 0

    def count() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1

    big = PrivateKey.generate_rsa(4096)
    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = turns
        for _ in range(10):
            sign(big, KEY_ID, "cavage", "POST", URL, DIGEST, NOW_S)
        during = turns - before
    finally:
        stop.set()
        thread.join()
    assert during > 0


ACCEPT = (
    'sig7=("@method" "@method" "@target-uri" "content-digest" "content-digest");created;keyid;nonce="n1";tag="app-123"'
)


@pytest.fixture
def public() -> PublicKey:
    return PublicKey.from_pem(ED25519.public_pem())


def test_an_accept_signature_is_answered_with_each_component_once(public: PublicKey) -> None:
    fields = sign(ED25519, KEY_ID, "rfc9421", "POST", URL, DIGEST, NOW_S, accept_signature=ACCEPT)
    assert dict(fields)["Signature-Input"] == (
        'sig7=("@method" "@target-uri" "content-digest" "@authority")'
        f';created={NOW_S};keyid="{KEY_ID}";nonce="n1";tag="app-123";alg="ed25519"'
    )
    verified = verify("POST", URL, fields, BODY, {KEY_ID: public}.get, now_s=NOW_S)
    assert verified.label == "sig7"


def test_an_accept_signature_that_asks_for_little_gets_no_less_than_the_profile(public: PublicKey) -> None:
    fields = sign(ED25519, KEY_ID, "rfc9421", "POST", URL, DIGEST, NOW_S, accept_signature='a=("@method")')
    verified = verify("POST", URL, fields, BODY, {KEY_ID: public}.get, now_s=NOW_S)
    assert verified.covered == ('"@method"', '"@target-uri"', '"@authority"', '"content-digest"')


def test_the_first_signature_that_can_be_made_is_made() -> None:
    accept = (
        'a=("@method");alg="rsa-v1_5-sha256", b=("@status"), c=("@method");keyid="other", d=("@path");alg="ed25519"'
    )
    fields = sign(ED25519, KEY_ID, "rfc9421", "POST", URL, DIGEST, NOW_S, accept_signature=accept)
    assert dict(fields)["Signature-Input"].startswith('d=("@path" "@method"')


@pytest.mark.parametrize(
    ("accept", "reason"),
    [
        ("", "malformed_signature"),
        ("nonsense", "malformed_signature"),
        ('a=("@method";req)', "invalid_component"),
        ('a=("@foo")', "invalid_component"),
        ('a=("@method");alg="none"', "unknown_algorithm"),
        ('a=("@method");alg="rsa-v1_5-sha256"', "algorithm_mismatch"),
        ('a=("@method");keyid="other"', "unknown_key"),
        ('a=("@method");nonce', "invalid_param"),
        ('a=("x-not-there")', "missing_component"),
        ('a=("@method")' + " " * 20_000, "malformed_signature"),
    ],
)
def test_an_accept_signature_that_cannot_be_answered_is_refused(accept: str, reason: str) -> None:
    with pytest.raises(SignatureRefused) as caught:
        sign(ED25519, KEY_ID, "rfc9421", "POST", URL, DIGEST, NOW_S, accept_signature=accept)
    assert caught.value.reason == reason


def test_an_accept_signature_is_not_answered_by_cavage() -> None:
    with pytest.raises(SignatureRefused, match="by RFC 9421, not by cavage"):
        sign(ED25519, KEY_ID, "cavage", "POST", URL, DIGEST, NOW_S, accept_signature=ACCEPT)
