"""Growth of the product: ``python -m tools.measures [REVISION]`` prints lines, modules and functions of each door.

A door is a folder of `vsphere_ai/`. They are compared with a revision of git: the last tag, or 50 commits before where
there is none. Growth is shown, never refused.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = "vsphere_ai"
AT_THE_ROOT = "(root)"
COMMITS_BEFORE = 50


class Size(NamedTuple):
    """Lines, modules and functions, methods among them."""

    lines: int = 0
    modules: int = 0
    functions: int = 0

    def plus(self, other: Size) -> Size:
        """Return both together."""
        return Size(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: Size) -> Size:
        """Return what this one has more."""
        return Size(*(a - b for a, b in zip(self, other, strict=True)))


def size_of(text: str) -> Size:
    """Return the size of one module."""
    functions = sum(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in ast.walk(ast.parse(text)))
    return Size(len(text.splitlines()), 1, functions)


def sizes(modules: Iterable[tuple[str, str]]) -> dict[str, Size]:
    """Return the size of each door; `modules` are paths below the package, and texts."""
    found: defaultdict[str, Size] = defaultdict(Size)
    for path, text in modules:
        door, below, _ = path.partition("/")
        key = door if below else AT_THE_ROOT
        found[key] = found[key].plus(size_of(text))
    return dict(found)


def here(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the modules as they are; links lead to examples and pages, which are no part of the product."""
    package = root / PACKAGE
    for path in sorted(package.rglob("*.py")):
        if not any(p.is_symlink() for p in (path, *path.parents)):
            yield path.relative_to(package).as_posix(), path.read_text("utf-8")


def at_revision(root: Path, revision: str) -> Iterator[tuple[str, str]]:
    """Yield the modules of a revision."""
    archive = _git(root, "archive", "--format=tar", revision, PACKAGE)
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            content = members.extractfile(member) if member.isfile() and member.name.endswith(".py") else None
            if content is not None:
                yield member.name.removeprefix(f"{PACKAGE}/"), content.read().decode()


def last_release(root: Path) -> str:
    """Return the last tag, or where there is none the commit `COMMITS_BEFORE` before, the first of fewer."""
    try:
        return _git(root, "describe", "--tags", "--abbrev=0").decode().strip()
    except subprocess.CalledProcessError:
        before = _git(
            root, "rev-list", f"--max-count={COMMITS_BEFORE + 1}", "--first-parent", "--abbrev-commit", "HEAD"
        )
        return before.decode().split()[-1]


def _git(root: Path, *words: str) -> bytes:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, check=True, capture_output=True).stdout  # noqa: S603 - fixed words


def table(now: dict[str, Size], then: dict[str, Size]) -> str:
    """Return the sizes as text, a line for each door, the sum last."""
    rows = [(door, now.get(door, Size()), then.get(door, Size())) for door in sorted({*now, *then})]
    rows.append(("together", _sum(now.values()), _sum(then.values())))
    lines = [f"{'door':<14}{'lines':>16}{'modules':>16}{'functions':>16}"]
    for door, new, old in rows:
        cells = (f"{value:>9,}{change:>+7,}" for value, change in zip(new, new.minus(old), strict=True))
        lines.append(f"{door:<14}{''.join(cells)}")
    return "\n".join(lines)


def _sum(every: Iterable[Size]) -> Size:
    found = Size()
    for size in every:
        found = found.plus(size)
    return found


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Print the table; return the exit code, 64 where there is no such revision."""
    if len(arguments) > 1:
        print("usage: python -m tools.measures [REVISION]", file=sys.stderr)
        return 64
    try:
        revision = arguments[0] if arguments else last_release(root)
        then = sizes(at_revision(root, revision))
    except subprocess.CalledProcessError as error:
        print(f"git: {error.stderr.decode().strip()}", file=sys.stderr)
        return 64
    print(f"{PACKAGE}: now, and how much more than {revision}\n")
    print(table(sizes(here(root)), then))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
