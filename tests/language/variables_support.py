"""Playbooks, files and inventories of the tests of variables: written, read, and their faults."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from vsphere_ai.errors import InputError
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.language.playbooks.variables import Overrides

VCENTERS = "vcenters: {lab: {address: vc.example.com, username: u, password: 'env:VC'}}\n"


class Files:
    """A folder with a playbook, and what else it is read with."""

    def __init__(self, folder: Path, kinds) -> None:
        self.folder, self.kinds = folder, kinds

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def inventory(self, text: str):
        return load_inventory(self.write("inventory.yml", VCENTERS + text))

    def read(self, text, pairs=(), values=None, inventory=None, resolve=None, strict=True):
        """Read a playbook with `--var` pairs, texts of files of values, and the text of an inventory."""
        path = self.write("play.yml", text)
        files = tuple(self.write(f"values-{n}.yml", each) for n, each in enumerate(values or ()))
        found = partial(self.inventory, inventory) if inventory is not None else None
        more = (resolve,) if resolve else ()
        overrides = Overrides(tuple(pairs), files, found, strict)
        return load_playbook(path, self.kinds, *more, overrides=overrides)

    def faults(self, *args, **more):
        """Read what cannot be read; return file:line:column, message and help of each fault."""
        with pytest.raises(InputError) as caught:
            self.read(*args, **more)
        return [
            (f"{Path(d.mark.file).relative_to(self.folder)}:{d.mark.line}:{d.mark.column}", d.message, d.help)
            for d in caught.value.diagnostics
        ]


def stated(playbook, number=0):
    """Return what a play wants, by kind and field."""
    states = [each.state for each in playbook.plays[number].states]
    return {f"{s.kind}.{name}": getattr(s, name) for s in states for name in s.model_fields_set}
