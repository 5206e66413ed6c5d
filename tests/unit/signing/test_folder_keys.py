# SPDX-License-Identifier: Apache-2.0
"""Keys in a folder: names, forms, refusals, and what is written."""

import errno
import logging
import os
import stat
from pathlib import Path

import pytest

from ojak.errors import UnknownSender
from ojak.signing import FolderSenderKeys, KeyExists, KeyRefused, KeysOutOfReach, PrivateKey, SenderKeyring, SigningKey

ALICE = "https://alice.example/users/alice"


@pytest.fixture
def keys(tmp_path: Path) -> FolderSenderKeys:
    return FolderSenderKeys(tmp_path / "keys")


def rsa_path(keys: FolderSenderKeys, sender: str = ALICE) -> Path:
    path, _ = keys.paths_of(sender)
    path.parent.mkdir(exist_ok=True)
    return path


async def test_a_generated_pair_is_found_again(keys: FolderSenderKeys) -> None:
    made = keys.generate(ALICE)
    found = await keys.keys_of(ALICE)
    assert found.rsa.key_id == f"{ALICE}#main-key"
    assert found.rsa.key.public_pem() == made.rsa.key.public_pem()
    assert found.ed25519 is not None
    assert made.ed25519 is not None
    assert found.ed25519.key_id == f"{ALICE}#ed25519-key"
    assert found.ed25519.key.public_pem() == made.ed25519.key.public_pem()


def test_files_are_named_by_the_percent_encoded_sender_and_private(keys: FolderSenderKeys) -> None:
    keys.generate(ALICE)
    files = sorted(keys.folder.iterdir())
    encoded = "https%3A%2F%2Falice.example%2Fusers%2Falice"
    assert [file.name for file in files] == [f"{encoded}.ed25519.pem", f"{encoded}.pem"]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
    assert stat.S_IMODE(keys.folder.stat().st_mode) == 0o700


def test_a_key_is_not_replaced_unless_asked(keys: FolderSenderKeys) -> None:
    made = keys.generate(ALICE)
    with pytest.raises(KeyExists, match="has a key already"):
        keys.generate(ALICE)
    assert keys.load(ALICE).rsa.key.public_pem() == made.rsa.key.public_pem()
    keys.generate(ALICE, replace=True)
    assert keys.load(ALICE).rsa.key.public_pem() != made.rsa.key.public_pem()


def test_an_ed25519_key_that_is_there_is_not_replaced_either(keys: FolderSenderKeys) -> None:
    keys.generate(ALICE)
    rsa_path(keys).unlink()
    with pytest.raises(KeyExists, match=r"ed25519\.pem"):
        keys.generate(ALICE)


async def test_a_sender_without_file_is_unknown(keys: FolderSenderKeys) -> None:
    with pytest.raises(UnknownSender) as caught:
        await keys.keys_of(ALICE)
    assert caught.value.sender == ALICE


async def test_an_ed25519_key_alone_does_not_make_a_sender(keys: FolderSenderKeys) -> None:
    keys.generate(ALICE)
    rsa_path(keys).unlink()
    with pytest.raises(UnknownSender):
        await keys.keys_of(ALICE)


@pytest.mark.parametrize(
    "sender",
    ["../../etc/passwd", "/etc/passwd", "..", ".", "a\0b", "C:\\keys", "https://x.example/%2e%2e/", "~root", "-rf"],
)
def test_no_sender_leads_out_of_the_folder(keys: FolderSenderKeys, sender: str) -> None:
    for path in keys.paths_of(sender):
        assert path.parent == keys.folder
        assert path.resolve().parent == keys.folder.resolve()
        assert "\0" not in path.name


@pytest.mark.parametrize("sender", ["", "https://x.example/\ud800"])
def test_a_sender_that_is_no_text_is_unknown(keys: FolderSenderKeys, sender: str) -> None:
    with pytest.raises(UnknownSender):
        keys.load(sender)


