"""Plays of a playbook with the values of its variables: one for all targets, or one per group of equal hosts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from vsphere_ai.errors import InputError, Mark
from vsphere_ai.language.playbooks.output import is_outputs
from vsphere_ai.language.playbooks.play import TARGETS, Kinds, Play, Uses
from vsphere_ai.language.playbooks.play_reader import PlayReader, is_no_play
from vsphere_ai.language.playbooks.reference import Resolve
from vsphere_ai.language.playbooks.shown_variables import ANY_KIND, OUTPUTS, uses_of
from vsphere_ai.language.playbooks.substitution import Substitution
from vsphere_ai.language.playbooks.variables import Values, Variables, play_values
from vsphere_ai.language.yaml_files.document import Document, FaultCollector
from vsphere_ai.language.yaml_files.variable_values import GivenValue
from vsphere_ai.language.yaml_files.yaml import YamlNode
from vsphere_ai.model.state import Target
from vsphere_ai.model.variables import VariableValue

FIXED = (*TARGETS, "name", "vcenter")
"""Keys of a play whose values are the same for all its targets."""

PARTS = ("rolling", "power", "spare_hosts")
"""Fields of a play that may differ between its hosts."""


@dataclass(frozen=True)
class Varying:
    """A play with variables, `names`, of which groups and hosts of the inventory give different values.

    `base` are the values of a host to which neither gives one, `make` returns the play with other values; `first` is
    the play with those that it was read with.
    """

    names: tuple[str, ...]
    base: Values
    variables: Variables
    make: Callable[[Values], Play]
    first: Play

    def values(self, host: str, groups: Collection[str], faults: FaultCollector) -> Values:
        """Return the values of a host in some groups; two groups that give it different ones are noted."""
        found = {name: given for name, given in self.base.items() if name in self.names}
        of_group: dict[str, GivenValue] = {}
        own = self.variables.hosts.get(host, {})
        for group in groups:
            for name, given in self.variables.groups.get(group, {}).items():
                earlier = of_group.setdefault(name, given)
                if name in self.names and name not in own and earlier.value != given.value:
                    text = f"{host} is also in {earlier.level}, which gives '{name}' another value at {earlier.place}"
                    help = f"give the host a value of its own: 'host_vars: {{{host}: {{{name}: ...}}}}'"
                    faults.include(InputError([given.refused(text, help)]))
        return found | {name: given for name, given in {**of_group, **own}.items() if name in self.names}

    def own(self, values: Mapping[Target, Values]) -> Iterator[tuple[Target, str, GivenValue]]:
        """Yield the values of hosts that a group, or the host itself, gives."""
        for target, each in values.items():
            for name, given in each.items():
                if given is not self.base.get(name):
                    yield target, name, given

    def parts(
        self, play: Play, values: Mapping[Target, Values], faults: FaultCollector, excerpt: str
    ) -> Iterator[Play]:
        """Yield the play for the hosts of each combination of values; what a host has no value of is noted."""
        for name in self.names:
            without = [target.name for target, each in values.items() if name not in each]
            if without:
                shown = ", ".join(without[:5]) + (f" and {len(without) - 5} more" if len(without) > 5 else "")
                text = f"the variable '{name}' has no value for {shown}"
                help = "give one to a group that they are in, or to each in 'host_vars:' of the inventory, or a default"
                faults.add(play.pattern_mark, text, help, excerpt=excerpt)
        alike: dict[tuple[tuple[str, object], ...], list[Target]] = {}
        for target, each in values.items():
            alike.setdefault(_key(each), []).append(target)
        for targets in alike.values():
            own = values[targets[0]]
            if own.keys() != {*self.names}:
                continue
            try:
                made = self.make(own)
            except InputError as error:
                faults.include(error)
                continue
            changed = {part: getattr(made, part) for part in PARTS if getattr(made, part) != getattr(self.first, part)}
            kinds = {stated.state.kind for stated in play.states}
            states = tuple(stated for stated in made.states if stated.state.kind in kinds)
            yield replace(play, states=states, part=tuple(targets), **changed)


@dataclass
class Filled:
    """A document with the values of its variables, and the plays of it that vary, by their place."""

    document: Document
    kinds: Kinds
    faults: FaultCollector
    variables: Variables
    resolve: Resolve
    varying: dict[Mark, Varying] = field(default_factory=dict)
    own: dict[int, Values] = field(default_factory=dict)
    """Values that plays give, by the number of the play in the document."""
    uses: dict[Mark, Uses] = field(default_factory=dict)
    """Variables that plays name, by their place, and those that outputs name."""

    def __post_init__(self) -> None:
        """Note what is wrong with variables; where that is all right, ask for the values of references and read."""
        items = self.document.root.value
        if not isinstance(items, list) or ("${" not in self._text() and not self.variables.declared):
            self.plays = self._reader(self.document).plays()
            return
        self.own = {n: self._own(n) for n, item in enumerate(items) if is_play(item)}
        self.uses = {self.document.mark_of((n,)): uses_of(items[n], self.kinds) for n in self.own}
        outputs = (uses_of(item, ()) for item in items if is_outputs(item.value))
        self.uses[OUTPUTS] = {ANY_KIND: frozenset(name for each in outputs for name in each[ANY_KIND])}
        looking = self._substitution()
        overlays = {n: self._overlays(n, looking) for n in self.own}
        filled = [self._item(n, overlays[n][0] if n in overlays else {}, looking) for n in range(len(items))]
        if "${ref:" in self._text():
            self.faults.raise_any()  # no vCenter is asked for a playbook with mistakes
            looking.resolve = self.resolve
            filled = [self._item(n, overlays[n][0] if n in overlays else {}, looking) for n in range(len(items))]
        root = replace(self.document.root, value=filled)
        self.raw, self.document = self.document, replace(self.document, root=root, data=root.plain())
        self.substitution = looking
        self.variables.used |= looking.used
        reader = self._reader(self.document)
        self.plays = reader.plays()
        by_place = {play.mark: play for play in self.plays}
        for n, several in overlays.items():
            play = by_place.get(self.document.mark_of((n,)))
            if several[0] and play is not None:
                self._add(n, play, several)

    def _text(self) -> str:
        return "".join((self.document.text, *self.document.texts.values()))

    def _reader(self, document: Document) -> PlayReader:
        return PlayReader(document, self.kinds, self.faults)

    def _substitution(self) -> Substitution:
        return Substitution(self.document, self.faults, self.variables.declared, wrong=self.variables.wrong)

    def _own(self, index: int) -> Values:
        return play_values(self.document, index, self.variables, self.faults)

    def _item(self, index: int, overlay: Values, substitution: Substitution) -> YamlNode:
        """Return an item of the document with values in it, those of groups and hosts laid over the others."""
        node: YamlNode = self.document.root.value[index]
        if index in self.own:
            fixed = self.variables.base(self.own[index])
            return substitution.play(node, {**fixed, **overlay}, fixed, FIXED)
        if is_outputs(node.value):
            return substitution.outputs(node, self.variables.base({}))
        return node

    def _overlays(self, index: int, looking: Substitution) -> list[Values]:
        """Return the values, beside the base, with which a play is read to find its mistakes; the first is kept.

        None of a play that does not vary: one empty mapping.
        """
        node: YamlNode = self.document.root.value[index]
        differing = self.variables.differing(self.own[index]) if "hosts" in node.value else frozenset[str]()
        inside = replace(node, value={k: v for k, v in node.value.items() if k not in FIXED})
        trial = replace(looking, faults=FaultCollector(), used=set(), resolve=None)
        base = self.variables.base(self.own[index])
        trial.play(inside, base, base, ())
        names = trial.used & differing
        if not names:
            return [{}]
        sources = [*self.variables.groups.values(), *self.variables.hosts.values()]
        given = [{name: each[name] for name in each.keys() & names} for each in sources]
        every = {name: value for each in reversed(given) for name, value in each.items()}
        kept = {name: base[name] for name in names & base.keys()}
        complete: list[Values] = [
            each for each in (kept, *({**kept, **each} for each in given)) if each.keys() == names
        ]
        return complete or [{**every, **kept}]

    def _add(self, index: int, play: Play, overlays: list[Values]) -> None:
        """Note a play that varies, and the mistakes that it has with each group's and host's values."""
        names = tuple(sorted(overlays[0]))
        base = {n: v for n, v in self.variables.base(self.own[index]).items() if n in names}

        def make(values: Values) -> Play:
            faults = FaultCollector()
            filling = replace(self.substitution, document=self.raw, faults=faults)
            fixed = self.variables.base(self.own[index])
            item = filling.play(self.raw.root.value[index], {**fixed, **values}, fixed, FIXED)
            items = [*self.document.root.value[:index], item, *self.document.root.value[index + 1 :]]
            root = replace(self.document.root, value=items)
            made = PlayReader(replace(self.document, root=root), self.kinds, faults).play(index, item.plain())
            faults.raise_any()
            assert made is not None  # noqa: S101
            return made

        seen = {_key(overlays[0])}
        for values in overlays[1:]:
            if _key(values) not in seen:
                seen.add(_key(values))
                try:
                    make(values)
                except InputError as error:
                    self.faults.include(error)
        self.varying[play.mark] = Varying(names, base, self.variables, make, play)

    def shown(self) -> tuple[VariableValue, ...]:
        """Return the values of the variables, as far as they are the same for all targets of a play."""
        return tuple(self._shown())

    def _shown(self) -> Iterator[VariableValue]:
        places = {play.mark: play.name for play in self.plays}
        for name in self.variables.declared:
            used = name in self.variables.used
            given = self.variables.base({}).get(name)
            if given is not None:
                yield VariableValue(name, given.value, given.level, given.place, used=used)
            for index, own in self.own.items():
                if name in own and name not in self.variables.high:
                    play = places.get(self.document.mark_of((index,)), "")
                    yield VariableValue(name, own[name].value, own[name].level, own[name].place, play=play, used=used)


def _key(values: Values) -> tuple[tuple[str, object], ...]:
    return tuple(sorted((name, given.value) for name, given in values.items()))


def is_play(item: YamlNode) -> bool:
    """Return whether an item of a playbook's list is a play."""
    return isinstance(item.value, dict) and not is_no_play(item.value)
