# SPDX-License-Identifier: Apache-2.0
# The docstrings of a native module have no other place to live: an editor shows them from here.
# ruff: noqa: PYI021
"""Keys, digests and HTTP signatures. Everything here is safe to use from several threads."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias, final

__all__ = [
    "REASONS",
    "BodyDigest",
    "CollectionSync",
    "FollowersDigest",
    "Message",
    "Policy",
    "PrivateKey",
    "PublicKey",
    "Target",
    "Verified",
    "canonical_json",
    "cavage_base",
    "check_digest",
    "check_proof",
    "hash_proof",
    "make_proof",
    "parse_cavage",
    "parse_signature_input",
    "parse_target",
    "rfc9421_base",
    "sign",
    "sign_cavage",
    "sign_rfc9421",
    "verify",
    "verify_message",
    "verify_raw",
]

REASONS: list[str]
"""The closed list of words that `KeyRefused.reason` and `SignatureRefused.reason` take."""

_Headers: TypeAlias = Iterable[tuple[str | bytes, str | bytes]]

@final
class PrivateKey:
    """A private key, parsed once: a handle whose bytes stay in Rust and are cleared when it goes.

    It does not pickle, and its repr shows only kind and size.
    """

    @staticmethod
    def from_pem(pem: str | bytes, *, min_rsa_bits: int = 2048) -> PrivateKey:
        """Read a PEM private key: PKCS#8 (RSA up to 8192 bits, Ed25519, P-256), or RSA in PKCS#1.

        Any line ends and line lengths are taken. RSA below `min_rsa_bits`, or below 2048, is refused. Raises
        `KeyRefused` with the reason `malformed_key`, `unsupported_key` or `weak_key`.
        (RFC 7468, RFC 5958, RFC 8017, RFC 8410)
        """

    @staticmethod
    def from_ed25519_seed(seed: bytes) -> PrivateKey:
        """Take the 32 bytes of an Ed25519 seed. Raises `KeyRefused` (`malformed_key`) (RFC 8032)."""

    @staticmethod
    def from_multikey(text: str | bytes) -> PrivateKey:
        """Read a `secretKeyMultibase` of an Ed25519 key. Raises `KeyRefused` (FEP-521a)."""

    @staticmethod
    def generate_rsa(bits: int = 2048) -> PrivateKey:
        """Make an RSA key of 2048, 3072, 4096 or 8192 bits. Takes a tenth of a second and more, without the GIL."""

    @staticmethod
    def generate_ed25519() -> PrivateKey:
        """Make an Ed25519 key."""

    @property
    def kind(self) -> Literal["rsa", "ed25519", "p256"]:
        """What kind the key is of."""

    @property
    def bits(self) -> int:
        """The size in bits: of the modulus for RSA, 256 otherwise."""

    def public_key(self) -> PublicKey:
        """Give the public half."""

    def public_pem(self) -> str:
        """Give the public half as SPKI PEM, the form for `publicKeyPem`."""

    def private_pem(self) -> str:
        """Give the key as PKCS#8 PEM. With `secret_multikey` the only way out of the handle: store it with care."""

    def secret_multikey(self) -> str:
        """Give an Ed25519 key as `secretKeyMultibase`. Raises `KeyRefused` for another kind (FEP-521a)."""

@final
class PublicKey:
    """A public key, parsed once. It does not pickle."""

    @staticmethod
    def from_pem(pem: str | bytes, *, algorithm: str | None = None, min_rsa_bits: int = 2048) -> PublicKey:
        """Read a PEM public key: SPKI (RSA, Ed25519, P-256), or RSA in PKCS#1.

        `algorithm`, a name of RFC 9421 section 6.2, pins the key to it, as its record may. RSA below
        `min_rsa_bits` (at least 1024) is refused. Raises `KeyRefused` with the reason `malformed_key`,
        `unsupported_key`, `weak_key`, `unknown_algorithm` or `algorithm_mismatch`.
        """

    @staticmethod
    def from_multikey(text: str | bytes, *, min_rsa_bits: int = 2048) -> PublicKey:
        """Read a `publicKeyMultibase` of an Ed25519 or RSA key. Raises `KeyRefused` (FEP-521a)."""

    @property
    def kind(self) -> Literal["rsa", "ed25519", "p256"]:
        """What kind the key is of."""

    @property
    def bits(self) -> int:
        """The size in bits: of the modulus for RSA, 256 otherwise."""

    @property
    def algorithm(self) -> str | None:
        """The one algorithm that the key is pinned to, if any."""

    @property
    def spki_sha256(self) -> str:
        """The SHA-256 of the SPKI DER in hex: a name for the key that is safe to log."""

    def pem(self) -> str:
        """Give the key as SPKI PEM."""

    def multikey(self) -> str:
        """Give an Ed25519 key as `publicKeyMultibase`. Raises `KeyRefused` for another kind (FEP-521a)."""

