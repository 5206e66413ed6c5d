# SPDX-License-Identifier: Apache-2.0
"""Report R19 of the field: a key that our own generator wrote loads in every form in which it is found."""

import copy
import pickle
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from ojak.signing import KeyRefused, PrivateKey, PublicKey

RSA = PrivateKey.generate_rsa()
ED25519 = PrivateKey.generate_ed25519()


def pkcs1(pem: str) -> str:
    key = load_pem_private_key(pem.encode(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()


def one_line(pem: str) -> str:
    begin, *lines, end = pem.strip().splitlines()
    return "\n".join([begin, "".join(lines), end])


FORMS: dict[str, Callable[[str], str]] = {
    "as written": lambda pem: pem,
    "CRLF": lambda pem: pem.replace("\n", "\r\n"),
    "CR": lambda pem: pem.replace("\n", "\r"),
    "no final newline": lambda pem: pem.rstrip("\n"),
    "one line of base64": one_line,
    "backslash and n": lambda pem: pem.replace("\n", "\\n"),
    "leading blank lines": lambda pem: f"\n\n  {pem}",
    "trailing blanks": lambda pem: pem.replace("\n", "  \n"),
    "text before": lambda pem: f"Private-Key: (2048 bit)\n{pem}",
}


@pytest.mark.parametrize("key", [RSA, ED25519], ids=["rsa", "ed25519"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_loads_and_is_the_same_key(key: PrivateKey, form: str) -> None:
    pem = FORMS[form](key.private_pem())
    for text in (pem, pem.encode()):
        assert PrivateKey.from_pem(text).public_pem() == key.public_pem()
    public = FORMS[form](key.public_pem())
    assert PublicKey.from_pem(public).spki_sha256 == key.public_key().spki_sha256


@pytest.mark.parametrize("form", FORMS)
def test_pkcs1_loads_in_every_form(form: str) -> None:
    assert PrivateKey.from_pem(FORMS[form](pkcs1(RSA.private_pem()))).public_pem() == RSA.public_pem()


@pytest.mark.parametrize("key", [RSA, ED25519], ids=["rsa", "ed25519"])
def test_another_library_reads_what_we_write(key: PrivateKey) -> None:
    other = load_pem_private_key(key.private_pem().encode(), None)
    assert other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode() == key.public_pem()


def test_an_encrypted_key_is_refused_by_name() -> None:
    other = load_pem_private_key(RSA.private_pem().encode(), None)
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    with pytest.raises(KeyRefused, match="encrypted") as caught:
        PrivateKey.from_pem(pem)
    assert caught.value.reason == "unsupported_key"


def test_a_small_key_is_never_signed_with() -> None:
    small = rsa.generate_private_key(65537, 1024)
    pem = small.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(KeyRefused, match="1024 bits; at least 2048 are wanted"):
        PrivateKey.from_pem(pem)
    public = small.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(KeyRefused, match="1024 bits"):
        PublicKey.from_pem(public)
    assert PublicKey.from_pem(public, min_rsa_bits=1024).bits == 1024


def test_another_curve_is_refused() -> None:
    other = ec.generate_private_key(ec.SECP256K1())
    with pytest.raises(KeyRefused) as caught:
        PrivateKey.from_pem(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert caught.value.reason == "unsupported_key"


def test_a_damaged_rsa_key_is_found_at_load() -> None:
    # A prime of another key: the DER is good, the numbers do not belong together.
    numbers = load_pem_private_key(RSA.private_pem().encode(), None).private_numbers()  # type: ignore[union-attr]
    assert isinstance(numbers, rsa.RSAPrivateNumbers)
    wrong = rsa.RSAPrivateNumbers(
        p=numbers.p,
        q=numbers.q,
        d=numbers.d ^ 2,
        dmp1=numbers.dmp1,
        dmq1=numbers.dmq1 ^ 2,
        iqmp=numbers.iqmp,
        public_numbers=numbers.public_numbers,
    )
    pem = wrong.private_key(unsafe_skip_rsa_key_validation=True).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    with pytest.raises(KeyRefused, match="belong together") as caught:
        PrivateKey.from_pem(pem)
    assert caught.value.reason == "malformed_key"


@pytest.mark.parametrize("key", [RSA, ED25519, RSA.public_key()], ids=["rsa", "ed25519", "public"])
def test_a_handle_neither_pickles_nor_copies_nor_shows_its_key(key: PrivateKey | PublicKey) -> None:
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="does not pickle"):
            leak(key)
    shown = f"{key!r} {key} {vars(type(key))}"
    assert "PRIVATE" not in shown
    assert RSA.private_pem().splitlines()[1] not in shown


@pytest.mark.parametrize("value", [None, 5, 1.5, ["x"], bytearray(b"x")])
def test_what_is_no_text_is_a_type_error(value: object) -> None:
    for read in (PrivateKey.from_pem, PublicKey.from_pem, PrivateKey.from_multikey, PublicKey.from_multikey):
        with pytest.raises(TypeError):
            read(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["\ud800", b"\xff\xfe", "é", "\0"])
def test_what_is_no_key_is_refused(value: str | bytes) -> None:
    for read in (PrivateKey.from_pem, PublicKey.from_pem, PrivateKey.from_multikey, PublicKey.from_multikey):
        with pytest.raises(KeyRefused) as caught:
            read(value)
        assert caught.value.reason == "malformed_key"


def test_multikeys_come_back() -> None:
    assert PrivateKey.from_multikey(ED25519.secret_multikey()).public_pem() == ED25519.public_pem()
    multikey = ED25519.public_key().multikey()
    assert multikey.startswith("z6Mk")
    assert PublicKey.from_multikey(multikey).spki_sha256 == ED25519.public_key().spki_sha256
    for make in (RSA.secret_multikey, RSA.public_key().multikey):
        with pytest.raises(KeyRefused) as caught:
            make()
        assert caught.value.reason == "unsupported_key"


@pytest.mark.parametrize("bits", [0, 512, 1024, 2047, 16384])
def test_only_sound_sizes_are_generated(bits: int) -> None:
    with pytest.raises(KeyRefused, match="2048, 3072, 4096 or 8192"):
        PrivateKey.generate_rsa(bits)
