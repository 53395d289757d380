"""Name ranges: many names as few terms, in the ranges that patterns of playbooks and of `--limit` are written in.

`train-001` … `train-256` are ``train-[001:256]``. Folding is exact: each term stands for names that were given, and for
no other. A name that a pattern would read as something else is written whole, in quotes, as a JSON string.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from vsphere_ai.model.text import escaped, safe

LEAST = 3
"""Names in a row from which a range is shorter to read than the names."""
MOST = 10_000
"""Names that one term may stand for, as in patterns."""
INDEXES = 6
"""Numbers of a name that may become its range: names with more of them are compared by the first ones."""
_NUMBER = re.compile(r"\[[^\]]*\]|(?<![0-9])[0-9]{1,9}(?![0-9])")
_HOSTILE = re.compile(r"^(?:all$|[/@-])|[\s\[\]:,;!&*?\"'`$\\|<>(){}#…]|^$")


def listed(names: Iterable[str]) -> str:
    """Return names as one text: ranges where they follow each other, separated by commas."""
    return ", ".join(fold(names))


def fold(names: Iterable[str]) -> tuple[str, ...]:
    """Return terms that together stand for exactly these names, in order; each name counts once.

    The time grows with the number of the names, and no term stands for more than `MOST` names.
    """
    plain: list[str] = []
    hostile: list[str] = []
    for name in dict.fromkeys(names):
        (hostile if is_hostile(name) else plain).append(name)
    once = _folded(plain)
    ranges = [term for term in once if "[" in term]
    twice = _folded(ranges) if len(ranges) >= LEAST else once
    terms = [*(t for t in once if "[" not in t), *twice] if twice is not once else once
    return tuple([*sorted(terms, key=lambda term: (_order(term), term)), *(quoted(name) for name in sorted(hostile))])


def is_hostile(name: str) -> bool:
    """Return whether a pattern would read this name as something else, or a terminal would not show it as it is."""
    return bool(_HOSTILE.search(name)) or safe(name) != name


def quoted(name: str) -> str:
    """Return a name whole and unmistakable: as it is, or as a JSON string where that could be misread."""
    return escaped(json.dumps(name, ensure_ascii=False)) if is_hostile(name) else name


def shell_word(name: str) -> str:
    """Return a name as a shell takes it, for the hints that name a command; a control character as an escape."""
    if safe(name) == name:
        return shlex.quote(name)
    inner = "".join(c if safe(c) == c and c not in "\\'" else _ansi(c) for c in name)
    return f"$'{inner}'"


def _ansi(character: str) -> str:
    """Return a character as the quotes ``$'…'`` of bash, zsh and ksh write it: byte by byte."""
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def _order(term: str) -> tuple[str, ...]:
    return tuple(part.zfill(9) if part.isdecimal() else part for part in re.split(r"([0-9]+)", term.replace("[", "")))


def _folded(names: Collection[str]) -> list[str]:
    """Fold on one number per shape of names: on the one that leaves the fewest terms."""
    shapes: dict[str, list[str]] = defaultdict(list)
    for name in names:
        shapes[_NUMBER.sub(lambda found: found[0] if found[0][0] == "[" else "[]", name)].append(name)
    return [term for alike in shapes.values() for term in _best(alike)]


def _best(names: list[str]) -> list[str]:
    if len(names) < LEAST:
        return names
    spans = [f.span() for f in _NUMBER.finditer(names[0]) if f[0][0] != "["]
    tried = (_on_index(names, index) for index in range(min(len(spans), INDEXES)))
    return min([names, *tried], key=len)


def _on_index(names: list[str], index: int) -> list[str]:
    """Fold names of one shape on their number at this index."""
    around: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in names:
        found = [f for f in _NUMBER.finditer(name) if f[0][0] != "["][index]
        around[name[: found.start()], name[found.end() :]].append(found[0])
    terms: list[str] = []
    for (before, after), numbers in around.items():
        most = MOST // _size(before + after)
        for run in _runs(numbers, most):
            if len(run) < LEAST:
                terms += [f"{before}{number}{after}" for number in run]
            else:
                terms.append(f"{before}[{run[0]}:{run[-1]}]{after}")
    return terms


def _runs(numbers: list[str], most: int) -> Iterator[list[str]]:
    """Yield numbers that follow each other and are written alike: ``08 09 10``, not ``8 09``."""
    waiting: dict[str, list[str]] = {}
    runs: list[list[str]] = []
    for number in sorted(numbers, key=lambda text: (int(text), text)):
        run = waiting.pop(number, None)
        if run is None or len(run) >= most:
            run = []
            runs.append(run)
        run.append(number)
        following = str(int(number) + 1)
        padded = run[0][0] == "0" and len(run[0]) > 1
        if not padded:
            waiting.setdefault(following, run)
        elif len(following) <= len(number):
            waiting.setdefault(following.zfill(len(number)), run)
    yield from runs


def _size(text: str) -> int:
    """Return how many names the ranges in a text stand for together."""
    size = 1
    for first, last in re.findall(r"\[([0-9]+):([0-9]+)\]", text):
        size *= int(last) - int(first) + 1
    return size