@final
class BodyDigest:
    """The digest fields of one body: computed once, used for every attempt."""

    def __new__(cls, body: bytes | None, algorithms: Sequence[str] | None = None) -> BodyDigest:
        """Hash a body by SHA-256, which every server reads, or by the named algorithms (`sha-256`, `sha-512`)."""

    def __eq__(self, other: object, /) -> bool: ...
    @property
    def digest(self) -> str:
        """The value of `Digest`, such as `SHA-256=…` (RFC 3230)."""

    @property
    def content_digest(self) -> str:
        """The value of `Content-Digest`, such as `sha-256=:…:` (RFC 9530)."""

def check_digest(field: str, value: str, body: bytes | None) -> None:
    """Check the value of a `Digest` or `Content-Digest` field against a body.

    Every algorithm that is known (sha-256, sha-512) has to match, and one has to be known. Raises `SignatureRefused`
    with the reason `digest_malformed`, `digest_unsupported` or `digest_mismatch`. (RFC 3230, RFC 9530)
    """

@final
class Policy:
    """What a verifier demands. The default is that of an inbox, with the ages of Mastodon's rules."""

    def __new__(
        cls,
        *,
        min_rsa_bits: int = 2048,
        max_skew_s: int = 3600,
        max_age_s: int | None = 43_200,
        queryless: bool = False,
        coverage: Literal["activitypub", "none"] = "activitypub",
    ) -> Policy:
        """Make a policy.

        `min_rsa_bits`: the fewest bits of an RSA key (1024 to 8192). `max_skew_s`: how far clocks may be apart.
        `max_age_s`: how old a signature may be before the skew is added; None for any age. `queryless`: a GET may be
        signed by cavage without its query, tried only after the full target failed. `coverage`: `activitypub` demands
        what an inbox needs, `none` nothing. Raises `SignatureRefused` (`invalid_param`).
        """

    @property
    def min_rsa_bits(self) -> int:
        """The fewest bits of an RSA key."""

    @property
    def max_skew_s(self) -> int:
        """How far clocks may be apart, in seconds."""

    @property
    def max_age_s(self) -> int | None:
        """How old a signature may be, in seconds, before the skew is added."""

    @property
    def queryless(self) -> bool:
        """Whether a GET may be signed without its query."""

    @property
    def coverage(self) -> Literal["activitypub", "none"]:
        """What has to be covered."""

@final
class Verified:
    """A signature that passed."""

    @property
    def key_id(self) -> str:
        """The id of the key. Whose key that is, the caller has to know."""

    @property
    def scheme(self) -> Literal["cavage", "rfc9421"]:
        """How the message was signed."""

    @property
    def algorithm(self) -> str:
        """What it was signed with, by its scheme's name for it: `rsa-sha256` (cavage), `rsa-v1_5-sha256`, …."""

    @property
    def label(self) -> str | None:
        """The signature's label (RFC 9421)."""

    @property
    def covered(self) -> tuple[str, ...]:
        """What is covered: names (cavage), or component identifiers as they stand (RFC 9421)."""

    @property
    def queryless(self) -> bool:
        """Whether the query was left out of what was signed."""

def sign(
    key: PrivateKey,
    key_id: str,
    scheme: str,
    method: str,
    url: str,
    digest: BodyDigest | None,
    now_s: int,
    headers: _Headers | None = None,
    *,
    accept_signature: str | None = None,
) -> list[tuple[str, str]]:
    """Sign a request as Ojak sends it (SPEC section 6), and give the header fields to send.

    `scheme` is `cavage` (`(request-target) host date digest`, `rsa-sha256` for RSA and `hs2019` for Ed25519) or
    `rfc9421` (`"@method" "@target-uri" "@authority" "content-digest"`, parameters created, keyid, alg). `url` is
    absolute; path and query are signed byte for byte. `digest` is that of the body, None for a request without one.
    `now_s` is the time of the signature in seconds since 1970. `headers` are the caller's own fields to cover too.
    `accept_signature` is an Accept-Signature to answer by RFC 9421: its first signature that this key can make, with
    what it asks for (each component once) and what the profile covers in any case.

    The answer holds Host, Date, the digest and the signature, in order, and not the caller's own fields. RSA signs
    without the GIL. Raises `SignatureRefused` with the reason `invalid_url`, `invalid_header`, `invalid_param` or
    `algorithm_mismatch`. (draft-cavage-http-signatures-12, RFC 9421)
    """

