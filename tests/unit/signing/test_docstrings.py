# SPDX-License-Identifier: Apache-2.0
"""What `help()` says of the extension is what its stub says."""

import ast
from pathlib import Path
from typing import Any

from ojak import _ojak


def stubbed(body: list[ast.stmt], of: Any) -> dict[str, tuple[str, str]]:
    """The docstrings of a stub beside those of what it stands for, by name."""
    found: dict[str, tuple[str, str]] = {}
    for item in body:
        if not isinstance(item, ast.FunctionDef | ast.ClassDef) or item.name.startswith("__"):
            continue
        real = getattr(of, item.name)
        if said := ast.get_docstring(item):
            found[item.name] = (said, (real.__doc__ or "").strip())
        if isinstance(item, ast.ClassDef):
            found |= {f"{item.name}.{name}": both for name, both in stubbed(item.body, real).items()}
    return found


def test_each_name_of_the_extension_says_at_run_time_what_its_stub_says():
    stub = Path(_ojak.__file__).with_name("_ojak.pyi")
    both = stubbed(ast.parse(stub.read_text("utf-8")).body, _ojak)
    assert len(both) > 60
    assert {name: real for name, (said, real) in both.items() if not real.startswith(said)} == {}
