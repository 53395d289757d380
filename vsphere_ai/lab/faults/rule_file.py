"""Reads rules from YAML: every fault of the file with its place, all of them in one run."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import yaml
from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vmodl

from vsphere_ai.errors import Diagnostic, InputError, Mark
from vsphere_ai.lab import nodes
from vsphere_ai.lab.faults.rules import NOT_METHODS, ON_GUESTS, ON_TASKS, WORDS, Action, EventKind, Rule, When

FIELDS = ("on", "target", "nth", "every", "probability", "seed", "times", "when", "do")
MAX_TEXT, MAX_DEPTH, MAX_RULES = 256 << 10, 8, 1000
LONGEST = 3600.0
"""Seconds a delay or an outage may last."""

_DURATION = re.compile(r"(\d{1,7}(?:\.\d{1,3})?)(ms|s|m)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}
_PCI = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def load(path: Path) -> tuple[Rule, ...]:
    """Return the rules of a file; raise InputError naming every fault."""
    return parse(nodes.read(path, "faults"), str(path))


def parse(text: str, file: str) -> tuple[Rule, ...]:
    """Return the rules in `text`, a list or a single one; `file` is the name shown in errors."""
    reader = _Reader(file)
    node = reader.compose(text)
    items = node.value if isinstance(node, yaml.SequenceNode) else [node] if isinstance(node, yaml.MappingNode) else []
    if not items and not (isinstance(node, yaml.SequenceNode) or reader.wrong):
        reader.say(node, "expected a list of rules", "for example: - {on: ReconfigVM_Task, nth: 1, do: lost-reply}")
    if len(items) > MAX_RULES:
        reader.say(node, f"more than {MAX_RULES} rules")
    rules = [reader.rule(item) for item in items[:MAX_RULES]]
    if reader.wrong:
        raise InputError(reader.wrong)
    return tuple(cast(Sequence[Rule], rules))


def methods() -> frozenset[str]:
    """Return the WSDL names of the methods the lab carries out."""
    from vsphere_ai.lab import managed

    return frozenset({*managed.methods(), "Fetch"})


class _Reader:
    """Turns nodes into rules; an unusable part is reported and read as something harmless."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.wrong: list[Diagnostic] = []

    def say(self, node: Any, message: str, help_: str = "") -> None:
        mark = Mark(self.file, 1, 1) if node is None else self.mark(node.start_mark)
        self.wrong.append(Diagnostic(mark, message, help_))

    def mark(self, at: Any) -> Mark:
        return Mark(self.file, at.line + 1, at.column + 1)

    def compose(self, text: str) -> Any:
        """Return the root node; the depth is looked at first, for libyaml's composer recurses."""
        if len(text) > MAX_TEXT:
            raise InputError([Diagnostic(Mark(self.file, 1, 1), f"larger than {MAX_TEXT >> 10} KiB")])
        depth = 0
        try:
            for event in yaml.parse(text, Loader=_LOADER):
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if depth > MAX_DEPTH or isinstance(event, yaml.AliasEvent):
                    at = self.mark(event.start_mark)
                    what = "nested too deeply" if depth > MAX_DEPTH else "aliases are not used in fault files"
                    raise InputError([Diagnostic(at, what)])
            return yaml.compose(text, Loader=_LOADER)
        except (yaml.YAMLError, ValueError) as error:
            raise nodes.not_yaml(error, text, self.file) from None

    def rule(self, node: Any) -> Rule | None:
        if not isinstance(node, yaml.MappingNode):
            self.say(node, "a rule is a mapping", "for example: {on: PowerOnVM_Task, do: drop}")
            return None
        nodes: dict[str, Any] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if name not in FIELDS:
                near = difflib.get_close_matches(name, FIELDS, 1)
                help_ = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(FIELDS)}"
                self.say(key, f"unknown field '{name}' of a rule", help_)
            elif name in nodes:
                self.say(key, f"'{name}' is given twice")
            nodes[name] = value
        for name in ("on", "do"):
            if name not in nodes:
                self.say(node, f"a rule needs '{name}'")
        if "on" not in nodes or "do" not in nodes:
            return None
        return self._built(nodes)

    def _built(self, nodes: dict[str, Any]) -> Rule:
        on, action = self.on(nodes["on"]), self.action(nodes["do"])
        known = len(self.wrong)
        numbers = {name: self.number(nodes, name, 1) for name in ("nth", "every", "times")}
        if numbers["nth"] and not numbers["times"]:
            numbers["times"] = 1
        if "nth" in nodes and "every" in nodes:
            self.say(nodes["every"], "'nth' and 'every' exclude each other")
        seed = self.number(nodes, "seed", 0) if "seed" in nodes else None
        chance = self.chance(nodes.get("probability"))
        when = self.when(nodes.get("when"), action)
        target = self.text(nodes["target"], "target") if "target" in nodes else ""
        given = tuple((name, _plain(nodes[name])) for name in FIELDS if name in nodes)
        rule = Rule(on, action, when, target, probability=chance, seed=seed, given=given, **numbers)
        if len(self.wrong) == known and action.word:
            self._fits(nodes, rule)
        return rule

    def _fits(self, nodes: dict[str, Any], rule: Rule) -> None:
        events, word = WORDS[rule.do.word].events, rule.do.word
        kinds = _kinds(rule.on)
        if kinds and not set(kinds) & set(events):
            self.say(nodes["do"], f"'{word}' cannot happen on '{rule.on}'", f"it can on: {', '.join(events)}")
        elif word in ON_TASKS and rule.on not in NOT_METHODS and not rule.on.endswith("_Task"):
            self.say(nodes["on"], f"{rule.on} starts no task", f"'{word}' needs a method that ends in _Task")
        elif word == "guest-stuck" and rule.on not in (*NOT_METHODS, *ON_GUESTS):
            self.say(nodes["on"], f"{rule.on} shuts down no guest", f"'{word}' needs {' or '.join(ON_GUESTS)}")
        elif rule.on in ("connect", "ssh-connect") and rule.when != "before":
            self.say(nodes["when"], f"on '{rule.on}' there is only 'before'")
        elif rule.on in ("connect", "versions") and "target" in nodes:
            self.say(nodes["target"], f"'{rule.on}' is about no object")

    def on(self, node: Any) -> str:
        if isinstance(node, yaml.MappingNode) and len(node.value) == 1 and node.value[0][0].value == "ssh":
            node = node.value[0][1]
            text = f"ssh: {self.text(node, 'ssh')}"
        else:
            text = self.text(node, "on").strip()
        if text.startswith("ssh:"):
            try:
                re.compile(text[4:].strip())
            except re.error as error:
                self.say(node, f"not a regular expression: {error}")
                return "any"
        elif text and text not in NOT_METHODS and text not in methods():
            near = difflib.get_close_matches(text, [*methods(), *NOT_METHODS], 1)
            help_ = f"did you mean '{near[0]}'?" if near else f"or one of: {', '.join(NOT_METHODS)}, 'ssh: COMMAND'"
            self.say(node, f"the lab has no method '{text}'", help_)
            return "any"
        return text

    def action(self, node: Any) -> Action:
        value: Any = None
        key, more = node, {}
        if isinstance(node, yaml.MappingNode) and node.value:
            (key, value), *rest = node.value
            more = {str(k.value): (k, v) for k, v in rest}
        word = self.text(key, "do")
        if word not in WORDS:
            near = difflib.get_close_matches(word, WORDS, 1)
            self.say(key, f"unknown fault '{word}'", f"did you mean '{near[0]}'?" if near else f"{', '.join(WORDS)}")
            return Action("")
        for name, (k, _) in more.items():
            if (word, name) != ("restart", "starting"):
                self.say(k, f"'{word}' has no '{name}'")
        kind = WORDS[word].value
        if value is None and kind in ("", "host"):
            return Action(word)
        if value is None or kind == "":
            self.say(key, f"'{word}' {'needs a value' if kind else 'takes no value'}", _EXAMPLES.get(kind, ""))
            return Action(word)
        starting = self.seconds(more["starting"][1]) if "starting" in more else 0.0
        return self._with_value(word, kind, value, starting)

    def _with_value(self, word: str, kind: str, node: Any, starting: float) -> Action:
        text = self.text(node, word)
        if kind == "seconds":
            return Action(word, seconds=self.seconds(node), starting=starting)
        if kind == "status":
            return Action(word, number=self.whole(node, word, 1, 255))
        if kind == "percent":
            return Action(word, number=-1 if text == "queued" else self.whole(node, word, 0, 99))
        if kind == "fault" and not _is_fault(text):
            self.say(node, f"the API has no fault type '{text}'", _EXAMPLES[kind])
        if kind == "pci" and not _PCI.fullmatch(text):
            self.say(node, f"'{text}' is not a PCI address", _EXAMPLES[kind])
        return Action(word, value=text.lower() if kind == "pci" else text)

    def when(self, node: Any, action: Action) -> When:
        if not action.word:
            return "before"
        allowed = WORDS[action.word].whens
        if node is None:
            return "after" if action.word == "lost-reply" else "before"
        text = self.text(node, "when")
        if text not in allowed:
            known = f"it can be: {', '.join(allowed)}" if allowed else f"'{action.word}' has its own time"
            self.say(node, f"'{action.word}' cannot be '{text}'", known)
            return "before"
        return next(w for w in allowed if w == text)

    def chance(self, node: Any) -> float:
        if node is None:
            return 1.0
        text = self.text(node, "probability")
        if not re.fullmatch(r"0?\.\d{1,9}|[01](\.0*)?", text):
            self.say(node, f"probability must be from 0 to 1, not '{text}'")
            return 0.0
        return float(text)

    def number(self, nodes: dict[str, Any], name: str, least: int) -> int:
        return self.whole(nodes[name], name, least, 10**9) if name in nodes else 0

    def whole(self, node: Any, name: str, least: int, most: int) -> int:
        text = self.text(node, name)
        if not re.fullmatch(r"\d{1,10}", text) or not least <= int(text) <= most:
            self.say(node, f"{name} must be a whole number from {least} to {most}, not '{text}'")
            return least
        return int(text)

    def seconds(self, node: Any) -> float:
        text = self.text(node, "a duration")
        found = _DURATION.fullmatch(text)
        seconds = float(found[1]) * _UNITS[found[2]] if found else -1.0
        if not 0 <= seconds <= LONGEST:
            self.say(node, f"'{text}' is not a duration of at most an hour", "write 500ms, 2s or 1m")
            return 0.0
        return seconds

    def text(self, node: Any, name: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self.say(node, f"{name} must be a single value")
            return ""
        if not node.value:
            self.say(node, f"{name} is empty")
        return str(node.value)


_EXAMPLES = {
    "seconds": "for example {delay: 2s}",
    "fault": "for example {fault: InvalidState}",
    "status": "for example {exit: 19}",
    "percent": "for example {task-stuck: 20}, or {task-stuck: queued}",
    "alarm": "for example {raise-alarm: Host memory usage}",
    "pci": "for example {gpu-missing: '0000:3b:00.0'}",
}


def _kinds(on: str) -> tuple[EventKind, ...]:
    """Return the kinds of event a rule can be met by; none when any call is meant."""
    if on in ("any", "any-mutation"):
        return ("soap", "ssh")
    if on in ("connect", "versions", "ssh-connect"):
        return (cast(EventKind, on),)
    return ("ssh",) if on.startswith("ssh:") else ("soap",)


def _is_fault(name: str) -> bool:
    try:
        return issubclass(Vmomi.GetWsdlType("urn:vim25", name), vmodl.MethodFault)
    except KeyError:
        return False


def _plain(node: Any) -> object:
    if isinstance(node, yaml.MappingNode):
        return tuple((str(k.value), _plain(v)) for k, v in node.value)
    return str(node.value)
