# SPDX-License-Identifier: Apache-2.0
import re
from dataclasses import fields
from pathlib import Path

import orjson

from ojak.farm import Arrival, HostPlan, parse_plan
from ojak.farm.preset import PRESETS

PAGE = (Path(__file__).parents[3] / "docs" / "farm.md").read_text()


def test_the_plan_in_the_docs_is_one() -> None:
    (plan,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert len(parse_plan(orjson.loads(plan)).hosts) == 161


def test_the_docs_name_every_word_and_field() -> None:
    wanted = [f"`{word}" for word in PRESETS]
    wanted += [f"`{field.name}`" for field in fields(HostPlan)]
    wanted += [f"`{field.name}`" for field in fields(Arrival)]
    assert [word for word in wanted if word not in PAGE] == []
