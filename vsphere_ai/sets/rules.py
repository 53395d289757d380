"""Rules of sets in their clusters: the steps that make them as the plays say, and rules of others that contradict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from vsphere_ai.language.playbooks.play import TargetPlans
from vsphere_ai.model.cluster_rules import WantedRules, difference, foreign_rules
from vsphere_ai.model.facts import Estate, Facts, grouped
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import ClusterRules, Step
from vsphere_ai.model.vm_sets import MEMBERS, SET, Member, MemberFault, members_of, real_ref
from vsphere_ai.resources.makes_vms import WantedPlacement
from vsphere_ai.sets.places import hosts_of
from vsphere_ai.sets.set_plays import SetPlay

CONFIG = "configurationEx"


def rule_steps(plays: Sequence[SetPlay], desired: TargetPlans, estate: Estate) -> Mapping[Target, Sequence[Step]]:
    """Return the changes of clusters that sets need, by datacenter: before new VMs power on, and once they are ready.

    A member that a limit leaves out stays in the rules that it is in.
    """
    found: dict[Target, list[Step]] = {}
    chosen = {t.ref for t in desired}
    for play, members, cluster in _sets(plays, estate):
        at = estate.datacenter_of(cluster.ref)
        if at is not None and not play.play.adopts:
            found.setdefault(at, []).extend(_steps(play, _staying(members, chosen), cluster, estate, at))
    return {at: steps for at, steps in found.items() if steps}


def merged(*extra: Mapping[Target, Sequence[Step]]) -> Mapping[Target, Sequence[Step]]:
    """Return the steps of several sources by target."""
    return {t: tuple(s for each in extra for s in each.get(t, ())) for t in dict.fromkeys(t for e in extra for t in e)}


def _staying(members: Sequence[Member], chosen: set[str]) -> Sequence[Member]:
    there = [m for m in members if m.exists and not (m.leaving and m.ref in chosen)]
    return (*there, *(m for m in members if not m.exists and not m.faults and m.ref in chosen))


def _steps(play: SetPlay, stay: Sequence[Member], cluster: Facts, estate: Estate, at: Target) -> Iterator[Step]:
    placement = play.wanted.placement
    waited = [m.ref for m in stay if placement.drs_override == "until_ready" and not _is_ready(play, m, estate)]
    kept = [m.ref for m in stay if placement.drs_override == "kept"]
    free = [m.ref for m in stay if placement.drs_override == "until_ready" and m.ref not in waited]
    wanted = replace(wanted_rules(play, stay, estate), overridden=tuple((*waited, *kept)), automatic=tuple(free))
    config = cluster.get(CONFIG) or {}
    if spec := difference(config, wanted, lambda ref: real_ref(estate, ref)):
        yield ClusterRules(target=at, cluster=cluster.ref, wanted=wanted, summary=_words(spec, cluster, play))
    if waited:
        freed = replace(wanted, overridden=tuple(kept), automatic=tuple((*free, *waited)))
        words = f"{cluster.name}: DRS moves the VMs of the set {play.wanted.name} again"
        yield ClusterRules(target=at, cluster=cluster.ref, wanted=freed, ready=True, summary=words)


def wanted_rules(play: SetPlay, members: Sequence[Member], estate: Estate) -> WantedRules:
    """Return the rules and groups of a set whose members are given."""
    placement = play.wanted.placement
    place = next((m.place for m in members if m.place.pool), None)
    hosts = hosts_of(play.wanted, place, estate) if placement.hosts and place else ()
    if placement.hosts and place is None:
        hosts = tuple(estate[h.ref] for ref in _clusters(members, estate) for h in estate.hosts_in(ref))
    near = tuple(h.ref for h in hosts if allows(placement, h.name))
    refs = tuple(m.ref for m in members)
    return WantedRules(play.wanted.name, refs, placement.anti_affinity, near, placement.vm_host_rule)


def allows(placement: WantedPlacement, host: str) -> bool:
    """Return whether a play lets its VMs be on a host of that name."""
    return not placement.hosts or any(fnmatchcase(host.lower(), pattern.lower()) for pattern in placement.hosts)


def with_faults(plays: Sequence[SetPlay], estate: Estate) -> Estate:
    """Return an estate with sets in which members say that their rules cannot be, or that others contradict them."""
    changed = []
    for play, members, cluster in _sets(plays, estate):
        if not play.wanted.placement.has_rules:
            continue
        faults = tuple(_faults(play, members, cluster, estate))
        if faults:
            facts = estate[f"{SET}:{play.wanted.name}"]
            own = {m.ref: replace(m, faults=(*m.faults, *faults)) for m in members if not m.leaving}
            changed.append(facts.having({MEMBERS: {**(facts.get(MEMBERS) or {}), **own}}))
    return estate.with_objects(changed)


def _faults(play: SetPlay, members: Sequence[Member], cluster: Facts, estate: Estate) -> Iterator[MemberFault]:
    config = cluster.get(CONFIG) or {}
    if not (config.get("drsConfig") or {}).get("enabled"):
        yield MemberFault(
            "no-drs", f"'placement' is kept by DRS, which is off in {cluster.name}", "enable DRS, or leave it out"
        )
    wanted = wanted_rules(play, [m for m in members if not m.leaving], estate)
    for name, why in foreign_rules(config, wanted, lambda ref: real_ref(estate, ref)):
        yield MemberFault(
            "rule-conflict", f"the rule '{name}' of {cluster.name} {why}", "change that rule, or 'placement'"
        )


def _sets(plays: Sequence[SetPlay], estate: Estate) -> Iterator[tuple[SetPlay, Sequence[Member], Facts]]:
    """Yield each set with its members in a cluster, and the cluster; nothing where its configuration was not read."""
    of_set = grouped(members_of(estate), lambda m: m.set)
    for play in plays:
        members = of_set.get(play.wanted.name, ())
        by_cluster = grouped(members, lambda m: next(iter(_clusters([m], estate)), ""))
        for ref, own in by_cluster.items():
            cluster = estate.get(ref)
            if cluster is not None and cluster.get(CONFIG) is not None:
                yield play, own, cluster


def _clusters(members: Sequence[Member], estate: Estate) -> dict[str, None]:
    """Return the references of the clusters that members are in."""
    there = [f for m in members if (f := estate.get(m.ref)) is not None]
    hosts = [h for f in there if (h := estate.get(f.get("runtime.host"))) is not None]
    return dict.fromkeys(str(h.get("parent")) for h in hosts)


def _is_ready(play: SetPlay, member: Member, estate: Estate) -> bool:
    return member.exists and play.kind.is_ready(member, estate)


def _words(spec: Mapping[str, Sequence[Mapping[str, object]]], cluster: Facts, play: SetPlay) -> str:
    of = {"groupSpec": "group", "rulesSpec": "rule", "drsVmConfigSpec": "override"}
    done = [
        f"{sum(s['operation'] == verb for s in spec.get(field, ()))} {name}{{}} {past}"
        for field, name in of.items()
        for verb, past in (("add", "added"), ("edit", "changed"), ("remove", "removed"))
        if any(s["operation"] == verb for s in spec.get(field, ()))
    ]
    words = ", ".join(d.format("" if d.startswith("1 ") else "s") for d in done)
    return f"{cluster.name}: DRS rules of the set {play.wanted.name}: {words}"
