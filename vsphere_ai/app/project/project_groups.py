"""Groups of a new inventory: hosts by cluster, those of them with GPUs, and VMs by folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from vsphere_ai.errors import InputError, Mark
from vsphere_ai.gpu.devices import found_gpus
from vsphere_ai.language.inventories.inventory import Inventory, InventoryGroup
from vsphere_ai.language.inventories.selection import select
from vsphere_ai.language.inventories.selectors import HostGroup, VmSelector
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.names.name_ranges import fold, is_hostile
from vsphere_ai.model.records.project import ProjectGroup
from vsphere_ai.model.state import TargetKind

Conditions = dict[str, str | tuple[str, ...]]


def project_groups(estate: Estate, inventory: Inventory) -> tuple[ProjectGroup, ...]:
    """Return groups that mean something now, each with a name that nothing else has."""
    taken = {"all", *(t.name for t in (*estate.datacenters, *estate.hosts, *estate.vms))}
    found: list[ProjectGroup] = []
    for kind, wanted, choices in (*_clusters(estate), *_folders(estate)):
        made = next((g for c in choices if (g := _group(kind, wanted, c, estate, inventory))), None)
        if made is None or any(made.targets == each.targets for each in found):
            continue
        named = next(n for n in _names(wanted, kind) if n not in taken)
        taken.add(named)
        found.append(replace(made, name=named))
    return tuple(found)


def _clusters(estate: Estate) -> Iterator[tuple[TargetKind, str, Sequence[Conditions]]]:
    clusters = list(estate.of_type("ClusterComputeResource"))
    gpus = {c.ref: [h.name for h in estate.hosts_in(c.ref) if _has_gpu(estate[h.ref])] for c in clusters}
    only = sum(map(bool, gpus.values())) == 1
    for cluster in clusters:
        by: list[Conditions] = [{"cluster": cluster.name}, {"cluster": estate.path_of(cluster.ref)}]
        yield "host", cluster.name, by
        if gpus[cluster.ref] and not any(map(is_hostile, gpus[cluster.ref])):
            names = fold(gpus[cluster.ref])
            yield "host", "gpu_hosts" if only else f"{cluster.name}-gpu", [{**each, "names": names} for each in by]


def _has_gpu(host: Facts) -> bool:
    return bool(found_gpus(host.get("hardware.pciDevice") or ()))


def _folders(estate: Estate) -> Iterator[tuple[TargetKind, str, Sequence[Conditions]]]:
    for ref, folder in {f.ref: f for vm in estate.vms if (f := estate.parent_of(estate[vm.ref]))}.items():
        path = estate.path_of(ref)
        if inside := path.partition("/vm/")[2]:
            yield "vm", folder.name, [{"folder": inside}, {"folder": path}]


def _group(
    kind: TargetKind, name: str, conditions: Conditions, estate: Estate, inventory: Inventory
) -> ProjectGroup | None:
    """Return a group with what it means; None where these conditions mean nothing, or several things."""
    selector = (HostGroup if kind == "host" else VmSelector).model_validate(conditions)
    groups: Mapping[str, InventoryGroup] = {"group": InventoryGroup("group", selector, Mark(""))}
    trial = replace(inventory, hosts=groups) if kind == "host" else replace(inventory, vms=groups)
    try:
        targets = frozenset(select("group", kind, trial, estate, mark=Mark("")))
    except InputError:
        return None
    return ProjectGroup(kind, name, conditions, targets)


def _names(wanted: str, kind: TargetKind) -> Iterable[str]:
    """Yield names that an inventory takes, the nearest to the wanted one first."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", wanted).strip("-.") or f"{kind}s"
    plain = plain if re.match(r"[A-Za-z_]", plain) else f"{kind}s-{plain}"
    yield plain
    yield f"{plain}-{kind}s"
    yield from (f"{plain}-{number}" for number in range(2, 100_000))
