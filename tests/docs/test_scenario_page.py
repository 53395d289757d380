"""The page of the scenario format lists every field, its type and default, as the lab reads them."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import typing
from pathlib import Path

from vsphere_ai.lab import scenario
from vsphere_ai.lab.scenario_file import CHOICES

PAGE = Path(__file__).parents[2] / "docs" / "scenario.md"
BEGIN, END = "<!-- fields of a scenario -->", "<!-- end of fields -->"
BLOCK = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", dict[str, str]: "mapping of texts"}


def models(model: type) -> list[type]:
    """A model and those it is made of, each once, in the order of their fields."""
    found = [model]
    for hint in typing.get_type_hints(model).values():
        inner = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint
        if dataclasses.is_dataclass(inner):
            found += models(inner)
    return list(dict.fromkeys(found))


def value(hint: type, where: tuple[str, str]) -> str:
    if typing.get_origin(hint) is tuple:
        return f"list of {value(typing.get_args(hint)[0], where)}"
    if where in CHOICES:
        return ", ".join(f"`{choice}`" for choice in CHOICES[where] if choice)
    if dataclasses.is_dataclass(hint):
        short = getattr(hint, "SHORT", "")
        alone = f", or its `{short}` alone" if short else ""
        return f"[{hint.__name__}](#{hint.__name__.lower()}){alone}"
    return WORDS[hint]


def default(field: dataclasses.Field) -> str:
    if field.default is dataclasses.MISSING:
        return "needed" if field.default_factory is dataclasses.MISSING else ""
    if field.default in ("", ()):
        return ""
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


def section(model: type) -> list[str]:
    hints = typing.get_type_hints(model)
    words = inspect.cleandoc(model.__doc__ or "").replace("``", "`")
    rows = [
        f"| `{f.name}` | {value(hints[f.name], (model.__name__, f.name))} | {default(f)} |"
        for f in dataclasses.fields(model)
    ]
    return [f"### {model.__name__}", "", words, "", "| field | value | without it |", "|---|---|---|", *rows, ""]


def test_the_page_lists_every_field():
    lines = [line for model in models(scenario.Scenario) for line in section(model)]
    block = "\n".join([BEGIN, "", *lines, END])
    text = PAGE.read_text("utf-8")
    wanted, count = BLOCK.subn(lambda _: block, text)
    assert count == 1
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(wanted, "utf-8")
    else:
        assert text == wanted, "run: UPDATE_DOCS=1 pytest tests/docs"
