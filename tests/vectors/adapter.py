# SPDX-License-Identifier: Apache-2.0
"""The hooks of run_vectors.py over the public API: each one call, with the arguments under the API's names."""

import time
from collections.abc import Callable
from functools import cache
from typing import Any

from ojak import signing
from ojak.signing import Message, Policy, PrivateKey, PublicKey, Verified

# What run_vectors.py hands over: a case's inputs as they stand in its JSON.
Given = dict[str, Any]


def _message(m: Given) -> Message:
    request = m.get("request")
    return Message(
        m["headers"],
        method=m.get("method"),
        url=m.get("url"),
        target=m.get("target"),
        status=m.get("status"),
        body=m.get("body"),
        trailers=m.get("trailers"),
        request=None if request is None else _message(request),
    )


def _policy(policy: Given) -> Policy:
    return Policy(
        min_rsa_bits=policy["min_rsa_bits"],
        max_skew_s=policy["max_skew"],
        max_age_s=policy["max_age"],
        queryless=policy["queryless"],
        coverage=policy["coverage"],
    )


def _resolver(keys: Given) -> Callable[[str], PublicKey | None]:
    @cache
    def resolve(key_id: str) -> PublicKey | None:
        key: Given | None = keys.get(key_id)
        return None if key is None else PublicKey.from_pem(key["public_pem"], algorithm=key["alg"], min_rsa_bits=1024)

    return resolve


def _verified(verified: Verified) -> Given:
    return {"key_id": verified.key_id, "algorithm": verified.algorithm, "label": verified.label}


def sign_cavage(
    m: Given,
    *,
    private_pem: str,
    key_id: str,
    algorithm: str,
    headers: list[str],
    created: int | None,
    expires: int | None,
    auto: list[str] | None,
    now: int | None,
) -> Given:
    fields = signing.sign_cavage(
        _message(m),
        PrivateKey.from_pem(private_pem),
        key_id,
        algorithm=algorithm,
        headers=headers,
        created_s=created,
        expires_s=expires,
        add=auto,
        now_s=now,
    )
    return {"headers": dict(fields)}


def sign_rfc9421(
    m: Given,
    *,
    private_pem: str,
    alg: str,
    label: str,
    components: list[tuple[str, dict[str, str | bool]]],
    params: list[tuple[str, str | int | bool]],
    append: bool,
    auto: list[str] | None,
    now: int | None,
) -> Given:
    fields = signing.sign_rfc9421(
        _message(m),
        PrivateKey.from_pem(private_pem),
        algorithm=alg,
        label=label,
        components=components,
        params=params,
        append=append,
        add=auto,
        now_s=now,
    )
    return {"headers": dict(fields)}


def verify_cavage(m: Given, keys: Given, policy: Given, now: int) -> Given:
    message, resolve = _message(m), _resolver(keys)
    return _verified(signing.verify_message(message, resolve, now_s=now, policy=_policy(policy), scheme="cavage"))


def verify_rfc9421(m: Given, keys: Given, policy: Given, now: int, *, label: str | None) -> Given:
    message, resolve = _message(m), _resolver(keys)
    return _verified(
        signing.verify_message(message, resolve, now_s=now, policy=_policy(policy), scheme="rfc9421", label=label)
    )


def verify_signature(public_pem: str, alg: str, sig: bytes, data: bytes) -> bool:
    signing.verify_raw(PublicKey.from_pem(public_pem), alg, sig, data)
    return True


def base_cavage(m: Given, *, headers: list[str], created: int | None, expires: int | None, algorithm: str) -> str:
    return signing.cavage_base(_message(m), algorithm=algorithm, headers=headers, created_s=created, expires_s=expires)


def base_rfc9421(
    m: Given,
    components: list[tuple[str, dict[str, str | bool]]],
    params: list[tuple[str, str | int | bool]],
) -> str:
    return signing.rfc9421_base(_message(m), components, params)


def parse_cavage(text: str) -> dict[str, str]:
    return dict(signing.parse_cavage(text))


def parse_signature_input(text: str) -> list[tuple[str, str]]:
    return signing.parse_signature_input(text)


def map_url(url: str) -> dict[str, str]:
    target = signing.parse_target(url)
    return {
        "host_header": target.authority,
        "request_target": target.request_target,
        "target_uri": target.target_uri,
        "authority": target.authority,
        "path": target.path,
        "query": target.query,
        "scheme": target.scheme,
    }


def make_digest(body: bytes, algs: list[str]) -> dict[str, str]:
    digest = signing.BodyDigest(body, algs)
    return {"Digest": digest.digest, "Content-Digest": digest.content_digest}


def check_digest(field: str, value: str, body: bytes) -> None:
    signing.check_digest(field, value, body)


def load_key(text: str, *, private: bool, fmt: Any, min_rsa_bits: int) -> Given:
    key = signing.load_key(text, private=private, form=fmt, min_rsa_bits=min_rsa_bits)
    return {"type": key.kind, "bits": key.bits, "spki_sha256": key.spki_sha256}


def followers_digest(instance: str, followers: list[str]) -> str:
    return signing.FollowersDigest.of(instance, followers).hex


def collection_sync_make(collection_id: str, url: str, digest: str) -> str:
    return signing.CollectionSync(collection_id, url, digest).header()


def collection_sync_parse(value: str, actor: str | None, followers: str | None) -> list[tuple[str, str]]:
    return signing.CollectionSync.parse(value, actor=actor, followers=followers).params


def proof_sign(doc: Given, private_pem: str, vm: str, created: str) -> Given:
    return signing.sign_document(doc, PrivateKey.from_pem(private_pem), verification_method=vm, created=created)


def proof_verify(doc: Given, keys: Given) -> str:
    def resolve(method: str) -> tuple[PublicKey, str] | None:
        key: Given | None = keys.get(method)
        return None if key is None else (PublicKey.from_multikey(key["multibase"]), key["controller"])

    return signing.verify_document(doc, resolve, now_s=int(time.time()))


def proof_hash(doc: Given) -> str:
    return signing.proof_hash(doc).hex()


def jcs(text: bytes) -> bytes:
    return signing.canonical_json(text)
