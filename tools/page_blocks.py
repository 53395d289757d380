"""Blocks of a page: what its console blocks run, with which exit code, and the files that other blocks are.

The first line of a block has its language and what is special: ``exit=2`` (of its last command), ``norun: REASON``, or
``name=FILE`` of a block that is a file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Command:
    """A command line, and the lines that the page shows below it."""

    line: str
    expected: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Block:
    """A block of a page; `span` is where its body is in the text."""

    language: str
    info: str
    body: str
    span: tuple[int, int]

    @property
    def commands(self) -> list[Command]:
        """The commands of a console block; `ValueError` where it begins with something else."""
        found: list[Command] = []
        for line in self.body.splitlines():
            if line.startswith("$ "):
                found.append(Command(line[2:]))
            elif found:
                found[-1].expected.append(line)
            else:
                raise ValueError(f"a console block starts with a command: {line}")
        return found

    @property
    def exit_code(self) -> int:
        """The exit code of the last command; the others end with 0."""
        code = re.search(r"exit=(\d+)", self.info)
        return int(code[1]) if code else 0

    @property
    def file_name(self) -> str:
        """The name of the file that the block is; empty for one that is none."""
        name = re.search(r"name=(\S+)", self.info)
        return name[1] if name else ""

    @property
    def runs(self) -> bool:
        """Whether its commands are carried out."""
        return self.language == "console" and not self.info.startswith("norun:")


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page; none where there is no such page."""
    found = FENCE.finditer(page.read_text("utf-8")) if page.is_file() else ()
    return [Block(each[1], each[2], each[3], each.span(3)) for each in found]
