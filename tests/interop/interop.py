# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201 - a program for people: it prints
"""Signs with Ojak and verifies with independent implementations, and the other way round.

    make interop

Apart from the suite, since it installs the implementations from their registries (Python into target/interop/python,
JavaScript with a Node 22 of its own into target/interop/node). Every pair of implementation, scheme, key and request
is tried three times: as it is, which has to pass, and with another body and another path, which must not. Prints one
line a pair and the counts; exit code 1 if anything failed.
"""

import base64
import contextlib
import importlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from ojak.signing import BodyDigest, Policy, PrivateKey, PublicKey, SignatureRefused, sign, verify

HERE = Path(__file__).parent
TARGET = HERE.parents[1] / "target" / "interop"
KEY_ID = "https://alice.example/users/alice#main-key"
KEYS = {"rsa": PrivateKey.generate_rsa(), "ed25519": PrivateKey.generate_ed25519()}
Fields = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A request to be signed."""

    method: str
    url: str
    body: str | None

    @property
    def digest(self) -> BodyDigest | None:
        return None if self.body is None else BodyDigest(self.body.encode())

    def changed(self) -> Iterator[tuple[str, "Shape"]]:
        """The same request tampered with."""
        if self.body is not None:
            yield "another body", Shape(method=self.method, url=self.url, body=self.body + " ")
        yield (
            "another path",
            Shape(method=self.method, url=self.url.replace("remote.example/", "remote.example/x"), body=self.body),
        )


SHAPES = [
    Shape(method="POST", url="https://remote.example/inbox", body='{"type":"Create","content":"caf\\u00e9"}'),
    Shape(method="POST", url="https://remote.example/users/bob/inbox?shared=1", body="{}"),
    Shape(method="GET", url="https://remote.example/users/carol", body=None),
    Shape(method="GET", url="https://remote.example/users/carol/outbox?page=true&min_id=0", body=None),
]


class Peer:
    """An implementation: which schemes it verifies and signs, and with which keys."""

    name: str
    verifies: dict[str, set[str]]
    signs: dict[str, set[str]]
    path_only: frozenset[str] = frozenset()
    """What of it reads or writes (request-target) without the query, against draft-cavage-12: verifies, signs."""

    def verify(self, scheme: str, kind: str, shape: Shape, fields: Fields) -> bool:
        raise NotImplementedError

    def sign(self, scheme: str, kind: str, shape: Shape) -> Fields:
        raise NotImplementedError


class Node(Peer):
    """A JavaScript library, behind peer.mjs."""

    def __init__(self, name: str, schemes: dict[str, set[str]], *, path_only: frozenset[str] = frozenset()) -> None:
        self.name = name
        self.verifies = self.signs = schemes
        self.path_only = path_only

    def ask(self, do: str, scheme: str, kind: str, shape: Shape, fields: Fields) -> Any:
        job = {
            "do": do,
            "library": self.name,
            "scheme": scheme,
            "method": shape.method,
            "url": shape.url,
            "headers": fields,
            "body": shape.body,
            "key_id": KEY_ID,
            "public_pem": KEYS[kind].public_pem(),
            "private_pem": KEYS[kind].private_pem(),
        }
        folder = TARGET / "node"
        run = subprocess.run(
            [folder / "node_modules" / ".bin" / "node", folder / "peer.mjs"],
            input=json.dumps([job]),
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise RuntimeError(run.stderr)
        answer = json.loads(run.stdout.strip().splitlines()[-1])[0]
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["answer"]

    def verify(self, scheme: str, kind: str, shape: Shape, fields: Fields) -> bool:
        try:
            return bool(self.ask("verify", scheme, kind, shape, fields))
        except ValueError:
            return False

    def sign(self, scheme: str, kind: str, shape: Shape) -> Fields:
        return [(name, value) for name, value in self.ask("sign", scheme, kind, shape, [])]


class MessageSignatures(Peer):
    """PyPI http-message-signatures."""

    name = "http-message-signatures"

    def __init__(self) -> None:
        self.verifies = self.signs = {"rfc9421": {"rsa", "ed25519"}}
        self.library = importlib.import_module("http_message_signatures")
        self.algorithms = {"rsa": self.library.algorithms.RSA_V1_5_SHA256, "ed25519": self.library.algorithms.ED25519}

    def resolver(self, kind: str) -> Any:
        key = KEYS[kind]

        class Resolver(self.library.HTTPSignatureKeyResolver):  # type: ignore[misc, name-defined]
            def resolve_public_key(self, key_id: str) -> Any:
                return load_pem_public_key(key.public_pem().encode())

            def resolve_private_key(self, key_id: str) -> Any:
                return load_pem_private_key(key.private_pem().encode(), None)

        return Resolver()

    def verify(self, scheme: str, kind: str, shape: Shape, fields: Fields) -> bool:
        body = None if shape.body is None else shape.body.encode()
        message = SimpleNamespace(method=shape.method, url=shape.url, headers=dict(fields), body=body)
        verifier = self.library.HTTPMessageVerifier(
            signature_algorithm=self.algorithms[kind], key_resolver=self.resolver(kind)
        )
        sent = dict(fields).get("Content-Digest", "")
        if body is not None and sent != f"sha-256=:{base64.b64encode(sha256(body).digest()).decode()}:":
            return False
        try:
            return bool(verifier.verify(message))
        except self.library.HTTPMessageSignaturesException:
            return False

    def sign(self, scheme: str, kind: str, shape: Shape) -> Fields:
        body = None if shape.body is None else shape.body.encode()
        covered = ["@method", "@target-uri", "@authority", *(["content-digest"] if body is not None else [])]
        message = SimpleNamespace(method=shape.method, url=shape.url, headers={"Host": "remote.example"}, body=body)
        signer = self.library.HTTPMessageSigner(
            signature_algorithm=self.algorithms[kind], key_resolver=self.resolver(kind)
        )
        signer.sign(message, key_id=KEY_ID, covered_component_ids=covered, body=body)
        return list(message.headers.items())


class Cryptography(Peer):
    """`cryptography` alone: the base put together here, by the drafts' text."""

    name = "cryptography"

    def __init__(self) -> None:
        self.verifies = self.signs = {"cavage": {"rsa", "ed25519"}, "rfc9421": {"rsa", "ed25519"}}

    def base(self, scheme: str, shape: Shape, fields: dict[str, str], params: str) -> str:
        target = shape.url.removeprefix("https://remote.example")
        if scheme == "cavage":
            lines = [f"(request-target): {shape.method.lower()} {target}", f"host: {fields['Host']}"]
            lines.append(f"date: {fields['Date']}")
            return "\n".join([*lines, f"digest: {fields['Digest']}"] if shape.body is not None else lines)
        lines = [f'"@method": {shape.method}', f'"@target-uri": {shape.url}', '"@authority": remote.example']
        if shape.body is not None:
            lines.append(f'"content-digest": {fields["Content-Digest"]}')
        return "\n".join([*lines, f'"@signature-params": {params}'])

    def verify(self, scheme: str, kind: str, shape: Shape, fields: Fields) -> bool:
        sent = dict(fields)
        if scheme == "cavage":
            params, encoded = "", sent["Signature"].split('signature="')[1].rstrip('"')
            digest, wanted = sent.get("Digest"), shape.digest and shape.digest.digest
        else:
            params, encoded = sent["Signature-Input"].removeprefix("sig1="), sent["Signature"][6:-1]
            digest, wanted = sent.get("Content-Digest"), shape.digest and shape.digest.content_digest
        base, signature = self.base(scheme, shape, sent, params).encode(), base64.b64decode(encoded)
        public = load_pem_public_key(KEYS[kind].public_pem().encode())
        try:
            if isinstance(public, rsa.RSAPublicKey):
                public.verify(signature, base, padding.PKCS1v15(), SHA256())
            elif isinstance(public, ed25519.Ed25519PublicKey):
                public.verify(signature, base)
        except InvalidSignature:
            return False
        return digest == wanted

    def sign(self, scheme: str, kind: str, shape: Shape) -> Fields:
        fields = {"Host": "remote.example", "Date": formatdate(usegmt=True)}
        if shape.digest is not None:
            fields["Digest"], fields["Content-Digest"] = shape.digest.digest, shape.digest.content_digest
        digest = " digest" if shape.body is not None else ""
        content_digest = ' "content-digest"' if shape.body is not None else ""
        params = f'("@method" "@target-uri" "@authority"{content_digest});created={int(time.time())};keyid="{KEY_ID}"'
        base = self.base(scheme, shape, fields, params).encode()
        private = load_pem_private_key(KEYS[kind].private_pem().encode(), None)
        if isinstance(private, rsa.RSAPrivateKey):
            raw = private.sign(base, padding.PKCS1v15(), SHA256())
        else:
            assert isinstance(private, ed25519.Ed25519PrivateKey)
            raw = private.sign(base)
        encoded = base64.b64encode(raw).decode()
        if scheme == "cavage":
            names = f"(request-target) host date{digest}"
            fields["Signature"] = f'keyId="{KEY_ID}",algorithm="hs2019",headers="{names}",signature="{encoded}"'
        else:
            fields |= {"Signature-Input": f"sig1={params}", "Signature": f"sig1=:{encoded}:"}
        return list(fields.items())


