"""Playbooks of several files: ``- include: FILE`` stands for the items of that file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from vsphere_ai.errors import InputError, Mark
from vsphere_ai.language.yaml_files.document import MAX_BYTES, Document, DocumentPath, FaultCollector, describe
from vsphere_ai.language.yaml_files.merge_keys import load
from vsphere_ai.language.yaml_files.yaml import MAX_NODES, YamlNode
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.security.files import is_below

KEY = "include"
MOST_FILES, MOST_LEVELS, MOST_BYTES = 64, 8, 4 * MAX_BYTES
HELP = "name a file, relative to this one, in the folder of the playbook or below it: '- include: common/hosts.yml'"


def load_with_includes(path: Path, faults: FaultCollector) -> Document:
    """Read a playbook with the items of the files that it includes in their place; faults of all files are noted."""
    document = load(path, faults)
    if KEY not in document.text or not isinstance(document.root.value, list):
        return document
    files = _Files(faults, path.parent, used=document.root.size, size=len(document.text))
    items = list(files.items(document, ((_resolved(path), document.name),)))
    root = replace(document.root, value=items)
    return replace(document, root=root, data=root.plain(), texts=files.texts)


def _resolved(path: Path) -> Path | None:
    """Return the real path; None for what could not be opened: a circle of links, a NUL."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        return None


Chain = tuple[tuple[Path | None, str], ...]
"""Files that include each other, the playbook first: the real path, and the name."""


@dataclass
class _Files:
    """Reads included files. `used` are the values, `size` the characters, of all files so far."""

    faults: FaultCollector
    folder: Path
    used: int
    size: int
    texts: dict[str, str] = field(default_factory=dict)
    known: dict[Path, Mark] = field(default_factory=dict)

    def items(self, document: Document, chain: Chain) -> Iterator[YamlNode]:
        """Yield the items of a file, with those of the files that it includes."""
        for index, item in enumerate(document.root.value):
            if not isinstance(item.value, dict) or KEY not in item.value:
                yield item
                continue
            for key in item.value:
                if key not in (KEY, "name"):
                    help = "'- include: FILE' is an item of its own"
                    document.refuse_key(self.faults, (index, key), f"'{key}' cannot stand beside 'include'", help)
            given = item.value[KEY].value
            paths = [(index, KEY, n) for n in range(len(given))] if isinstance(given, list) else [(index, KEY)]
            if not paths:
                document.refuse(self.faults, (index, KEY), "this names no file", HELP)
            for path in paths:
                found = self.included(document, path, chain)
                if found is not None:
                    yield from self.items(*found)

    def included(self, document: Document, path: DocumentPath, chain: Chain) -> tuple[Document, Chain] | None:
        """Return the file that is named at a path; None, with the fault noted, where it cannot be taken."""
        node = document.node(path)
        if not isinstance(node.value, str) or not node.value:
            text = f"expected the name of a file, but this is {describe(node.plain(), node.source)}"
            document.refuse(self.faults, path, text, HELP)
            return None
        file = Path(document.name).parent / node.value
        real = _resolved(file)
        wrong = self.wrong(file, real, chain) or self.missing(file, node.value)
        if wrong or real is None:
            document.refuse(self.faults, path, *wrong)
            return None
        self.known[real] = document.mark_of(path)
        read = self.read(document, path, file)
        return (read, (*chain, (real, read.name))) if read else None

    def wrong(self, file: Path, real: Path | None, chain: Chain) -> tuple[str, str] | tuple[()]:
        """Return message and help where a file must not be included."""
        names = [name for _, name in chain]
        if real is None or not is_below(self.folder, file):
            return f"{str(file)!r} is not a file below the folder of {names[0]}", HELP
        inside = [path for path, _ in chain]
        if real in inside:
            circle = " -> ".join([*names[inside.index(real) :], str(file)])
            return f"the files include each other in a circle: {circle}", "take one 'include' out"
        if real in self.known:
            return f"{file} is included twice, first at {self.known[real]}", "keep one of them"
        if len(chain) > MOST_LEVELS:
            return f"files include each other more than {MOST_LEVELS} levels deep", "name the file in the playbook"
        if len(self.known) >= MOST_FILES:
            return f"the playbook includes more than {MOST_FILES} files", "put them together"
        return ()

    def missing(self, file: Path, name: str) -> tuple[str, str] | tuple[()]:
        """Return message and help where there is no such file, with the names that are like it."""
        try:
            if file.exists():
                return ()
            beside = [p.name for p in file.parent.iterdir() if p.suffix in (".yml", ".yaml")]
        except (OSError, ValueError):
            beside = []
        return f"there is no file {file}", suggest(Path(name).name, beside, f"in {file.parent} there is") or HELP

    def read(self, document: Document, path: DocumentPath, file: Path) -> Document | None:
        """Read a file, within what is left of the limits for all files together."""
        try:
            read = load(file, self.faults, max(1, MAX_NODES - self.used), included=True)
        except InputError as error:
            for each in error.diagnostics:
                if each.mark.line:
                    self.faults.include(InputError([each]))
                else:
                    document.refuse(self.faults, path, f"{each.mark}: {each.message}", each.help)
            return None
        self.used, self.size = self.used + read.root.size, self.size + len(read.text)
        self.texts[read.name] = read.text
        if self.size > MOST_BYTES:
            text = f"with {file}, the playbook is larger than {MOST_BYTES // 1024 // 1024} MiB"
            document.refuse(self.faults, path, text, "include less")
            return None
        if isinstance(read.root.value, list):
            return read
        what = describe(read.data, read.root.source)
        mark = read.mark_at(read.root)
        text = f"an included file is a list, as a playbook is, but this is {what}"
        self.faults.add(mark, text, "start each item with '- '", excerpt=read.excerpt(mark))
        return None
