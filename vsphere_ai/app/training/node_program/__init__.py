"""Programs of a run on its nodes: sent as text to Python there, which runs one of their functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from pydantic import JsonValue

MODULES = ("watching", "probing", "processes", "links", "supervisor", "asking")
ARGV = ("python3", "-")
"""What reads a program from its standard input."""
_LOADER = """
import sys, types
for name, text in {modules!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
import json
found = sys.modules[{module!r}].{function}(json.loads({spec!r}))
if found is not None:
    print(json.dumps(found))
"""


@cache
def sources() -> Mapping[str, str]:
    """Return the modules by their full names, in the order in which they need each other."""
    return {f"{__package__}.{name}": files(__package__).joinpath(f"{name}.py").read_text("utf-8") for name in MODULES}


def program(module: str, function: str, spec: Mapping[str, JsonValue]) -> bytes:
    """Return a program that calls a function of a module with values; it prints as JSON what that returns."""
    text = _LOADER.format(
        modules=dict(sources()), module=f"{__package__}.{module}", function=function, spec=json.dumps(spec)
    )
    return text.encode()