def install() -> None:
    """Bring the implementations, if they are not there."""
    python, node = TARGET / "python", TARGET / "node"
    if not (python / "http_message_signatures").exists():
        requirements = str(HERE / "requirements.txt")
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--target",
            str(python),
            "--no-deps",
            "-r",
            requirements,
        ]
        subprocess.run(pip, check=True)
    sys.path.append(str(python))
    node.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "peer.mjs", node)
    if (node / "package.json").exists() and (node / "package.json").read_text() == (HERE / "package.json").read_text():
        return
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is not there; it comes with Node, which the JavaScript implementations need")
    shutil.copy(HERE / "package.json", node)
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "--loglevel=error"], cwd=node, check=True)


def ojak_verifies(kind: str, shape: Shape, fields: Fields) -> bool:
    """Whether Ojak takes a request."""
    body = None if shape.body is None else shape.body.encode()
    public = PublicKey.from_pem(KEYS[kind].public_pem())
    keys, policy = {KEY_ID: public}.get, Policy(queryless=True)
    with contextlib.suppress(SignatureRefused):
        verified = verify(shape.method, shape.url, fields, body, keys, now_s=int(time.time()), policy=policy)
        return verified.key_id == KEY_ID
    return False


def there(peer: Peer, scheme: str, kind: str, shape: Shape) -> Iterator[tuple[str, bool]]:
    """Ojak signs, the other verifies."""
    fields = sign(KEYS[kind], KEY_ID, scheme, shape.method, shape.url, shape.digest, int(time.time()))
    readable = scheme != "cavage" or "?" not in shape.url or "verifies" not in peer.path_only
    yield "as it is", peer.verify(scheme, kind, shape, fields) == readable
    for what, changed in shape.changed():
        # What is known of a library is not held against it: one that leaves the digest to its caller is given no
        # chance to see another body.
        if what == "another body" and peer.name in ("joyent", "peertube"):
            continue
        yield what, not peer.verify(scheme, kind, changed, fields)


