"""YAML files as plain values, every one of which knows its file, line and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Protocol

from vsphere_ai.errors import Diagnostic, InputError, Mark, UsageError, withhold
from vsphere_ai.language.yaml_files.opened_files import keep
from vsphere_ai.language.yaml_files.yaml import MAX_NODES, UnreadableText, YamlFault, YamlNode, read_stream
from vsphere_ai.model.names.secret_keys import is_secret_key
from vsphere_ai.model.names.suggestion import did_you_mean
from vsphere_ai.security.files import Outside, Unfit, below, is_link_out, read_bytes, reading

MAX_BYTES = 4 * 1024 * 1024
MAX_FAULTS = 100
WIDTH = 110
WITHOUT_VALUE = "-"
"""`YamlNode.origin` of a value with a variable or a reference that could not be put in."""

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
# An operator's slip may have put a password into the file; it must not go on from there to a screen or a log. The
# key may be misspelt as well (passwrod, pasword, apssword).
# Behind env: only what cannot be a password is shown: `env:hunter2` is a password in the wrong place. Behind file:,
# cmd: and keyring: may be one as well, after a line break: a reference is shown that ends on its line, without escapes.
_ENV = r"env:(?:[A-Z][A-Z0-9]{0,4}|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"
_ENDED = (
    rf"(?-i:\"(?:{_ENV}|prompt:|(?:file|cmd|keyring):[^\"\\]*[/ ][^\"\\]*)\""
    rf"|'(?:{_ENV}|prompt:|(?:file|cmd|keyring):[^'\\]*[/ ][^'\\]*)'"
    rf"|(?:{_ENV}|prompt:|(?:file|keyring):[^\"'\s\\,]*/[^\"'\s\\,{{}}\[\]]*)\s*[,}}\]])"
)
_OPEN = rf"(?-i:(?:{_ENV}|prompt:|(?:file|keyring):[^\"'\s\\,]*/[^\"'\s\\,]*|cmd:[^\"'\\]*[/ ][^\\]*)\s*(?:\s#.*)?$)"
"""A reference without quotes at the end of its line, so that the next one may go on with it."""
_KEY_OF = r"(?i)(?<!\w)(\w++)[\"']?+\s*+:\s*+"
_NAMED = re.compile(rf"{_KEY_OF}(?!{_ENDED}|{_OPEN})(?=\S)")
_NAMED_ABOVE = re.compile(rf"{_KEY_OF}(?!{_ENDED})(?=\S)")
_ADDRESS = re.compile(r"(?i)\baddress(?:es)?[\"']?+\s*+:\s*+(?=[^\s,}]*@)")
_LONGEST_NAME = 80
# the same where the value is on a line of its own: below its key (as it is, or behind an anchor, a tag, a "|"), or
# behind a ":" below "? key"
_ABOVE = re.compile(r"(\w++)[\"']?+\s*+:(?:\s++[&!|>]\S*+)*+\s*+(?:#.*)?$")
_ASKED = re.compile(r"\?\s++[\"']?+(\w++)[\"']?+\s*+(?:#.*)?$")
_IS_KEY = re.compile(r"(?:-\s++)?[\"']?+\w++[\"']?+\s*+:(?:\s|$)")
_FAR = 1000
"""Lines above a value that are looked through for its key."""
BYTE_ORDER_MARK = "\ufeff"
_BOMS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)

DocumentPath = tuple[str | int, ...]


class FaultCollector:
    """Collects every fault of the files read in one run, so that all are shown at once."""

    def __init__(self) -> None:
        self.found: dict[Diagnostic, None] = {}

    def add(self, mark: Mark, message: str, help: str = "", *, excerpt: str = "") -> None:
        """Note one fault; the same one is noted once, and beyond `MAX_FAULTS` nothing is."""
        if len(self.found) < MAX_FAULTS:
            self.found.setdefault(Diagnostic(mark, printable(message), printable(help), excerpt))

    def include(self, error: InputError) -> None:
        """Note the faults of an error."""
        for diagnostic in error.diagnostics:
            self.found.setdefault(diagnostic)

    def raise_any(self) -> None:
        """Raise `InputError` with everything that was noted."""
        if self.found:
            raise InputError(self.found)


@dataclass(frozen=True)
class Document:
    """A YAML file that was read. `data` holds plain values; a path is a tuple of keys and indices into it."""

    name: str
    text: str
    root: YamlNode
    data: object
    texts: Mapping[str, str] = field(default_factory=dict)
    """Texts of the files that it includes, by their names."""

    def node(self, path: DocumentPath) -> YamlNode:
        """Return the node at a path, or the deepest one on the way that exists."""
        at = self.root
        for step in path:
            below = at.child(step)
            if below is None:
                break
            at = below
        return at

    def mark_of(self, path: DocumentPath = ()) -> Mark:
        """Return where the value at a path starts."""
        return self.mark_at(self.node(path))

    def mark_at(self, node: YamlNode) -> Mark:
        """Return where a node starts."""
        return Mark(node.file or self.name, node.line + 1, node.column + 1)

    def mark_of_key(self, path: DocumentPath) -> Mark:
        """Return where the last key of a path is written; for an item of a list, where the item starts."""
        above = self.node(path[:-1])
        place = above.keys.get(str(path[-1])) if path else None
        return Mark(above.file or self.name, place[0] + 1, place[1] + 1) if place else self.mark_of(path)

    def text_in(self, file: str) -> str:
        """Return the text of the file that a place is in."""
        return self.texts.get(file, self.text)

    def excerpt(self, mark: Mark, width: int = 1) -> str:
        """Return the marked line with its number and a caret (`width` wide) below; passwords are masked."""
        return excerpt(self.text_in(mark.file), mark, width)

    def refuse(self, faults: FaultCollector, path: DocumentPath, message: str, help: str = "") -> None:
        """Note a fault of the value at a path; of one that has none, which was noted, nothing is."""
        node = self.node(path)
        if node.origin == WITHOUT_VALUE:
            return
        mark = self.mark_at(node)
        origin = f" ({node.origin})" if node.origin else ""
        faults.add(mark, f"{message}{origin}", help, excerpt=self.excerpt(mark, node.width))

    def refuse_key(self, faults: FaultCollector, path: DocumentPath, message: str, help: str = "") -> None:
        """Note a fault of the last key of a path."""
        mark = self.mark_of_key(path)
        faults.add(mark, message, help, excerpt=self.excerpt(mark, len(str(path[-1]))))


def require(path: Path, what: str, source: str = "") -> None:
    """`UsageError` when a file that was named on the command line, or by a `source`, is not there."""
    if not path.exists():
        beside = path.parent.iterdir() if path.parent.is_dir() else ()
        near = did_you_mean(path.name, (each.name for each in beside if each.suffix == path.suffix))
        help = near or f"check the name, and the folder: this is {Path.cwd()}"
        named = f", which {source} names" if source else ""
        raise UsageError(f"there is no {what} {path}{named}", help, rule="usage.no-file")


def load(path: Path, faults: FaultCollector | None = None, most: int = MAX_NODES) -> Document:
    """Read a YAML file of at most `most` values; `InputError` when it cannot be read or is not one.

    Faults that leave a readable rest (such as a key given twice) go to `faults` when that is given.
    """
    return parse(text_of(path), str(path), faults, most)


def text_of(path: Path) -> str:
    """Return the text of a file; `InputError` when it cannot be read, or is not UTF-8."""
    name = str(path)
    try:
        with reading(path) as file:
            content = file.read(MAX_BYTES + 1) or b""
    except OSError as fault:
        help = "give the path of a YAML file" if isinstance(fault, Unfit) else f"see: ls -ld {name}"
        raise InputError([Diagnostic(Mark(name), f"the file cannot be read: {fault.strerror}", help)]) from None
    if is_link_out(path):
        withhold(name, str(path.resolve()))
    return keep(path, decode(content, name))


def quotable_text(path: Path) -> str:
    """Return the text of a file that is shown or quoted; `UsageError` where a link leads to it from another folder."""
    if is_link_out(path):
        text = f"{path} is a link to a file in another folder, which is not quoted from"
        raise UsageError(text, f"name the file itself: {path.resolve()}", rule="usage.no-file")
    return text_of(path)


def judged_text(path: Path) -> str:
    """Return the text of a file that is judged as another program reads it: a byte order mark is its first character.

    `UsageError` as for `quotable_text`.
    """
    text = quotable_text(path)
    with reading(path) as file:
        return f"{BYTE_ORDER_MARK}{text}" if (file.read(3) or b"") == BYTE_ORDER_MARK.encode() else text


def content_of(path: Path, what: str, most: int) -> bytes:
    """Return the content of a file that was named on the command line; `UsageError` where it cannot be read."""
    require(path, what)
    try:
        return read_bytes(path, most)
    except OSError as fault:
        reason = f"{path} cannot be read: {fault.strerror}"
        raise UsageError(reason, f"give the path of a {what}", rule="usage.no-file") from None


class Reads(Protocol):
    """Reads a YAML file; faults that leave a readable rest go to `faults`."""

    def __call__(self, path: Path, *, faults: FaultCollector) -> Document: ...  # noqa: D102


def load_beside(
    document: Document, path: DocumentPath, faults: FaultCollector, read: Reads | None = None
) -> Document | None:
    """Read the YAML file that a document names at a path; None, with the fault noted, when it cannot be read.

    `read` reads it, instead of `load`.

    The name is relative to the document's file. What is not below that file's folder, by ``..`` or by a symbolic link,
    is not read.
    """
    node = document.node(path)
    file, name = Path(node.file or document.name), str(node.plain())
    help = "name a file beside the playbook or in a folder below, such as parted.yaml"
    try:
        beside = below(file.parent, name)
    except Outside:
        document.refuse(faults, path, f"{name!r} is not a file below the folder of {file}", help)
        return None
    try:
        return (read or load)(beside, faults=faults)
    except InputError as error:
        for each in error.diagnostics:
            if each.mark.line:
                faults.include(InputError([each]))
            else:
                document.refuse(faults, path, f"{each.mark}: {each.message}", each.help)
        return None


def decode(content: bytes, name: str) -> str:
    """Return the text of a file's bytes: UTF-8, with or without a byte order mark, at most `MAX_BYTES`."""
    if len(content) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES // 1024 // 1024} MiB"
        raise InputError([Diagnostic(Mark(name), message, "split it into several files")])
    for bom, encoding in _BOMS:
        if content.startswith(bom):
            raise InputError([Diagnostic(Mark(name, 1, 1), f"the file is {encoding}", "save it as UTF-8")])
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return content.decode()
    except UnicodeDecodeError as fault:
        before = content[: fault.start].decode()
        message = f"the byte 0x{content[fault.start]:02x} is not UTF-8"
        raise InputError([Diagnostic(_mark_at(before, name), message, "save the file as UTF-8")]) from None


