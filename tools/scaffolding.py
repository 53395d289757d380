"""The frame of the scaffolds ``tools/new_*.py``: files that work at once, and which of their lines are to be filled in.

A line of a template that ends with ``<<<`` and a few words is to be filled in: the words are printed with its number,
and are not written.
"""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
WORDS = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_FILL_IN = re.compile(r"[ ]*<<< (.+)$")


class NotScaffolded(Exception):
    """Nothing can be made of the name; the message says why."""


class Insertion(NamedTuple):
    """Text that is put into a file that is there, before a line."""

    path: str
    before: str
    text: str


class Generator(NamedTuple):
    """A program that regenerates pages; `page` is the one that it prints, "" where it writes files itself."""

    module: str
    arguments: tuple[str, ...] = ()
    page: str = ""


@dataclass(frozen=True)
class Scaffold:
    """What one program makes. `files` are templates: path below the repository -> text, both with ``$name`` and others.

    `then` are the steps that are left to the author. `values` returns further values of the templates for a name, and
    raises `NotScaffolded` where nothing can be made of it.
    """

    program: str
    what: str
    example: str
    files: Mapping[str, str]
    insertions: tuple[Insertion, ...] = ()
    generators: tuple[Generator, ...] = ()
    then: tuple[str, ...] = ()
    values: Callable[[str], Mapping[str, str]] = lambda _name: {}
    name: re.Pattern[str] = field(default=WORDS)

    def made(self, name: str) -> dict[str, str]:
        """Return the new files for a name, with the marks of the lines to fill in: path -> text."""
        values = self._values(name)
        return {
            Template(path).substitute(values): Template(text).substitute(values) for path, text in self.files.items()
        }

    def inserted(self, name: str) -> list[Insertion]:
        """Return the texts that go into files that are there."""
        values = self._values(name)
        return [Insertion(p.path, p.before, Template(p.text).substitute(values)) for p in self.insertions]

    def next_steps(self, name: str) -> list[str]:
        """Return what is left to the author."""
        return [Template(step).substitute(self._values(name)) for step in self.then]

    def _values(self, name: str) -> dict[str, str]:
        if not self.name.fullmatch(name) or keyword.iskeyword(name):
            raise NotScaffolded(f"{name!r} is no name of {self.what}: write it like {self.example}")
        words = name.replace("_", " ")
        values = {
            "name": name,
            "dashed": name.replace("_", "-"),
            "Class": "".join(word.capitalize() for word in name.split("_")),
            "words": words,
            "Words": words.capitalize(),
        }
        return {**values, **self.values(name)}


def plain(text: str) -> str:
    """Return a text without the marks of the lines to fill in."""
    return "".join(f"{_FILL_IN.sub('', line)}\n" for line in text.splitlines())


def to_fill_in(text: str, first: int = 1) -> Iterator[str]:
    """Yield the lines to fill in, as number and words; `first` is the number of the first line."""
    for number, line in enumerate(text.splitlines(), first):
        if mark := _FILL_IN.search(line):
            yield f"  {number}: {mark[1]}"


def run(scaffold: Scaffold, arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the files of something new, bring the generated pages up to date, and return the exit code."""
    if len(arguments) != 1:
        print(f"usage: python -m tools.{scaffold.program} NAME", file=sys.stderr)
        return 64
    try:
        made, inserted = scaffold.made(arguments[0]), scaffold.inserted(arguments[0])
        if there := [path for path in made if (root / path).exists()]:
            raise NotScaffolded(f"{', '.join(there)}: there already, nothing was written")
    except NotScaffolded as error:
        print(error, file=sys.stderr)
        return 64
    for path, text in made.items():
        (root / path).write_text(plain(text), encoding="utf-8")
        _show(path, "written", to_fill_in(text))
    for part in inserted:
        _show(part.path, "a part is new", to_fill_in(part.text, _put(root, part)))
    for generator in scaffold.generators:
        _generate(root, generator)
    print("Then:", *(f"  {step}" for step in scaffold.next_steps(arguments[0])), sep="\n")
    return 0


def _show(path: str, what: str, lines: Iterator[str]) -> None:
    print(f"{path}: {what}")
    for line in lines:
        print(line)


def _put(root: Path, part: Insertion) -> int:
    """Put a part into its file; return the number of its first line."""
    text = (root / part.path).read_text("utf-8")
    above, mark, below = text.partition(f"\n{part.before}\n")
    if not mark:
        raise ValueError(f"{part.path} has no line {part.before!r}")
    (root / part.path).write_text(f"{above}\n{plain(part.text)}{mark[1:]}{below}", encoding="utf-8")
    return above.count("\n") + 2


def _generate(root: Path, generator: Generator) -> None:
    command = [sys.executable, "-m", generator.module, *generator.arguments]
    done = subprocess.run(  # noqa: S603 - our own programs
        command, cwd=root, check=True, stdout=subprocess.PIPE if generator.page else None
    )
    if generator.page:
        (root / generator.page).write_bytes(done.stdout)
    print(f"{generator.page or ', '.join(generator.arguments)}: regenerated")
