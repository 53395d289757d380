"""XML as NCCL's parser reads it: no XML of the standard, but its own grammar of bytes, with limits and oversights.

Source: NVIDIA/nccl src/graph/xml.cc (xmlGetNode, xmlGetToken, xmlGetValue, xmlSkipComment, xmlLoadSub) and xml.h, as of
June 2026; each rule was tried with the parser itself, compiled. Lengths are bytes of UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from vsphere_ai.model.names.c_number import c_number

MOST_ATTRIBUTES, LONGEST, MOST_COUNTED = 16, 253, 255
"""MAX_ATTR_COUNT; MAX_STR_LEN less the terminator and the character behind; NCCL_TOPO_XML_MAX_NODES is 256, and the
256th element that NCCL knows is refused already."""
BELOW: Mapping[str, frozenset[str]] = {
    "": frozenset({"system"}), "system": frozenset({"cpu"}), "cpu": frozenset({"pci", "nic"}),
    "pci": frozenset({"pci", "gpu", "nic", "pcilink"}), "gpu": frozenset({"nvlink", "c2c"}), "nic": frozenset({"net"}),
}  # fmt: skip
"""Elements that NCCL reads in each element; others it passes over with all that is in them."""
_NAME = re.compile(r"[^= >/\n\r]*")
_GAP = re.compile(r"[ \n\r]*")


class NotRead(Exception):
    """NCCL refuses the file at this line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass
class TopologyElement:
    """An element of a topology file: its name, attributes, children, and line.

    `dropped` are attributes that NCCL does not keep, since each blank takes the place of one; `twice` those that are
    there twice; `parted` those with a blank before ``=``, whose value NCCL keeps without a name; `has_apostrophes`: a
    value stands in apostrophes; `is_read`: NCCL reads this element where it is.
    """

    name: str
    attributes: dict[str, str]
    line: int
    children: list[TopologyElement] = field(default_factory=list)
    dropped: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    parted: tuple[str, ...] = ()
    has_apostrophes: bool = False
    is_read: bool = True


@dataclass
class _Tag:
    """A tag: `open`, `close` or `single`; the blanks before attributes without a name are attributes to NCCL."""

    kind: str
    name: str
    line: int
    attributes: list[tuple[str, str]] = field(default_factory=list)
    has_apostrophes: bool = False

    def element(self, is_read: bool) -> TopologyElement:
        kept, over = self.attributes[:MOST_ATTRIBUTES], self.attributes[MOST_ATTRIBUTES:]
        values: dict[str, str] = {}
        for name, value in kept:
            values.setdefault(_shown(name), _shown(value))  # the first of a name counts
        names = [name for name, _ in kept if name]
        twice = tuple(_shown(name) for number, name in enumerate(names) if name in names[:number])
        values.pop("", None)
        parted = tuple(
            _shown(next((before for before, _ in reversed(kept[:at]) if before), ""))
            for at, (name, value) in enumerate(kept)
            if value and not name
        )
        dropped = tuple(_shown(name) for name, _ in over if name)
        return TopologyElement(
            _shown(self.name), values, self.line,
            dropped=dropped, twice=twice, parted=parted, has_apostrophes=self.has_apostrophes, is_read=is_read,
        )  # fmt: skip


def _shown(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "replace")


