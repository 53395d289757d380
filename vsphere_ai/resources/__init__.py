"""The kinds: one module (or folder) per kind of the playbook; nothing else names a kind. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from inspect import getmembers, isabstract, isclass
from pkgutil import iter_modules

from vsphere_ai.model.state import KindName
from vsphere_ai.resources.base import Resource


@cache
def kinds() -> Mapping[KindName, type[Resource]]:
    """Return every kind by its name, which is its key in a play."""
    found: dict[KindName, type[Resource]] = {}
    for module in iter_modules(__path__):
        if module.name.startswith("_"):
            continue  # helpers
        loaded = import_module(f"{__name__}.{module.name}")
        for _, cls in getmembers(loaded, isclass):
            if issubclass(cls, Resource) and not isabstract(cls) and cls.__module__ == loaded.__name__:
                found[cls.kind] = cls
    return dict(sorted(found.items()))