def test_long_senders_have_short_names_of_their_own(keys: FolderSenderKeys) -> None:
    one, other = (f"https://long.example/{'é' * 300}/{number}" for number in (1, 2))
    made = keys.generate(one)
    keys.generate(other)
    names = {path.name for sender in (one, other) for path in keys.paths_of(sender)}
    assert len(names) == 4
    assert all(name.startswith("sha256-") and len(name) < 100 for name in names)
    assert keys.load(one).rsa.key.public_pem() == made.rsa.key.public_pem()


@pytest.mark.parametrize(
    ("pem", "reason", "says"),
    [
        ("hello", "malformed_key", "BEGIN"),
        ("", "malformed_key", "BEGIN"),
        (PrivateKey.generate_ed25519().public_pem(), "malformed_key", "public key"),
        (PrivateKey.generate_ed25519().private_pem(), "unsupported_key", "kind rsa"),
        (
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "unsupported_key",
            "encrypted",
        ),
        ("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n", "unsupported_key", "EC PRIVATE KEY"),
        ("x" * 40_000, "malformed_key", "32 KiB"),
    ],
)
async def test_a_broken_key_says_what_it_is_and_what_is_wanted(
    keys: FolderSenderKeys, pem: str, reason: str, says: str
) -> None:
    path = rsa_path(keys)
    path.write_text(pem)
    path.chmod(0o600)
    with pytest.raises(KeyRefused, match=says) as caught:
        await keys.keys_of(ALICE)
    assert caught.value.reason == reason
    assert "\n" not in str(caught.value)


async def test_what_is_no_file_is_refused_and_does_not_hang(keys: FolderSenderKeys) -> None:
    os.mkfifo(rsa_path(keys), 0o600)
    with pytest.raises(KeyRefused, match="is not a PEM file"):
        await keys.keys_of(ALICE)
    rsa_path(keys).unlink()
    rsa_path(keys).mkdir()
    with pytest.raises(KeyRefused):
        await keys.keys_of(ALICE)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("call", ["open", "fstat", "read"])
def test_what_this_machine_lacks_is_no_fault_of_a_key(
    keys: FolderSenderKeys, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    keys.generate(ALICE)

    def fail(*_args: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(f"ojak.signing.folder.os.{call}", fail)
    with pytest.raises(KeysOutOfReach, match=f"cannot be read: {os.strerror(number)}"):
        keys.load(ALICE)
    monkeypatch.undo()
    assert keys.load(ALICE).ed25519 is not None


def test_a_file_that_this_user_may_not_read_is_a_fault_of_the_key(
    keys: FolderSenderKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.generate(ALICE)

    def refuse(*_args: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("ojak.signing.folder.os.open", refuse)
    with pytest.raises(KeyRefused, match="cannot be read: Permission denied"):
        keys.load(ALICE)


def test_a_file_that_others_can_read_is_used_with_one_warning(
    keys: FolderSenderKeys, caplog: pytest.LogCaptureFixture
) -> None:
    keys.generate(ALICE)
    rsa_path(keys).chmod(0o644)
    with caplog.at_level(logging.WARNING):
        keys.load(ALICE)
        keys.load(ALICE)
    assert [record.message for record in caplog.records] == ["key file can be read by others"]


def test_a_keyring_takes_each_key_only_in_its_place() -> None:
    rsa, ed25519 = PrivateKey.generate_rsa(), PrivateKey.generate_ed25519()
    with pytest.raises(KeyRefused, match="kind rsa is wanted"):
        SenderKeyring(rsa=SigningKey(key_id="k", key=ed25519))
    with pytest.raises(KeyRefused, match="kind ed25519 is wanted"):
        SenderKeyring(rsa=SigningKey(key_id="k", key=rsa), ed25519=SigningKey(key_id="k", key=rsa))
    assert "PRIVATE" not in repr(SigningKey(key_id="k", key=rsa))