class _Scanner:
    """The tags of a text, one after the other; the text is bytes as characters, so that lengths are bytes."""

    def __init__(self, text: str) -> None:
        self.text = text.encode("utf-8", "surrogatepass").decode("latin-1")
        self.at = 0
        self._line, self._counted = 1, 0

    @property
    def line(self) -> int:
        """The line of the place where the scanner is."""
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def tag(self) -> _Tag | None:
        """Return the next tag, None at the end of the text; `NotRead` for what is none."""
        while True:
            self._run(_GAP)
            if self.at == len(self.text):
                return None
            line = self.line
            if self._next() != "<":
                raise NotRead(line, "NCCL's parser expects an element here, and no text, tab or byte order mark")
            name, last = self._name("element", line)
            if not name.startswith("!--"):
                return self._closing(line) if not name and last == "/" else self._opening(name, last, line)
            self._comment(name[3:] + last, line)

    def _run(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        run = match[0] if match else ""
        self.at += len(run)
        return run

    def _next(self) -> str:
        if self.at == len(self.text):
            raise NotRead(self.line, "the file ends within a tag")
        self.at += 1
        return self.text[self.at - 1]

    def _name(self, what: str, line: int) -> tuple[str, str]:
        """Return a name, and the character behind it, which is read too."""
        name = self._run(_NAME)
        last = self._next()
        if len(name) > LONGEST + (last == "="):  # before '=' there is room for one more
            raise NotRead(line, f"the name of an {what} is longer than {LONGEST} characters")
        if last == "=" and what == "element":
            raise NotRead(line, f"'=' is no part of a tag or at the beginning of a comment: {_shown(name[:40])}=")
        return name, last

    def _value(self, name: str, line: int) -> tuple[str, str, str]:
        """Return a value, its quote, and the character behind it."""
        quote = self._next()
        if quote not in "\"'":
            raise NotRead(line, f"the value of {_shown(name)} is not in quotes right behind '='")
        end = self.text.find(quote, self.at)
        value = self.text[self.at : end if end >= 0 else len(self.text)]
        if len(value) > LONGEST:
            raise NotRead(line, f"the value of {_shown(name)} is longer than {LONGEST} characters")
        self.at = min(self.at + len(value) + 1, len(self.text))
        return value, quote, self._next()

    def _comment(self, begun: str, line: int) -> None:
        """Pass over a comment; what was read of it as a name may end it already."""
        if begun.endswith("-->"):
            return
        end = (begun[-2:] + self.text[self.at :]).find("-->")
        if end < 0:
            raise NotRead(line, "the comment is not closed")
        self.at += end + 3 - len(begun[-2:])

    def _closing(self, line: int) -> _Tag:
        name, last = self._name("element", line)
        if last != ">":
            raise NotRead(line, f"</{_shown(name)}> has more in it than a name, which NCCL's parser refuses")
        return _Tag("close", name, line)

    def _opening(self, name: str, last: str, line: int) -> _Tag:
        tag = _Tag("open", name, line)
        while last == " ":
            key, last = self._name("attribute", line)
            value, quote = "", ""
            if last == "=":
                value, quote, last = self._value(key, line)
            tag.attributes.append((key, value))
            tag.has_apostrophes = tag.has_apostrophes or quote == "'"
        if last == "/":
            tag.kind = "single"
            _, last = self._name("element", line)
        if last != ">":
            raise NotRead(line, f"<{_shown(name)}> is not closed by '>', or has no blank between two attributes")
        return tag


def parse(text: str) -> TopologyElement:
    """Return an element without a name that holds those of the file; `NotRead` where NCCL refuses it.

    Below an element that NCCL does not know nothing is kept, and closing tags are only counted there, as NCCL does.
    """
    scanner = _Scanner(text)
    root = TopologyElement("", {}, 0)
    open_, counted = [root], 0
    while True:
        head = open_[-1]
        if counted > MOST_COUNTED:
            raise NotRead(scanner.line, "this is the 256th element: NCCL's XML parser is limited to 256 nodes")
        tag = scanner.tag()
        if tag is None:
            if head is not root:
                raise NotRead(head.line, f"<{head.name}> is not closed")
            return root
        if tag.kind == "close" and head is not root:
            if head.is_read and _shown(tag.name) != head.name:
                raise NotRead(tag.line, f"</{_shown(tag.name)}> closes {head.name}")
            open_.pop()
            continue
        if tag.kind == "close":
            raise NotRead(tag.line, f"</{_shown(tag.name)}> closes nothing")
        made = tag.element(head.is_read and tag.name in BELOW.get(head.name, ()))
        counted += made.is_read
        if made.name == "system" and made.is_read and number(made.attributes.get("version", "")) != 1:
            raise NotRead(tag.line, 'NCCL reads version="1" only')
        if head.is_read:
            head.children.append(made)
        if tag.kind == "open":
            open_.append(made)


def number(text: str) -> int | None:
    """Return the number that NCCL reads from a text; None without digits, which it reads as 0."""
    value = c_number(text)
    return value[0] if value is not None else None
