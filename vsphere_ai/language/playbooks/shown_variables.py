"""Values of variables that count for some targets: those of plays and kinds that are left out are not shown."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from vsphere_ai.errors import Mark
from vsphere_ai.language.playbooks.play import Play, Uses, Varies
from vsphere_ai.language.yaml_files.variable_values import NAME, GivenValue
from vsphere_ai.language.yaml_files.yaml import YamlNode
from vsphere_ai.model.state import Target
from vsphere_ai.model.variables import VariableValue
from vsphere_ai.resources.makes_vms import MakesVms

ANY_KIND = ""
"""Stands for the keys of a play that are no kinds."""
OUTPUTS = Mark("")
"""Stands for the place of all outputs."""


_NAMED = re.compile(rf"\$\{{\s*({NAME.pattern})\s*\}}")


def uses_of(node: YamlNode, kinds: Collection[str]) -> Uses:
    """Return which variables the keys of an item name, by kind; `ANY_KIND` for all keys that are none."""
    found: dict[str, frozenset[str]] = {}
    for key, each in node.value.items():
        kind = key if key in kinds else ANY_KIND
        found[kind] = found.get(kind, frozenset()) | {name for text in _texts(each) for name in _NAMED.findall(text)}
    return found


def _texts(node: YamlNode) -> Iterable[str]:
    below = node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, list) else ()
    for each in below:
        yield from _texts(each)
    if isinstance(node.value, str):
        yield node.value


@dataclass
class ShownVariables:
    """Gathers which values count for `only` these targets; None: for all. `uses` are those of the plays."""

    uses: Mapping[Mark, Uses]
    only: Collection[Target] | None
    base: set[str] = field(default_factory=set)
    """Variables of which the value that is the same for all counts."""
    hosts: dict[VariableValue, list[str]] = field(default_factory=dict)
    plays: set[str] = field(default_factory=set)
    """Names of the plays that count."""

    def add(self, play: Play, targets: Iterable[Target]) -> None:
        """Add a play with one value of each variable."""
        if any(map(self._counts, targets)) or any(isinstance(each.state, MakesVms) for each in play.states):
            self.base |= self._named(play)
            self.plays.add(play.name)

    def add_varying(self, play: Play, varying: Varies, values: Mapping[Target, Mapping[str, GivenValue]]) -> None:
        """Add a play whose hosts have different values."""
        counted = {target: each for target, each in values.items() if self._counts(target)}
        named = self._named(play)
        own: set[tuple[Target, str]] = set()
        for target, name, given in varying.own(counted):
            own.add((target, name))
            value = VariableValue(name, given.value, given.level, given.place)
            if name in named:
                self.hosts.setdefault(value, []).append(target.name)
        self.base |= {name for name in named if any((target, name) not in own for target in counted)}
        if counted:
            self.plays.add(play.name)

    def values(self, variables: Iterable[VariableValue]) -> tuple[VariableValue, ...]:
        """Return the values that count, those of some hosts behind the one for all."""
        base = {*self.base, *self.uses.get(OUTPUTS, {}).get(ANY_KIND, ())}
        kept = [v for v in variables if (v.play in self.plays if v.level == "play" else v.name in base or not v.used)]
        own = [replace(value, targets=tuple(dict.fromkeys(names))) for value, names in self.hosts.items()]
        return (*kept, *own)

    def _counts(self, target: Target) -> bool:
        return self.only is None or target in self.only

    def _named(self, play: Play) -> frozenset[str]:
        kinds = {ANY_KIND, *(each.state.kind for each in play.states)}
        return frozenset().union(*(names for kind, names in self.uses.get(play.mark, {}).items() if kind in kinds))
