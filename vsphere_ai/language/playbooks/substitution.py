"""Values in the place of ``${NAME}`` and ``${ref:PLAYBOOK.NAME}``, each text of a playbook read once.

A value that is one of them takes its type; within a text it becomes text. ``$${`` stands for the two signs themselves.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from vsphere_ai.errors import Mark
from vsphere_ai.language.playbooks.reference import PREFIX, Resolve, Unresolved, reference
from vsphere_ai.language.playbooks.variables import KEY, Values
from vsphere_ai.language.yaml_files.document import WITHOUT_VALUE, Document, FaultCollector
from vsphere_ai.language.yaml_files.variable_values import NAME
from vsphere_ai.language.yaml_files.yaml import YamlNode
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.variables import Value, value_text

_TOKEN = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_IN_KEY = re.compile(rf"\$\{{(?:{NAME.pattern}|{PREFIX}[^{{}}]*)\}}")
LITERAL = "'$${' stands for the two signs themselves"


@dataclass
class Substitution:
    """Puts values into the items of a document; what has none is noted.

    `declared` are the names of the variables, `used` those that were met. Without `resolve`, references stay as they
    are: that finds every other fault before a vCenter is asked.
    """

    document: Document
    faults: FaultCollector
    declared: Collection[str]
    used: set[str] = field(default_factory=set)
    resolve: Resolve | None = None
    known: dict[tuple[str, Mark], Value | Unresolved] = field(default_factory=dict)
    wrong: Collection[str] = ()
    """Names of variables whose declarations have mistakes: what names them has no value, and is not refused again."""

    def play(self, node: YamlNode, values: Values, fixed: Values, keys: Collection[str]) -> YamlNode:
        """Return a play with values in it: those under some `keys` are `fixed`, the same for all targets."""
        if not isinstance(node.value, dict):
            return node
        own, one = _Item(self, values), _Item(self, fixed, one_for_all=True)
        for key in node.value:
            own.check_key(key, node)
        inside = {
            key: each if key == KEY else (one if key in keys else own).node(each) for key, each in node.value.items()
        }
        return replace(node, value=inside)

    def outputs(self, node: YamlNode, values: Values) -> YamlNode:
        """Return outputs with values in them; what they say of VMs stays as it is."""
        return _Item(self, values, outputs=True).node(node)


@dataclass
class _Item:
    """One part of a playbook in which each variable has one value."""

    of: Substitution
    values: Values
    one_for_all: bool = False
    outputs: bool = False

    def node(self, node: YamlNode) -> YamlNode:
        """Return a node with values in it."""
        if isinstance(node.value, dict):
            for key in node.value:
                self.check_key(key, node)
            return replace(node, value={key: self.node(each) for key, each in node.value.items()})
        if isinstance(node.value, list):
            return replace(node, value=[self.node(each) for each in node.value])
        if not isinstance(node.value, str) or "${" not in node.value:
            return node
        return self.text(node)

    def check_key(self, key: str, node: YamlNode) -> None:
        """Refuse a key with a variable or a reference in it."""
        if "${" in key and _IN_KEY.search(key):
            line, column = node.keys[key]
            mark = Mark(node.file or self.of.document.name, line + 1, column + 1)
            excerpt = self.of.document.excerpt(mark, len(key))
            self.of.faults.add(
                mark, f"the key '{key}' cannot hold a variable", "variables are for values", excerpt=excerpt
            )

    def text(self, node: YamlNode) -> YamlNode:
        """Return a text with values in it."""
        whole = _TOKEN.fullmatch(node.value)
        origins: dict[str, None] = {}
        try:
            if whole is not None and (named := self.named(whole)):
                value = self.value(named, whole[0], node, origins)
                return self.as_node(node, value, "; ".join(origins))
            made = _TOKEN.sub(lambda token: self.part(token, node, origins), node.value)
        except Unresolved as wrong:
            self.refuse(wrong, node, whole[0] if whole else "")
            return replace(node, origin=WITHOUT_VALUE)
        origin = WITHOUT_VALUE if WITHOUT_VALUE in origins else "; ".join(origins)
        return replace(node, value=made, origin=origin) if made != node.value or origin else node

    def named(self, token: re.Match[str]) -> str:
        """Return what a token names: a variable or a reference; empty where it is no such token."""
        inside = (token[1] or "").strip()
        is_one = inside in self.of.declared if self.outputs else inside
        return inside if is_one or inside.startswith(PREFIX) else ""

    def part(self, token: re.Match[str], node: YamlNode, origins: dict[str, None]) -> str:
        """Return what stands in a longer text in the place of a token."""
        written = token[0]
        if named := self.named(token):
            try:
                value = self.value(named, written, node, origins)
                if isinstance(value, tuple):
                    what = "output" if named.startswith(PREFIX) else "variable"
                    raise Unresolved(f"this {what} is a list, and it stands in a text", "make it a value of its own")
            except Unresolved as wrong:
                self.refuse(wrong, node, written)
                origins[WITHOUT_VALUE] = None
                return written
            return self.escaped(value_text(value))
        if self.outputs or written == "$${":
            return written if self.outputs else "${"
        text = "'${' is not closed" if token[1] is None else f"'{written}' names no variable"
        self.refuse(Unresolved(text, f"write '${{NAME}}'; {LITERAL}"), node, written)
        origins[WITHOUT_VALUE] = None
        return written

    def value(self, named: str, written: str, node: YamlNode, origins: dict[str, None]) -> Value:
        """Return the value of a variable or a reference; `Unresolved` where it has none."""
        if named.startswith(PREFIX):
            return self.referred(written, self.place(written, node))
        given = self.values.get(named)
        if named in self.of.declared:
            self.of.used.add(named)
        if given is not None:
            where = f" at {given.place}" if given.place else ""
            origins[f"the value of '{named}' from {given.level}{where}"] = None
            return given.value
        if named not in self.of.declared:
            raise self.undeclared(named, written)
        help = f"give it one: --var {named}=VALUE, a file of --vars-file, 'vars:' of the inventory, or a default"
        help += (
            "; here it is the same for all hosts, so that none comes from a group or a host" if self.one_for_all else ""
        )
        raise Unresolved(f"the variable '{named}' has no value", help)

    def undeclared(self, named: str, written: str) -> Unresolved:
        """Return what is wrong with a variable that the playbook does not declare."""
        if named in self.of.wrong:
            return Unresolved("")
        help = f"write ${written}"
        if NAME.fullmatch(named):
            help = suggest(named, self.of.declared, "declared") or f"declare it: '- {KEY}: {{{named}: ...}}'"
        return Unresolved(f"there is no variable '{named}'", f"{help}; {LITERAL}")

    def referred(self, written: str, mark: Mark) -> Value:
        """Return the value of a reference, looked up once; without a way to look it up, the reference itself."""
        if self.of.resolve is None:
            return written
        key = (written, mark)
        if key not in self.of.known:
            try:
                self.of.known[key] = self.of.resolve(reference(written, mark))
            except Unresolved as wrong:
                self.of.known[key] = wrong
        found = self.of.known[key]
        if isinstance(found, Unresolved):
            raise found
        return found

    def place(self, written: str, node: YamlNode) -> Mark:
        """Return the place of a token: on the line on which its text begins, or on one of the next of that text."""
        document, file = self.of.document, node.file or self.of.document.name
        lines = document.text_in(file).splitlines()[node.line : node.line + node.value.count("\n") + 2]
        for number, line in enumerate(lines):
            column = line.find(written, 0 if number else node.column)
            if column >= 0:
                return Mark(file, node.line + number + 1, column + 1)
        return Mark(file, node.line + 1, node.column + 1)

    def refuse(self, wrong: Unresolved, node: YamlNode, written: str) -> None:
        """Note a fault at the place of a token, if there is one to note."""
        if not wrong.message:
            return
        mark = self.place(written or node.value, node)
        excerpt = self.of.document.excerpt(mark, len(written) or node.width)
        self.of.faults.add(mark, wrong.message, wrong.help, excerpt=excerpt)

    def as_node(self, node: YamlNode, value: Value, origin: str) -> YamlNode:
        """Return a value as a node in the place of its token."""
        if isinstance(value, tuple):
            items = [self.as_node(node, each, origin) for each in value]
            return replace(node, value=items, source="", origin=origin)
        kept = self.escaped(value) if isinstance(value, str) else value
        return replace(node, value=kept, source=value_text(value), origin=origin)

    def escaped(self, text: str) -> str:
        """Return a text as it is; in outputs, where ``${`` means something, as one that means itself."""
        return text.replace("${", "$${") if self.outputs else text
