# SPDX-License-Identifier: Apache-2.0
"""`--app module:factory`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from ojak.supervisor.app import AppHooks, load_app
from ojak.supervisor.exits import AppError

SHOP = """
    class Keys:
        async def keys_of(self, sender):
            return sender
    def settled(outcome): ...
    def with_object():
        class App:
            keys = Keys()
            on_settled = staticmethod(settled)
        return App()
    def with_mapping():
        return {"keys": Keys(), "on_settled": settled}
    async def async_mapping():
        return {"keys": Keys()}
    def empty(): return object()
    def typo(): return {"on_setled": settled}
    def bad_callback(): return {"on_settled": 3}
    def work(job): ...
    def with_handlers():
        from ojak import Handler
        return {"keys": Keys(), "handlers": [Handler(kind="archive", call=work)]}
    def bad_handlers(): return {"handlers": [work]}
    def bad_keys(): return {"keys": object()}
    def raising(): raise ValueError("no such\\nshop")
    def leaving():
        import sys
        sys.exit(0)
    class Holder:
        make = staticmethod(with_mapping)
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "shop_app.py").write_text(dedent(SHOP))
    (tmp_path / "broken_app.py").write_text("def (:\n")
    (tmp_path / "importing_app.py").write_text("\nimport not_there_at_all\n")
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in ("shop_app", "broken_app", "importing_app"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("factory", ["with_object", "with_mapping", "Holder.make"])
async def test_an_object_or_mapping_gives_its_hooks(factory: str) -> None:
    hooks = await load_app(f"shop_app:{factory}")
    assert isinstance(hooks, AppHooks)
    assert hooks.keys is not None
    assert callable(hooks.on_settled)
    assert hooks.on_failure is None


async def test_a_factory_may_be_async() -> None:
    assert (await load_app("shop_app:async_mapping")).keys is not None


async def test_an_application_gives_handlers_of_its_own_kinds() -> None:
    (handler,) = (await load_app("shop_app:with_handlers")).handlers
    assert handler.kind == "archive"
    assert (await load_app("shop_app:async_mapping")).handlers == ()


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("shop_app:nothing", r"AttributeError: module 'shop_app' has no attribute 'nothing'"),
        ("not_an_app:make", r"ModuleNotFoundError: No module named 'not_an_app'"),
        ("importing_app:make", r"ModuleNotFoundError: No module named 'not_there_at_all' \(.*importing_app.py:2\)"),
        ("broken_app:make", r"SyntaxError: .* \(.*broken_app.py:1\)"),
        ("shop_app:raising", r"ValueError: no such shop \(.*shop_app.py:\d+\)"),
        ("shop_app:leaving", r"SystemExit: 0 \(.*shop_app.py:\d+\)"),
        ("shop_app:empty", r"gives 'object'; allowed is an object with keys, on_settled"),
        ("shop_app:typo", r"gives 'on_setled'; allowed is keys, on_settled"),
        ("shop_app:bad_callback", r"gives on_settled as 'int'; allowed is a function"),
        ("shop_app:bad_handlers", r"handlers holds a function; allowed is Handler"),
        ("shop_app:bad_keys", r"gives keys without keys_of; allowed is a SenderKeys"),
    ],
)
async def test_what_cannot_be_used_is_one_line_with_where(path: str, match: str) -> None:
    with pytest.raises(AppError, match=match) as raised:
        await load_app(path)
    assert "\n" not in str(raised.value)
    assert path in str(raised.value)
