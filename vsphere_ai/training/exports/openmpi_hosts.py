"""Host files as Open MPI reads them: tokens of a lexer, the longest match first, and one grammar for each line.

Sources: open-mpi/ompi orte/util/hostfile/hostfile_lex.l (Open MPI 4), openpmix/prrte src/util/hostfile (hostfile_lex.l
and hostfile.c; Open MPI 5); each form was tried with mpirun of 4.1.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from vsphere_ai.training.exports.finding import LineFinding, at_line

_SLOTS = ("slots", "count", "cpu")
_MOST = tuple(
    f"{one}{sign}{other}" for name in _SLOTS for one, other in ((name, "max"), ("max", name)) for sign in "-_"
)
_USER = ("username", "user-name", "user_name")
_REFUSED = (
    "boards", "sockets", "sockets_per_board", "sockets-per-board", "cores", "cores_per_socket", "cores-per-socket",
    "cpu_set", "cpu-set", "slot",
)  # fmt: skip
"""Words of the lexer that the grammar of a line does not have."""
_WORDS = {
    **dict.fromkeys(_SLOTS, "slots"), **dict.fromkeys(_MOST, "most"), **dict.fromkeys(_USER, "user"),
    **dict.fromkeys(_REFUSED, "refused"), "rank": "rank", "port": "port",
}  # fmt: skip
_USER_AT = r"([A-Za-z0-9][A-Za-z0-9_-]*@)?"
_TOKENS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("newline", r"[\f\t\v ]*\n|(#|//)[^\n]*\n"),
        ("newline", r"/\*(?s:.)*?\*/"),
        ("quoted", r'"[^"]*"'),
        ("blank", r"[\f\t\v ]+"),
        ("=", "="),
        ("relative", r"\+n[0-9]+|\+[eE](:[0-9]+)?"),
        ("number", r"[0-9]+"),
        ("text", r"[A-Za-z0-9_,:*@-]+"),
        ("host", _USER_AT + r"([0-9]{1,3}\.){3}[0-9]{1,3}"),
        ("host", _USER_AT + r"([A-Fa-f0-9]{0,4}:)+:*([A-Fa-f0-9]{0,4}:)+[A-Fa-f0-9]{1,4}"),
        ("host", r"(\^?[A-Za-z0-9][A-Za-z0-9_-]*@)?[A-Za-z0-9][A-Za-z0-9_.-]*"),
    )
)
KEYS = "slots=N, max_slots=N, username=NAME"


class _Token(NamedTuple):
    line: int
    kind: str
    text: str


@dataclass
class Host:
    """A host of the file: its line, name and slots; None where the file gives none."""

    line: int
    name: str
    slots: int | None = None


@dataclass
class HostFile:
    """Hosts of a file, and the lines that have none to start on: those of rank files, and of excluded hosts."""

    hosts: list[Host] = field(default_factory=list)
    others: list[int] = field(default_factory=list)

    def read(self, text: str) -> Iterator[LineFinding]:
        """Yield what the reader refuses, or passes over; the hosts are known afterwards."""
        tokens = _tokens(text if text.endswith("\n") else f"{text}\n")
        for token in tokens:
            if token.kind == "newline":
                continue
            yield from self._line([token, *takewhile(lambda each: each.kind != "newline", tokens)])

    def _line(self, line: list[_Token]) -> Iterator[LineFinding]:
        first, number = line[0], line[0].line
        if first.kind == "rank":
            self.others.append(number)
            yield at_line(number, "a line of a rank file: not looked at", "info")
        elif first.kind == "relative":
            message = f"'{first.text}' is relative to an allocation, and refused in a plain host file"
            yield at_line(number, message)
        elif first.text == "^":  # a class of characters of some releases of Open MPI 4 has it by mistake
            yield at_line(number, "'^' excludes a host in some releases of Open MPI 4; 4.1.4 and 5 refuse it", "warn")
            self.others.append(number)
        elif first.kind not in ("text", "number", "host") or first.text.count("@") > 1 or not first.text.strip("@"):
            hint = ": lines end with LF alone" if first.text == "\r" else ""
            yield at_line(number, f"{first.text!r} is no host{hint}")
        else:
            name = first.text.rpartition("@")[2]
            host = Host(number, name)
            yield from _options(line[1:], host, next((each for each in self.hosts if each.name == name), None))
            self.hosts.append(host)


def _options(tokens: list[_Token], host: Host, before: Host | None) -> Iterator[LineFinding]:
    is_given = before is not None
    at, most = 0, 0
    while at < len(tokens):
        token, value = tokens[at], tokens[at + 2 : at + 3]
        has_value = [each.kind for each in tokens[at + 1 : at + 2]] == ["="] and bool(value)
        is_number = has_value and value[0].kind == "number"
        at += 3 if has_value and token.kind in ("slots", "most", "port", "user") else 1
        if token.kind in ("text", "number", "refused", "rank") and [each.kind for each in tokens[at : at + 1]] == ["="]:
            yield at_line(token.line, f"'{token.text}=' is none of {KEYS}: Open MPI refuses the file")
            return
        if token.kind in ("text", "number"):
            yield at_line(token.line, f"'{token.text}' is passed over: a line has one host, and {KEYS}")
        elif token.kind not in ("slots", "most", "port", "user"):
            hint = ": lines end with LF alone" if token.text == "\r" else f": it has {KEYS}"
            yield at_line(token.line, f"Open MPI refuses {token.text!r} in a line{hint}")
            return
        elif token.kind == "user" and not has_value:
            yield at_line(token.line, f"{token.text} has no name behind it")
        elif token.kind == "port":
            yield at_line(token.line, "only Open MPI 5 has port=, other versions pass over it or refuse it", "warn")
        elif token.kind != "user" and not is_number:
            shown = value[0].text if has_value else ""
            yield at_line(token.line, f"'{shown}' of {token.text} is no number")
            return
        elif token.kind == "slots":
            if is_given:
                where = f" (line {before.line})" if before is not None else ""
                yield at_line(token.line, f"the slots of {host.name} are given twice{where}: Open MPI refuses the file")
            host.slots, is_given, most = int(value[0].text), True, max(most, int(value[0].text)) if most else 0
        elif token.kind == "most":
            most = int(value[0].text)
            if most < (1 if host.slots is None else host.slots):
                yield at_line(token.line, f"{token.text}={most} is less than slots")


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens of a text: the longest match counts, among equal ones the first."""
    at, line = 0, 1
    while at < len(text):
        tokens = [(kind, match[0]) for kind, pattern in _TOKENS if (match := pattern.match(text, at))]
        kind, matched = max(tokens, key=lambda each: len(each[1]), default=("other", text[at]))
        if kind == "other" and text.startswith("/*", at):
            matched = text[at:]  # a comment that is not closed has the rest of the file
        if kind != "blank":
            yield _Token(line, _WORDS.get(matched, kind) if kind == "text" else kind, matched)
        line += matched.count("\n")
        at += len(matched)
