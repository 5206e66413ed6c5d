# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: INP001 - a script beside the fuzz targets, no package
"""Lays the corpus of tests/vectors into corpus/, as what the fuzz targets start from."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
VECTORS = HERE.parents[2] / "tests" / "vectors"


# Which target reads what a field holds.
READERS = {
    "signature": ("cavage", "structured_fields"),
    "signature-input": ("structured_fields",),
    "date": ("fields",),
    "digest": ("fields",),
    "content-digest": ("fields",),
}


def seeds(given: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """The seeds of a case's inputs: the target that each is for, and the bytes."""
    headers = given.get("headers", [])
    for name, value in headers:
        for target in READERS.get(name.lower(), ()):
            yield target, value.encode()
    for name, targets in {
        "value": ("cavage", "structured_fields", "fields"),
        "url": ("target",),
        "text": ("keys",),
    }.items():
        for target in targets if given.get(name) else ():
            yield target, given[name].encode()
    if given.get("method") and headers:
        lines = [given["method"], given["url"], *(f"{name}: {value}" for name, value in headers)]
        yield "verify", "\n".join(lines).encode() + b"\n\n" + base64.b64decode(given.get("body_b64") or "")
    if "json_b64" in given:
        yield "json", base64.b64decode(given["json_b64"])
    if "document" in given:
        yield "json", json.dumps(given["document"]).encode()


def key_seeds(keys: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """The keys of a file, as PEM and as DER."""
    for key in keys.values():
        for pem in filter(None, (key.get("public_pem"), key.get("private_pem"))):
            yield "keys", pem.encode()
            yield "keys", base64.b64decode("".join(line for line in pem.splitlines() if not line.startswith("-----")))


def main() -> None:
    """Write every seed under the hash of its bytes."""
    for path in VECTORS.glob("*.json"):
        file = json.loads(path.read_text())
        found = [*key_seeds(file["keys"]), *(seed for case in file["cases"] for seed in seeds(case["inputs"]))]
        for target, seed in found:
            folder = HERE / "corpus" / target
            folder.mkdir(parents=True, exist_ok=True)
            (folder / hashlib.sha256(seed).hexdigest()).write_bytes(seed)


if __name__ == "__main__":
    main()