def parse(
    text: str, name: str, faults: FaultCollector | None = None, most: int = MAX_NODES, *, repeated: bool = False
) -> Document:
    """Read YAML from a text; `name` stands for the file in every place. See `load`; `repeated`: see `read_stream`."""
    own = FaultCollector() if faults is None else faults
    roots = _roots(text, name, own, partial(read_stream, most=most, documents=1, repeated=repeated))
    if faults is None:
        own.raise_any()
    root = roots[0] if roots else YamlNode(None, 0, 0)
    return Document(name, text, root, root.plain())


def parse_stream(
    text: str, name: str, faults: FaultCollector, most: int = MAX_NODES, *, repeated: bool = False
) -> list[Document]:
    """Read a text of several documents, each behind ``---``, of at most `most` values in all. See `parse`."""
    roots = _roots(text, name, faults, partial(read_stream, most=most, repeated=repeated))
    return [Document(name, text, root, root.plain()) for root in roots]


def _roots(
    text: str, name: str, faults: FaultCollector, read: Callable[[str, list[YamlFault]], list[YamlNode]]
) -> list[YamlNode]:
    bad = _CONTROL.search(text)
    if bad:
        mark = _mark_at(text[: bad.start()], name)
        message = f"the control character U+{ord(bad[0]):04X} is not allowed"
        raise InputError([Diagnostic(mark, message, "remove it", excerpt(text, mark))])
    found: list[YamlFault] = []
    try:
        roots = read(text, found)
    except UnreadableText as broken:
        raise InputError(_of_fault(fault, text, name) for fault in (*found, broken.fault)) from None
    faults.include(InputError(_of_fault(fault, text, name) for fault in found))
    return roots


