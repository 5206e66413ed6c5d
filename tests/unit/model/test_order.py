# SPDX-License-Identifier: Apache-2.0
import pytest

from ojak.model.order import implicit_key, order_of

POST, LIKE = "https://a.test/post", "https://a.test/like"


@pytest.mark.parametrize(
    ("activity", "key"),
    [
        ({"type": "Create", "id": "https://a.test/c", "object": {"id": POST}}, POST),
        ({"type": "Update", "id": "https://a.test/u", "object": POST}, POST),
        ({"type": ["Delete", "Other"], "id": "https://a.test/d", "object": {"id": POST, "type": "Tombstone"}}, POST),
        ({"type": "Create", "id": "https://a.test/c", "object": {"type": "Note"}}, None),
        ({"type": "Create", "id": "https://a.test/c"}, None),
        ({"type": "Create", "object": [POST]}, None),
        ({"type": "Like", "id": LIKE, "object": POST}, LIKE),
        ({"type": "Move", "id": LIKE}, LIKE),
        ({"id": LIKE}, LIKE),
        ({"type": "Like", "object": POST}, None),
        ({"type": "Undo", "id": "https://a.test/u", "object": {"type": "Like", "id": LIKE, "object": POST}}, LIKE),
        ({"type": "Undo", "id": "https://a.test/u", "object": LIKE}, LIKE),
        ({"type": "Undo", "object": {"type": "Create", "id": "https://a.test/c", "object": {"id": POST}}}, POST),
        ({"type": "Undo", "object": {"type": "Undo", "object": {"type": "Like", "id": LIKE}}}, LIKE),
        ({"type": "Undo", "object": {"type": "Like"}}, None),
        ({"type": "Undo"}, None),
        ({"type": "Like", "id": "x" * 2049}, None),
        ({"type": "Create", "object": "\ud800"}, "\ud800"),
        ({"type": 7, "id": LIKE}, LIKE),
        ({}, None),
    ],
)
def test_what_an_activity_is_about(activity, key):
    assert implicit_key(activity) == key


def test_undos_of_undos_have_an_end():
    nested: dict[str, object] = {"type": "Like", "id": LIKE}
    for _ in range(100):
        nested = {"type": "Undo", "object": nested}
    assert implicit_key(nested) is None


def test_an_order_is_of_a_key_and_an_inbox():
    orders = {order_of(key, inbox) for key in ("a", "ab") for inbox in ("https://h.test/b", "https://h.test/bc")}
    assert len(orders) == 4
    assert {len(order) for order in orders} == {16}
