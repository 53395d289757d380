"""Fault files: rules in YAML, every fault of the file with its place, all of them in one run."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import cast

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vmodl

from vsphere_ai.lab.faults.rules import (
    CHECKS,
    NOT_METHODS,
    ON_CHECKS,
    ON_CLONES,
    ON_GUESTS,
    ON_TASKS,
    WORDS,
    Action,
    EventKind,
    FaultRule,
    When,
)
from vsphere_ai.lab.hardware.pci_names import slot_of
from vsphere_ai.lab.input_file import InputFile, is_scalar, written
from vsphere_ai.language.yaml_files.yaml import YamlNode

FIELDS = ("on", "target", "nth", "every", "probability", "seed", "times", "when", "do")
MAX_RULES = 1000
LONGEST = 3600.0
"""Seconds a delay or an outage may last."""

_DURATION = re.compile(r"(\d{1,7}(?:\.\d{1,3})?)(ms|s|m)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}


def load(path: Path) -> tuple[FaultRule, ...]:
    """Return the rules of a file; raise InputError naming every fault."""
    return _rules(InputFile.of(path))


def parse(text: str, file: str) -> tuple[FaultRule, ...]:
    """Return the rules in `text`, a list or a single one; `file` is the name shown in errors."""
    return _rules(InputFile.of(text, file))


def _rules(file: InputFile) -> tuple[FaultRule, ...]:
    reader, root = _Reader(file), file.root
    items = root.value if isinstance(root.value, list) else [root] if isinstance(root.value, dict) else None
    if items is None:
        file.fault(root, "expected a list of rules", "for example: - {on: ReconfigVM_Task, nth: 1, do: lost-reply}")
    elif len(items) > MAX_RULES:
        file.fault(root, f"more than {MAX_RULES} rules")
    rules = [reader.rule(item) for item in (items or ())[:MAX_RULES]]
    file.faults.raise_any()
    return tuple(cast(Sequence[FaultRule], rules))


def methods() -> frozenset[str]:
    """Return the WSDL names of the methods the lab carries out."""
    from vsphere_ai.lab import managed

    return frozenset({*managed.methods(), "Fetch"})


class _Reader:
    """Turns nodes into rules; an unusable part is reported and read as something harmless."""

    def __init__(self, file: InputFile) -> None:
        self.file, self.say = file, file.fault

    def rule(self, node: YamlNode) -> FaultRule | None:
        if not isinstance(node.value, dict):
            self.say(node, "a rule is a mapping", "for example: {on: PowerOnVM_Task, do: drop}")
            return None
        nodes = node.value
        for name in nodes:
            if name not in FIELDS:
                self.file.unknown(node, name, FIELDS, "rule")
        for name in ("on", "do"):
            if name not in nodes:
                self.say(node, f"a rule needs '{name}'")
        if "on" not in nodes or "do" not in nodes:
            return None
        return self._built(nodes)

    def _built(self, nodes: dict[str, YamlNode]) -> FaultRule:
        on, action = self.on(nodes["on"]), self.action(nodes["do"])
        known = len(self.file.faults.found)
        numbers = {name: self.number(nodes, name, 1) for name in ("nth", "every", "times")}
        if numbers["nth"] and not numbers["times"]:
            numbers["times"] = 1
        if "nth" in nodes and "every" in nodes:
            self.say(nodes["every"], "'nth' and 'every' exclude each other")
        seed = self.number(nodes, "seed", 0) if "seed" in nodes else None
        chance = self.chance(nodes.get("probability"))
        when = self.when(nodes.get("when"), action)
        target = self.text(nodes["target"], "target") if "target" in nodes else ""
        given = tuple((name, written(nodes[name])) for name in FIELDS if name in nodes)
        rule = FaultRule(on, action, when, target, probability=chance, seed=seed, given=given, **numbers)
        if len(self.file.faults.found) == known and action.word:
            self._fits(nodes, rule)
        return rule

    def _fits(self, nodes: dict[str, YamlNode], rule: FaultRule) -> None:
        events, word = WORDS[rule.do.word].events, rule.do.word
        kinds = _kinds(rule.on)
        if kinds and not set(kinds) & set(events):
            self.say(nodes["do"], f"'{word}' cannot happen on '{rule.on}'", f"it can on: {', '.join(events)}")
        elif word in ON_TASKS and rule.on not in NOT_METHODS and not rule.on.endswith("_Task"):
            self.say(nodes["on"], f"{rule.on} starts no task", f"'{word}' needs a method that ends in _Task")
        elif word in ON_CLONES and rule.on not in (*NOT_METHODS, *ON_CLONES[word]):
            self.say(nodes["on"], f"{rule.on} clones nothing", f"'{word}' needs {' or '.join(ON_CLONES[word])}")
        elif word in ON_CHECKS and rule.on not in NOT_METHODS and not CHECKS.fullmatch(rule.on):
            self.say(nodes["on"], f"{rule.on} checks nothing", f"'{word}' needs one of vCenter's checks")
        elif word in ON_GUESTS and rule.on not in (*NOT_METHODS, *ON_GUESTS[word]):
            what = "shuts down" if word == "guest-stuck" else "starts"
            self.say(nodes["on"], f"{rule.on} {what} no guest", f"'{word}' needs {' or '.join(ON_GUESTS[word])}")
        elif rule.on in ("connect", "ssh-connect") and rule.when != "before":
            self.say(nodes["when"], f"on '{rule.on}' there is only 'before'")
        elif rule.on in ("connect", "versions", "rest") and "target" in nodes:
            self.say(nodes["target"], f"'{rule.on}' is about no object")

    def on(self, node: YamlNode) -> str:
        if isinstance(node.value, dict) and [*node.value] == ["ssh"]:
            node = node.value["ssh"]
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

    def action(self, node: YamlNode) -> Action:
        more: dict[str, YamlNode] = node.value if isinstance(node.value, dict) else {}
        word = next(iter(more), "") or self.text(node, "do")
        value, at = more.get(word), self.file.key(node, word) if more else node
        if word not in WORDS:
            near = difflib.get_close_matches(word, WORDS, 1)
            self.say(at, f"unknown fault '{word}'", f"did you mean '{near[0]}'?" if near else f"{', '.join(WORDS)}")
            return Action("")
        for name in [*more][1:]:
            if (word, name) != ("restart", "starting"):
                self.say(self.file.key(node, name), f"'{word}' has no '{name}'")
        kind = WORDS[word].value
        if value is None and kind in ("", "host"):
            return Action(word)
        if value is None or kind == "":
            self.say(at, f"'{word}' {'needs a value' if kind else 'takes no value'}", _EXAMPLES.get(kind, ""))
            return Action(word)
        starting = self.seconds(more["starting"]) if "starting" in more else 0.0
        return self._with_value(word, kind, value, starting)

    def _with_value(self, word: str, kind: str, node: YamlNode, starting: float) -> Action:
        text = self.text(node, word)
        if kind == "seconds":
            return Action(word, seconds=self.seconds(node), starting=starting)
        if kind == "status":
            return Action(word, number=self.whole(node, word, 1, 255))
        if kind == "percent":
            return Action(word, number=-1 if text == "queued" else self.whole(node, word, 0, 99))
        if kind == "count":
            return Action(word, number=self.whole(node, word, 1, 9999))
        if kind == "fault" and not _is_fault(text):
            self.say(node, f"the API has no fault type '{text}'", _EXAMPLES[kind])
        if kind == "pci" and not slot_of(text):
            self.say(node, f"'{text}' is not a PCI address", _EXAMPLES[kind])
        if kind == "address" and not _is_address(text):
            self.say(node, f"'{text}' is not an IP address", _EXAMPLES[kind])
        return Action(word, value=slot_of(text) if kind == "pci" else text)

    def when(self, node: YamlNode | None, action: Action) -> When:
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

    def chance(self, node: YamlNode | None) -> float:
        if node is None:
            return 1.0
        text = self.text(node, "probability")
        if not re.fullmatch(r"0?\.\d{1,9}|[01](\.0*)?", text):
            self.say(node, f"probability must be from 0 to 1, not '{text}'")
            return 0.0
        return float(text)

    def number(self, nodes: dict[str, YamlNode], name: str, least: int) -> int:
        return self.whole(nodes[name], name, least, 10**9) if name in nodes else 0

    def whole(self, node: YamlNode, name: str, least: int, most: int) -> int:
        text = self.text(node, name)
        if not re.fullmatch(r"\d{1,10}", text) or not least <= int(text) <= most:
            self.say(node, f"{name} must be a whole number from {least} to {most}, not '{text}'")
            return least
        return int(text)

    def seconds(self, node: YamlNode) -> float:
        text = self.text(node, "a duration")
        found = _DURATION.fullmatch(text)
        seconds = float(found[1]) * _UNITS[found[2]] if found else -1.0
        if not 0 <= seconds <= LONGEST:
            self.say(node, f"'{text}' is not a duration of at most an hour", "write 500ms, 2s or 1m")
            return 0.0
        return seconds

    def text(self, node: YamlNode, name: str) -> str:
        if not is_scalar(node):
            self.say(node, f"{name} must be a single value")
            return ""
        if not node.source:
            self.say(node, f"{name} is empty")
        return node.source


_EXAMPLES = {
    "seconds": "for example {delay: 2s}",
    "fault": "for example {fault: InvalidState}",
    "status": "for example {exit: 19}",
    "percent": "for example {task-stuck: 20}, or {task-stuck: queued}",
    "count": "for example {most-tasks: 8}",
    "alarm": "for example {raise-alarm: Host memory usage}",
    "address": "for example {guest-address: 10.0.0.99}",
    "pci": "for example {gpu-missing: '0000:3b:00.0'}",
}


def _kinds(on: str) -> tuple[EventKind, ...]:
    """Return the kinds of event a rule can be met by; none when any call is meant."""
    if on in ("any", "any-mutation"):
        return ("soap", "ssh")
    if on in ("connect", "versions", "rest", "ssh-connect"):
        return (cast(EventKind, on),)
    return ("ssh",) if on.startswith("ssh:") else ("soap",)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_fault(name: str) -> bool:
    try:
        return issubclass(Vmomi.GetWsdlType("urn:vim25", name), vmodl.MethodFault)
    except KeyError:
        return False