def excerpt(text: str, mark: Mark, width: int = 1) -> str:
    """Return the marked line of a text as an editor shows it, with a caret below the column."""
    lines = _lines(text)
    if not 0 < mark.line <= len(lines):
        return ""
    line = lines[mark.line - 1][: mark.column + WIDTH]  # what is behind is not shown
    hidden = _hidden_from(lines, mark.line - 1)
    line = line if hidden is None else f"{line[:hidden]}***"
    column = min(mark.column - 1, len(line))
    start = max(0, column - WIDTH // 2) if len(line) > WIDTH else 0
    shown = printable(line[start : start + WIDTH].replace("\t", " ")).rstrip()
    carets = "^" * max(1, min(width, len(shown) - (column - start)))
    return f"{mark.line:5} | {shown}\n      | {' ' * (column - start)}{carets}"


def _hidden_from(lines: Sequence[str], at: int) -> int | None:
    """Return the column from which a line belongs to a name that sounds like a secret's; None when none does."""
    line = lines[at][: WIDTH * _FAR]
    columns = (_secret_from(lines, at, line), _account_from(line))
    return min((c for c in columns if c is not None), default=None)


def _account_from(line: str) -> int | None:
    """Return the column from which a line holds an account in an address: ``user:password@host``; None without one."""
    end = line.rfind("@")
    for colon in re.finditer(r"(?<![\"']):(?!//)(?=\S)", line[: max(end, 0)]):
        return max(line.rfind(sign, 0, colon.start()) for sign in " \t\"'[{,") + 1
    found = _ADDRESS.search(line)
    return found.end() if found else None


def _secret_from(lines: Sequence[str], at: int, line: str) -> int | None:
    for named in _NAMED.finditer(line):
        if is_secret_key(named[1][-_LONGEST_NAME:]):
            return named.end()
    text = line.lstrip()
    indent = len(line) - len(text)
    if not text or text[0] == "#":
        return None
    nearest = True
    for above in reversed(lines[max(0, at - _FAR) : at]):
        words = above.strip()
        if not words or words[0] == "#":
            continue
        before = len(above) - len(above.lstrip())
        if text[0] == ":" and (asked := _ASKED.match(words[:WIDTH])):
            return indent + 1 if is_secret_key(asked[1][-_LONGEST_NAME:]) else None
        is_key, goes_on = _IS_KEY.match(text), nearest and before < indent  # deeper than a value: it is a part of that
        if goes_on or ((nearest or before < indent) and not is_key):
            keys = (None if is_key else _ABOVE.search(words[-WIDTH:]), *_NAMED_ABOVE.finditer(words[:WIDTH]))
            if any(key is not None and is_secret_key(key[1][-_LONGEST_NAME:]) for key in keys):
                return indent
        if before < indent or not indent:
            return None
        nearest = False
    return None


@lru_cache(maxsize=4)
def _lines(text: str) -> list[str]:
    # A large file with a hundred faults is taken apart once.
    return text.splitlines()


def printable(text: str) -> str:
    """Return a text with everything a terminal would obey instead of show replaced by U+FFFD."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


def describe(value: object, source: str = "") -> str:
    """Say what was given, in the words of a YAML file."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"'{source or str(value).lower()}' (true or false)"
    if isinstance(value, int | float):
        return f"the number {source or value}"
    if isinstance(value, str) and ":" in value.partition("@")[0] and "@" in value:
        return "text with an account in it"  # user:password@host: it is not repeated
    if isinstance(value, str):
        return f"'{value if len(value) <= 60 else value[:57] + '...'}'"
    return "a list" if isinstance(value, list | tuple) else "a mapping"


def _of_fault(fault: YamlFault, text: str, name: str) -> Diagnostic:
    mark = Mark(name, fault.line + 1, fault.column + 1)
    message, lines = fault.message, _lines(text)
    hidden = _hidden_from(lines, fault.line) if fault.line < len(lines) else None
    if hidden is not None and fault.column >= hidden:
        message = fault.unnamed or message
    return Diagnostic(mark, printable(message), printable(fault.help), excerpt(text, mark))


def _mark_at(before: str, name: str) -> Mark:
    lines = (before + "|").splitlines()
    return Mark(name, len(lines), len(lines[-1]))
