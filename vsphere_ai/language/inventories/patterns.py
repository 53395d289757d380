"""Patterns such as ``gpu_hosts:esx-[01:16]:!esx-09``: what Ansible's users write, taken apart.

A part such as ``tag=Team/ml`` is a condition: of the targets that fulfil it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product

MAX_LENGTH = 4096
MAX_NAMES = 10_000

REF = r"(?:Datacenter|HostSystem|VirtualMachine):[A-Za-z0-9_.-]+"
KEYS = ("tag", "attribute", "pool", "cluster", "datacenter", "folder", "gpu", "power")
"""What a condition may be about."""
EXAMPLES = {
    "tag": "tag=Team/ml",
    "attribute": "attribute=owner=ml",
    "pool": "pool=research",
    "cluster": "cluster=gpu-a",
    "datacenter": "datacenter=DC0",
    "folder": "folder=ai/training",
    "gpu": "gpu=A100",
    "power": "power=on",
}
_CONDITION = re.compile(rf"({'|'.join(KEYS)})=(.*)", re.DOTALL)
# A term ends at a separator that is neither inside of brackets or of the quotes of a condition nor part of a reference.
_TERM = re.compile(
    rf"\s*(?P<sign>[!&]?)\s*(?![!&\s])"
    rf"(?P<name>{REF}(?=\s*(?:[:,]|$))|(?:{'|'.join(KEYS)})=\"[^\"]*\"|(?:\[[^\]]*\]|[^:,\[]|\[)+)"
)
_RANGE = re.compile(r"\[(\d+):(\d+)\]|\[([a-z]):([a-z])\]|\[([A-Z]):([A-Z])\]")
GLOB = re.compile(r"[*?]|\[[^\]:]+\]")


@dataclass(frozen=True)
class Term:
    """One part of a pattern. `sign`: ``!`` without these, ``&`` only these, empty for these too."""

    sign: str
    name: str


class PatternError(ValueError):
    """A pattern says something impossible; `help` is what would work."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message, self.help = message, help


def parse(*patterns: str) -> tuple[Term, ...]:
    """Split patterns at ``:`` and ``,``, as one; `PatternError` when they are none."""
    terms = tuple(term for pattern in patterns for term in split(pattern))
    if not terms:
        raise PatternError("there is no pattern", "write a name, a group, or all")
    if all(term.sign for term in terms):
        whole = ",".join(patterns)
        raise PatternError(f"the pattern '{whole}' only takes away", f"start with what it takes from: all,{whole}")
    return terms


def split(pattern: str) -> Iterator[Term]:
    """Yield the parts of a pattern; `PatternError` when one of them cannot be read."""
    if len(pattern) > MAX_LENGTH:
        raise PatternError(f"the pattern is longer than {MAX_LENGTH} characters", "make a group of it in the inventory")
    at = 0
    while True:
        found = _TERM.match(pattern, at)
        name = found["name"].strip() if found else ""
        if not found or not name:
            raise PatternError(f"the pattern '{pattern}' has an empty part", "write e.g. gpu_hosts:!esx-09")
        if condition_of(name) is None:
            expand(name)
        yield Term(found["sign"], name)
        at = found.end()
        if at >= len(pattern):
            return
        at += 1


def condition_of(name: str) -> tuple[str, str] | None:
    """Return key and value of a condition such as ``tag=Team/ml`` or ``pool="a:b"``; None for a name.

    `PatternError` when it has no value.
    """
    found = _CONDITION.fullmatch(name)
    if found is None:
        return None
    value = found[2].strip()
    value = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    if not value:
        raise PatternError(f"'{name}' has no value", f"write e.g. {EXAMPLES[found[1]]}")
    return found[1], value


def condition(key: str, value: str) -> str:
    """Return a condition as a pattern says it; quoted where its value holds a separator."""
    return f'{key}="{value}"' if re.search(r"[:,\[\]]|^\s|\s$", value) else f"{key}={value}"


def expand(name: str) -> tuple[str, ...]:
    """Return every name a text with ranges stands for: ``esx-[01:03]`` is esx-01, esx-02, esx-03."""
    spans: list[list[str]] = []
    parts: list[str] = []
    at, count = 0, 1
    for found in _RANGE.finditer(name):
        parts.append(name[at : found.start()])
        spans.append(_span(found))
        count *= len(spans[-1])
        if count > MAX_NAMES:
            raise PatternError(f"'{name}' stands for more than {MAX_NAMES} names")
        at = found.end()
    if re.search(r"\[[^\]]*(?::|$)", _RANGE.sub("", name)):
        raise PatternError(f"'{name}' holds a range that cannot be read", "write [01:16] or [a:f]")
    if not spans:
        return (name,)
    parts.append(name[at:])
    return tuple("".join(chain.from_iterable(zip(parts, (*chosen, ""), strict=True))) for chosen in product(*spans))


def _span(found: re.Match[str]) -> list[str]:
    first, last = (group for group in found.groups() if group is not None)
    if first.isdecimal():
        if int(first) > int(last) or (len(first) != len(last) and first.startswith("0") and first != "0"):
            raise PatternError(f"the range {found[0]} cannot be read", "low end first, both ends equally wide: [01:16]")
        if int(last) - int(first) >= MAX_NAMES:
            raise PatternError(f"the range {found[0]} stands for more than {MAX_NAMES} names")
        width = len(first) if first.startswith("0") else 0
        return [str(number).zfill(width) for number in range(int(first), int(last) + 1)]
    if first > last:
        raise PatternError(f"the range {found[0]} cannot be read", f"low end first: [{last}:{first}]")
    return [chr(code) for code in range(ord(first), ord(last) + 1)]


def members(pattern: str) -> dict[int, str]:
    """Return the names of a pattern that makes what it names, by their place in it, counted from 1.

    ``train-[01:04]:!train-02`` keeps the places 1, 3 and 4. `PatternError` for a pattern that only finds what is there.
    """
    terms = parse(pattern)
    wrong = next((t for t in terms if t.sign == "&" or t.name == "all" or _finds(t.name)), None)
    if wrong is not None:
        raise PatternError(f"'{wrong.name}' does not say which VMs to make", "write names, or a range such as [01:04]")
    named = dict.fromkeys(name for t in terms if not t.sign for name in expand(t.name))
    gone = {name for t in terms if t.sign for name in expand(t.name)}
    return {place: name for place, name in enumerate(named, 1) if name not in gone}


def _finds(name: str) -> bool:
    return bool(GLOB.search(name)) or "/" in name or condition_of(name) is not None