def verify(
    method: str,
    url: str,
    headers: _Headers,
    body: bytes | None,
    resolve: Callable[[str], PublicKey | None],
    *,
    now_s: int,
    policy: Policy | None = None,
    scheme: str | None = None,
    label: str | None = None,
) -> Verified:
    """Verify the signature of a request, as an inbox must.

    `url` is the absolute URL that was asked for. `resolve` gives the key of a key id, or None; a `KeyRefused` that it
    raises counts against that signature, and anything else it raises goes up as it is. `now_s` is the time in seconds
    since 1970. Without `scheme`, a message with a Signature-Input is verified by RFC 9421 and no other. Without
    `label`, the first signature that passes wins. Raises `SignatureRefused`, whose `reason` is a word of `REASONS`.
    (draft-cavage-http-signatures-12, RFC 9421 section 3.2)
    """

def verify_raw(key: PublicKey, algorithm: str, signature: bytes, data: bytes) -> None:
    """Check one signature over data. `algorithm` is a name of RFC 9421 section 6.2.

    Raises `SignatureRefused` with the reason `unknown_algorithm`, `algorithm_mismatch`, `weak_key` or
    `signature_mismatch`.
    """

_Component: TypeAlias = str | tuple[str, Mapping[str, str | bool]]
_Params: TypeAlias = Sequence[tuple[str, str | int | bool]]

@final
class Message:
    """A message with every part chosen: a request (method and url) or a response (status, and maybe its request)."""

    def __new__(
        cls,
        headers: _Headers,
        *,
        method: str | None = None,
        url: str | None = None,
        target: str | None = None,
        status: int | None = None,
        body: bytes | None = None,
        trailers: _Headers | None = None,
        request: Message | None = None,
    ) -> Message:
        """Make a message, checked.

        `target` is the request target as it stands in the request line, where that is not path and query of `url`.
        Header fields are in message order, duplicates kept. At most 256 fields and 64 KiB of them are taken. Raises
        `SignatureRefused` with the reason `invalid_url`, `invalid_header` or `invalid_param`.
        """

@final
class Target:
    """A URL cut into what stands on the wire and in a signature (RFC 9421 section 2.2)."""

    @property
    def scheme(self) -> Literal["http", "https"]:
        """The scheme, in lower case."""

    @property
    def authority(self) -> str:
        """Host in lower-case A-labels, with the port unless it is the default one: the Host field too."""

    @property
    def path(self) -> str:
        """The path, byte for byte; `/` if there is none."""

    @property
    def query(self) -> str:
        """The value of `@query`: the query with its question mark, a lone one if there is none."""

    @property
    def request_target(self) -> str:
        """Path and query, as in the request line."""

    @property
    def target_uri(self) -> str:
        """The URI without its fragment."""

def parse_target(url: str) -> Target:
    """Cut an absolute http or https URL of at most 8 KiB. Raises `SignatureRefused` (`invalid_url`)."""

def sign_cavage(
    message: Message,
    key: PrivateKey,
    key_id: str,
    *,
    algorithm: str,
    headers: Sequence[str],
    created_s: int | None = None,
    expires_s: int | None = None,
    add: Sequence[str] | None = None,
    now_s: int | None = None,
) -> list[tuple[str, str]]:
    """Sign by draft-cavage-12 with every part chosen, and give the header fields to add.

    `algorithm` is `rsa-sha256`, `hs2019` or `ed25519`; `headers` are the names to cover, in order, among them
    `(request-target)`, `(created)` and `(expires)`. `add` names what the message lacks and the signer adds: `host`,
    `date`, `digest`, `content-digest`, `created`; times are `now_s`, in seconds since 1970. Raises `SignatureRefused`
    with the reason `invalid_param`, `unknown_algorithm`, `algorithm_mismatch`, `malformed_signature` (nothing
    covered), `missing_component`, `invalid_component`, `missing_param` or `invalid_header`.
    (draft-cavage-http-signatures-12 section 2).
    """

def cavage_base(
    message: Message,
    *,
    algorithm: str,
    headers: Sequence[str],
    created_s: int | None = None,
    expires_s: int | None = None,
) -> str:
    """Give the signing string. Raises as `sign_cavage` does. (draft-cavage-http-signatures-12 section 2.3)."""

def parse_cavage(text: str) -> list[tuple[str, str]]:
    """Take a cavage `Signature` apart into its parameters, in order.

    Raises `SignatureRefused` (`malformed_signature`, `duplicate_param`). (draft-cavage-http-signatures-12 section 2.1).
    """

