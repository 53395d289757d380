"""Choice of a crossover: the host that a slow VM goes to, or the VM it changes hosts with, and the trials around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.app.training.nodes.facts import Chosen, node_of
from vsphere_ai.benchmarks.slow_part.crossover import Crossover, crossover, moved
from vsphere_ai.benchmarks.slow_part.trials import Judge
from vsphere_ai.errors import UsageError
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.planning.moves.relocation import Relocation, relocation, view_with, why_not_moved

RULE = "crossover.no-host"
Moves = tuple[Relocation, ...]


@dataclass(frozen=True)
class CrossoverChoice:
    """What moves where, with the trials around it; or the problems for which nothing moves. `why` explains the host."""

    moves: Moves = ()
    test: Crossover | None = None
    why: str = ""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Wish:
    """What the operator asks for: the suspect, and optionally its host, its counterpart and its partner in trials."""

    vm: str
    to_host: str = ""
    swap_with: str = ""
    partner: str = ""


def choose(wish: Wish, nodes: Sequence[Node], view: View, judge: Judge) -> CrossoverChoice:
    """Choose the moves of a crossover: to the host that is asked for, else the first that takes the VM, else a swap."""
    return _Choosing(wish, nodes, view, judge).choice()


class _Choosing:
    def __init__(self, wish: Wish, nodes: Sequence[Node], view: View, judge: Judge) -> None:
        self._wish, self._view, self._judge = wish, view, judge
        self._nodes: Mapping[str, Node] = {n.vm: n for n in nodes}
        self._suspect = self._node(wish.vm)
        self._vm = self._target(self._suspect)
        self._reasons: list[str] = []

    def choice(self) -> CrossoverChoice:
        """Return the first choice that nothing blocks, else a problem with every reason."""
        wish = self._wish
        if wish.partner:
            self._node(wish.partner)
        if wish.swap_with:
            found = self._swap(self._node(wish.swap_with))
        elif wish.to_host:
            found = self._move(self._host(wish.to_host))
        else:
            hosts = [h for h in self._view.estate.hosts_for(self._vm.ref) if h.name != self._suspect.host]
            busy = {n.host for n in self._nodes.values()}
            hosts.sort(key=lambda h: (h.name in busy, h.name))
            others = [n for n in self._nodes.values() if n.host != self._suspect.host]
            found = next((c for h in hosts if (c := self._move(h))), None)
            found = found or next((c for n in others if (c := self._swap(n))), None)
        if found is not None:
            return found
        text = "; ".join(dict.fromkeys(self._reasons)) or "its cluster has no other host"
        help_ = "free a place on another host, or name another VM with --swap-with"
        return CrossoverChoice(problems=(Finding.problem(self._vm, RULE, f"it cannot change hosts: {text}", help_),))

    def _move(self, to: Target) -> CrossoverChoice | None:
        pair = self._pair(to)
        if pair is None:
            self._reasons.append(f"{to.name}: two other VMs on hosts of their own are needed to compare with")
            return None
        for live in (True, False):
            made = self._one(self._suspect, to, live=live)
            if made is not None:
                why = f"{to.name} takes {self._vm.name} {_how(made)}{_on(made)}"
                return CrossoverChoice((made,), moved(self._suspect, to.name, pair, self._judge), why)
        return None

    def _swap(self, other: Node) -> CrossoverChoice | None:
        partners = self._partners(other)
        if other.host == self._suspect.host or other.vm == self._suspect.vm:
            self._reasons.append(f"{other.vm}: it is on the same host")
        elif not partners:
            self._reasons.append(f"{other.vm}: another VM on a host of its own is needed to measure with")
        elif moves := self._both_live(other) or self._both_off(other):
            test = crossover(self._suspect, other, partners, self._judge)
            return CrossoverChoice(moves, test, f"{self._vm.name} and {other.vm} change hosts {_how(moves[0])}")
        return None

    def _both_live(self, other: Node) -> Moves | None:
        there, here = self._host(other.host), self._host(self._suspect.host)
        first = self._one(self._suspect, there, live=True)
        if first is None or self._why_not(other, live=True):
            return None
        second = self._taken(view_with(self._view, first), other, here, live=True)
        return (first, second) if second else None

    def _both_off(self, other: Node) -> Moves | None:
        there, here = self._host(other.host), self._host(self._suspect.host)
        if self._why_not(other, live=False):
            return None
        first = self._one(self._suspect, there, live=False, leaving=(other.ref,))
        second = self._taken(self._view, other, here, live=False, leaving=(self._suspect.ref,)) if first else None
        return (first, second) if first and second else None

    def _one(self, node: Node, to: Target, *, live: bool, leaving: Sequence[str] = ()) -> Relocation | None:
        if self._why_not(node, live=live):
            return None
        return self._taken(self._view, node, to, live=live, leaving=leaving)

    def _why_not(self, node: Node, *, live: bool) -> bool:
        why = why_not_moved(self._view.estate, self._target(node), live=live)
        if why:
            self._reasons.append(f"{node.vm} {'by vMotion' if live else 'powered off'}: {why}")
        return bool(why)

    def _taken(
        self, view: View, node: Node, to: Target, *, live: bool, leaving: Sequence[str] = ()
    ) -> Relocation | None:
        found = relocation(view, self._target(node), to, live=live, leaving=leaving)
        if isinstance(found, str):
            self._reasons.append(f"{to.name}: {found}")
            return None
        lacks = [*self._rails_without(node, to)]
        if lacks:
            self._reasons.append(f"{to.name}: has no uplink behind {', '.join(lacks)} of {node.vm}")
            return None
        return found

    def _rails_without(self, node: Node, to: Target) -> Iterator[str]:
        """Yield the rails of a VM that have an uplink here and would have none there."""
        facts = self._view.estate[node.ref]
        estates = self._view.estate, self._view.estate.with_objects([facts.having({"runtime.host": to.ref})])
        here, there = (node_of(Chosen(node.ref), estate)[0].rails for estate in estates)
        yield from (one.interface for one, other in zip(here, there, strict=False) if one.vmnic and not other.vmnic)

    # -- who is measured with whom

    def _beside(self, *hosts: str) -> list[Node]:
        """Return nodes on other hosts than these, the partner that is asked for first, one for each host."""
        own = {n.host: n for n in reversed([*self._nodes.values()]) if n.host not in hosts and n.vm != self._suspect.vm}
        asked = self._nodes.get(self._wish.partner)
        if asked is not None and asked.host not in hosts:
            own[asked.host] = asked
        return sorted(own.values(), key=lambda n: (n != asked, n.host in hosts, n.vm))

    def _pair(self, to: Target) -> tuple[str, str] | None:
        """Return a partner on a third host, and the VM that it is compared with, best one on the suspect's new host."""
        partners = self._beside(self._suspect.host, to.name)
        others = [n for n in self._nodes.values() if n.host == to.name] + partners[1:]
        return (partners[0].vm, others[0].vm) if partners and others else None

    def _partners(self, other: Node) -> tuple[str, ...]:
        return tuple(n.vm for n in self._beside(self._suspect.host, other.host)[:2])

    def _node(self, name: str) -> Node:
        if name not in self._nodes:
            raise UsageError(f"'{name}' is none of the VMs that are named", suggest(name, self._nodes, "they are"))
        return self._nodes[name]

    def _host(self, name: str) -> Target:
        hosts = {h.name: h for h in self._view.estate.hosts}
        if name not in hosts:
            raise UsageError(f"there is no host '{name}'", suggest(name, hosts, "there are"))
        return hosts[name]

    def _target(self, node: Node) -> Target:
        return Target("vm", self._view.estate[node.ref].name, node.ref)


def _how(made: Relocation) -> str:
    return "by vMotion" if made.live else "powered off"


def _on(made: Relocation) -> str:
    return f", on its {'GPU' if len(made.gpus) == 1 else 'GPUs'} {', '.join(made.gpus)}" if made.gpus else ""