def back(peer: Peer, scheme: str, kind: str, shape: Shape) -> Iterator[tuple[str, bool]]:
    """The other signs, Ojak verifies."""
    fields = peer.sign(scheme, kind, shape)
    # A query that is not signed is let pass for a GET alone, and where that is asked for.
    whole = scheme != "cavage" or "?" not in shape.url or "signs" not in peer.path_only
    yield "as it is", ojak_verifies(kind, shape, fields) == (whole or shape.method == "GET")
    for what, changed in shape.changed():
        yield what, not ojak_verifies(kind, changed, fields)


def main() -> int:
    """Try every pair."""
    install()
    both = {"rsa", "ed25519"}
    peers: list[Peer] = [
        Cryptography(),
        MessageSignatures(),
        Node("fedify", {"cavage": {"rsa"}, "rfc9421": {"rsa"}}, path_only=frozenset({"verifies", "signs"})),
        Node("misskey", {"cavage": both}, path_only=frozenset({"signs"})),
        Node("joyent", {"cavage": {"rsa"}}),
        Node("peertube", {"cavage": {"rsa"}}),
    ]
    passed = failed = 0
    for peer in peers:
        for direction, schemes, run in (("Ojak signs", peer.verifies, there), ("Ojak verifies", peer.signs, back)):
            for scheme, kinds in schemes.items():
                for kind in sorted(kinds):
                    wrong = []
                    for shape in SHAPES:
                        try:
                            results = list(run(peer, scheme, kind, shape))
                        except ValueError as error:
                            results = [(str(error), False)]
                        passed += sum(fits for _, fits in results)
                        failed += sum(not fits for _, fits in results)
                        wrong += [f"{shape.method} {shape.url} {what}" for what, fits in results if not fits]
                    print(
                        f"{'FAILED' if wrong else 'ok':6} {peer.name:24} {direction:14} {scheme:8} {kind:8}",
                        *wrong,
                        sep="  ",
                    )
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
