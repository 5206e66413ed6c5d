# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: INP001, S603, S607, T201 - a script for people who measure: it runs cargo, and prints
"""What signatures cost, in one run: in Rust, seen from Python, and done with `cryptography` (OpenSSL) in Python.

    .venv/bin/python bench/signatures/run.py [--json]

Needs cargo. The extension is built a second time, with a key that does not sign, to measure what everything else
costs; it stays in target/. Figures are microseconds, the best of many short rounds. Exit code 1 if a goal is missed.
"""

import argparse
import base64
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from functools import partial
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from ojak.signing import BodyDigest, PrivateKey, PublicKey, Scheme, sign, verify

ROOT = Path(__file__).parents[2]
KEY_ID = "https://alice.example/users/alice#main-key"
URL = "https://remote.example/users/bob/inbox"
BODY = b"x" * 2048
NOW_S = 1_760_000_000
GOALS = {
    "rest in Rust, cavage": ("rust", "rest_cavage", 5.0),
    "rest in Rust, RFC 9421": ("rust", "rest_rfc9421", 5.0),
    "rest from Python, cavage": ("python", "rest_cavage", 12.0),
    "rest from Python, RFC 9421": ("python", "rest_rfc9421", 12.0),
    "loading an RSA key": ("python", "load_rsa2048_private", 1000.0),
}


def best_us(turns: int, run: Callable[[], object], rounds: int = 60) -> float:
    """The best time of many short rounds, in microseconds a turn."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(turns):
            run()
        best = min(best, (time.perf_counter() - start) * 1e6 / turns)
    return round(best, 2)


def cargo(*arguments: str) -> None:
    """Run cargo, its output to the side."""
    subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, stdout=sys.stderr)


def stubbed_extension() -> ModuleType:
    """Build and load the extension with a key that does not sign."""
    target = ROOT / "target" / "stub"
    features = "extension-module,stub-key"
    cargo("build", "--release", "--quiet", "-p", "ojak-ext", "--features", features, "--target-dir", str(target))
    loader = ExtensionFileLoader("_ojak", str(target / "release" / "lib_ojak.so"))
    spec = importlib.util.spec_from_loader("_ojak", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def with_cryptography(key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey, digest: str) -> dict[str, str]:
    """The same work in Python: cavage, as a careful program would write it."""
    parts = urlsplit(URL)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    fields = {"Host": parts.netloc, "Date": formatdate(NOW_S, usegmt=True), "Digest": digest}
    base = f"(request-target): post {target}\n" + "\n".join(f"{n.lower()}: {v}" for n, v in fields.items())
    if isinstance(key, rsa.RSAPrivateKey):
        algorithm, raw = "rsa-sha256", key.sign(base.encode(), padding.PKCS1v15(), SHA256())
    else:
        algorithm, raw = "hs2019", key.sign(base.encode())
    fields["Signature"] = (
        f'keyId="{KEY_ID}",algorithm="{algorithm}",headers="(request-target) host date digest",'
        f'signature="{base64.b64encode(raw).decode()}"'
    )
    return fields


def speed_up(key: PrivateKey, digest: BodyDigest) -> float:
    """How much faster two threads sign than one, at the same number of signatures each."""
    turns = 40

    def work() -> None:
        for _ in range(turns):
            sign(key, KEY_ID, "cavage", "POST", URL, digest, NOW_S)

    def wall_s(threads: int) -> float:
        workers = [threading.Thread(target=work) for _ in range(threads)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return time.perf_counter() - start

    one, two = (min(wall_s(threads) for _ in range(150)) for threads in (1, 2))
    return round(2 * one / two, 2)


def python_figures(stub: ModuleType) -> dict[str, float]:
    """What Python sees."""
    digest, stub_digest, stub_key = BodyDigest(BODY), stub.BodyDigest(BODY), stub.PrivateKey.stub("rsa")
    figures: dict[str, float] = {}
    for kind, key, turns in (
        ("rsa2048", PrivateKey.generate_rsa(), 5),
        ("ed25519", PrivateKey.generate_ed25519(), 100),
    ):
        for scheme in Scheme:
            signing = partial(sign, key, KEY_ID, scheme, "POST", URL, digest, NOW_S)
            figures[f"sign_{scheme}_{kind}"] = best_us(turns, signing)
            known = {KEY_ID: PublicKey.from_pem(key.public_pem())}
            verifying = partial(verify, "POST", URL, signing(), BODY, known.get, now_s=NOW_S)
            figures[f"verify_{scheme}_{kind}"] = best_us(100, verifying)
        pem = key.private_pem()
        figures[f"load_{kind}_private"] = best_us(10, partial(PrivateKey.from_pem, pem))
        other = load_pem_private_key(pem.encode(), None)
        if isinstance(other, rsa.RSAPrivateKey):
            figures["bare_rsa2048_openssl"] = best_us(
                turns, partial(other.sign, b"m" * 200, padding.PKCS1v15(), SHA256())
            )
            figures["cryptography_load_rsa2048"] = best_us(
                1, partial(load_pem_private_key, pem.encode(), None), rounds=20
            )
            figures["two_threads_speed_up"] = speed_up(key, digest)
        elif isinstance(other, ed25519.Ed25519PrivateKey):
            figures["bare_ed25519_openssl"] = best_us(turns, partial(other.sign, b"m" * 200))
        else:
            raise TypeError(other)
        figures[f"cryptography_cavage_{kind}"] = best_us(turns, partial(with_cryptography, other, digest.digest))
    for scheme in Scheme:
        stubbed = partial(stub.sign, stub_key, KEY_ID, scheme, "POST", URL, stub_digest, NOW_S)
        figures[f"rest_{scheme}"] = best_us(1000, stubbed)
    figures["digest_2048_bytes"] = best_us(1000, partial(BodyDigest, BODY))
    return figures


def main() -> int:
    """Measure, print, and say whether every goal is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    manifest = Path(__file__).with_name("Cargo.toml")
    target = ["--target-dir", str(ROOT / "target" / "bench-signatures")]
    cargo("build", "--release", "--quiet", "--manifest-path", str(manifest), *target)
    program = ROOT / "target" / "bench-signatures" / "release" / "ojak-bench-signatures"
    rust = json.loads(subprocess.run([program], check=True, capture_output=True).stdout)
    report = {"rust": rust, "python": python_figures(stubbed_extension())}
    missed = [name for name, (side, figure, goal) in GOALS.items() if not report[side][figure] < goal]
    if (os.cpu_count() or 1) > 1 and report["python"]["two_threads_speed_up"] < 1.7:
        missed.append("two threads")
    if options.json:
        print(json.dumps({**report, "missed": missed}))
    else:
        for side, figures in report.items():
            print(f"{side} (µs)")
            for name, value in figures.items():
                print(f"  {name:28} {value:10.2f}")
        for name, (side, figure, goal) in GOALS.items():
            print(f"{'missed' if name in missed else 'met':6} {name}: {report[side][figure]} µs, under {goal:g} wanted")
        ratio = report["python"]["two_threads_speed_up"]
        print(f"{'missed' if 'two threads' in missed else 'met':6} two threads: {ratio} times one, 1.7 wanted")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