def sign_rfc9421(
    message: Message,
    key: PrivateKey,
    *,
    algorithm: str,
    components: Sequence[_Component],
    params: _Params,
    label: str = "sig1",
    append: bool = False,
    add: Sequence[str] | None = None,
    now_s: int | None = None,
) -> list[tuple[str, str]]:
    """Sign by RFC 9421 with every part chosen, and give the header fields to add.

    `algorithm` is a name of section 6.2. `components` are names, or pairs of a name and its parameters (`sf`, `key`,
    `bs`, `tr`, `req`, `name`). `params` are written in the order given: whole numbers, texts, True. With `append` the
    message's own signatures stay beside the new one. `add` and `now_s` are as with `sign_cavage`. Raises
    `SignatureRefused` with the reason `invalid_param`, `duplicate_param`, `unknown_algorithm`, `algorithm_mismatch`,
    `invalid_component`, `duplicate_component`, `missing_component`, `ambiguous_component`, `malformed_sf`,
    `malformed_signature` (the message's own) or `invalid_header`. (RFC 9421 section 3.1).
    """

def rfc9421_base(message: Message, components: Sequence[_Component], params: _Params) -> str:
    """Give the signature base. Raises as `sign_rfc9421` does. (RFC 9421 section 2.5)."""

def parse_signature_input(text: str) -> list[tuple[str, str]]:
    """Give the labels of a `Signature-Input` or `Accept-Signature`, each with its inner list in canonical form.

    Members that are not inner lists are left out. Raises `SignatureRefused` (`malformed_signature`,
    `duplicate_param`). (RFC 9421 section 4.1).
    """

def verify_message(
    message: Message,
    resolve: Callable[[str], PublicKey | None],
    *,
    now_s: int,
    policy: Policy | None = None,
    scheme: str | None = None,
    label: str | None = None,
) -> Verified:
    """Verify the signature of a request or response. As `verify`, for a message that is there already."""

@final
class FollowersDigest:
    """The digest of the followers of an actor that live on one instance, kept as they come and go (FEP-8fcf).

    Adding and removing are the same operation on it, so each has to be told exactly once.
    """

    def __new__(cls, instance: str, digest: str | None = None) -> FollowersDigest:
        """Start for the instance of a URL, such as an inbox: with no followers, or from a digest kept in hex.

        Raises `SignatureRefused` (`invalid_url`, `invalid_param`).
        """

    @staticmethod
    def of(instance: str, followers: Iterable[str]) -> FollowersDigest:
        """Digest a whole collection of ids; those that live elsewhere are left out, repeated ones count once."""

    def add(self, follower: str) -> bool:
        """Add a follower that was none. Says whether it lives on the instance; if not, nothing changes."""

    def remove(self, follower: str) -> bool:
        """Remove a follower that was one. Says whether it lives on the instance; if not, nothing changes."""

    def holds(self, follower: str) -> bool:
        """Say whether a follower lives on the instance: same scheme, host and port."""

    @property
    def hex(self) -> str:
        """The digest, as 64 hex digits."""

@final
class CollectionSync:
    """A `Collection-Synchronization` header (FEP-8fcf)."""

    def __new__(cls, collection_id: str, url: str, digest: str) -> CollectionSync:
        """Make a header to send. Raises `SignatureRefused` (`invalid_param`)."""

    @staticmethod
    def parse(value: str, *, actor: str | None = None, followers: str | None = None) -> CollectionSync:
        """Read a header that arrived, and check it against who sent it: the actor's id, and its followers' id.

        Whether the signature covered it, the verifier says. Raises `SignatureRefused` with the reason
        `malformed_signature`, `duplicate_param`, `missing_param`, `wrong_collection` or `wrong_authority`.
        """

    @property
    def collection_id(self) -> str:
        """The followers collection."""

    @property
    def url(self) -> str:
        """Where the partial collection can be fetched."""

    @property
    def digest(self) -> str:
        """The digest in hex."""

    @property
    def params(self) -> list[tuple[str, str]]:
        """All parameters, in order."""

    def header(self) -> str:
        """Give the header's value."""

def canonical_json(text: bytes) -> bytes:
    """Give a JSON text of at most 4 MiB in canonical form.

    Raises `SignatureRefused` (`not_json`, `duplicate_key`). (RFC 8785).
    """

def make_proof(document: bytes, key: PrivateKey, verification_method: str, created: str) -> bytes:
    """Make an integrity proof, as JSON, for a document given as JSON. See `ojak.signing.sign_document`."""

def hash_proof(document: bytes) -> bytes:
    """Give the 64 bytes that the proof of a document given as JSON signs. See `ojak.signing.proof_hash`."""

def check_proof(document: bytes, resolve: Callable[[str], tuple[PublicKey, str] | None], *, now_s: int) -> str:
    """Check the integrity proof of a document given as JSON. See `ojak.signing.verify_document`."""
