"""Example files that the package carries: playbooks, inventories, and recipes for other tools."""

from __future__ import annotations

import os
import re
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from vsphere_ai.errors import UsageError
from vsphere_ai.model.names.suggestion import did_you_mean
from vsphere_ai.security.files import PRIVATE, SMALL, make_private_folder, read_bytes, read_text, write_private

_PACKAGE = Path(str(resources.files("vsphere_ai")))
_FOLDER = _PACKAGE / "examples"
_SCHEMA = re.compile(r"^# yaml-language-server: \$schema=(?:\.\./)+(docs/schemas/\S+)", re.MULTILINE)


class Example(NamedTuple):
    """An example by its path, and its first sentence."""

    name: str
    about: str


class Copied(NamedTuple):
    """A file that was copied; `unchanged`: it was there already, the same."""

    path: Path
    unchanged: bool


def examples(folder: str = "") -> list[Example]:
    """List the examples, the playbooks first, or those of a folder; none where there is no such folder."""
    order = ("playbooks", "inventories", "integrations")
    names = sorted(_within(folder), key=lambda name: (order.index(name.partition("/")[0]), name))
    return [Example(name, _about(example(name))) for name in names]


def example(name: str) -> str:
    """Return the text of an example by its path, or by its file name where only one has it."""
    return read_text(_FOLDER / _found(name), SMALL)


def copy_examples(name: str, folder: Path) -> list[Copied]:
    """Copy an example, those of a folder, or all for "", below `folder`, with the schemas that their first lines name.

    A file that is there with another content is not overwritten: `UsageError` before anything is written.
    """
    sources = {each: _FOLDER / each for each in (_within(name) or [_found(name)])}
    for path in list(sources.values()):
        for schema in _SCHEMA.findall(read_text(path, SMALL)):
            sources[schema] = _PACKAGE / schema
    wanted = {folder / name: source for name, source in sorted(sources.items())}
    try:
        return _copied(wanted)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        raise UsageError(f"the examples cannot be written: {why}", "choose another folder") from error


def _copied(wanted: dict[Path, Path]) -> list[Copied]:
    there = {path: read_bytes(path, SMALL) for path in wanted if os.path.lexists(path)}
    for path, present in there.items():
        if present != read_bytes(wanted[path], SMALL):
            text = f"{path} is there, with another content"
            raise UsageError(text, "choose another folder, or remove the file", rule="usage.not-overwritten")
    for path, source in wanted.items():
        if path not in there:
            make_private_folder(path.parent)
            write_private(path, read_bytes(source, SMALL), PRIVATE | (source.stat().st_mode & 0o100))
    return [Copied(path, path in there) for path in wanted]


def _names() -> list[str]:
    found = (path for part in sorted(_FOLDER.iterdir()) for path in part.rglob("*"))
    return [str(p.relative_to(_FOLDER)) for p in found if p.is_file() and p.suffix != ".pyc"]


def _within(folder: str) -> list[str]:
    inside = f"{folder.rstrip('/')}/" if folder else ""
    return [name for name in _names() if name.startswith(inside)]


def _found(name: str) -> str:
    names = _names()
    if name in names:
        return name
    same = [each for each in names if name in (Path(each).name, Path(each).stem)]
    if len(same) == 1:
        return same[0]
    if same:
        raise UsageError(f"there are {len(same)} examples called '{name}'", f"name one of: {', '.join(same)}")
    near = did_you_mean(name, (Path(each).stem for each in names)) or "vsphere-ai examples lists them"
    raise UsageError(f"there is no example '{name}'", near, rule="usage.example")


def _about(text: str) -> str:
    """Return the first sentence of the comment, docstring or text that a file begins with."""
    lines = (line.strip("# \"'").strip() for line in text.splitlines())
    plain = (line for line in lines if line and not line.startswith(("yaml-language-server", "!/", "---")))
    paragraph = " ".join(line for line, _ in zip(plain, range(3), strict=False))
    return re.split(r"(?<=[.:!?]) ", paragraph)[0].rstrip(".:")
