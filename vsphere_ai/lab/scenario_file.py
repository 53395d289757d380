"""Scenario files: YAML without implicit types, every fault with its place, all faults in one run."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import typing
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from vsphere_ai.errors import Diagnostic, InputError, Mark
from vsphere_ai.lab.hardware.boards import board_keys
from vsphere_ai.lab.hardware.mainboard import GENERATIONS
from vsphere_ai.lab.hardware.pci_names import slot_of
from vsphere_ai.lab.input_file import InputFile, is_scalar
from vsphere_ai.lab.scenario import RANGE, Host, Scenario, Vm, expand
from vsphere_ai.lab.scenario.hosts import NIC_TYPES
from vsphere_ai.lab.scenario.relations import resource_relations
from vsphere_ai.lab.scenario_values import fault_in_number, fault_in_text
from vsphere_ai.language.yaml_files.document import text_of
from vsphere_ai.language.yaml_files.yaml import YamlNode

DEFAULT = "default.yml"
MOST_NAMES = 100_000
MOST_VALUES = 100_000
"""Of a file: an environment of 10,000 VMs may be described VM by VM."""

CHOICES: dict[tuple[str, str], tuple[str, ...]] = {
    ("Cluster", "drs"): ("off", "manual", "partiallyAutomated", "fullyAutomated"),
    ("Cluster", "evc"): ("", *GENERATIONS),
    ("Cluster", "swap"): ("vmDirectory", "hostLocal"),
    ("Datastore", "type"): ("vsan", "VMFS", "NFS", "NFS41"),
    ("Gpu", "graphics_type"): ("shared", "sharedDirect"),
    ("Gpu", "vgpu_mode"): ("sameSize", "mixedSize"),
    ("Ha", "admission_control"): ("off", "percentage", "slots", "hosts"),
    ("Host", "cpu"): tuple(GENERATIONS),
    ("Host", "graphics_default"): ("shared", "sharedDirect"),
    ("Host", "assignment_policy"): ("performance", "consolidation"),
    ("Host", "lockdown"): ("disabled", "normal", "strict"),
    ("Host", "driver_line"): ("AIE", "VMware"),
    ("Host", "encryption"): ("safe", "prepared", "incapable", "pendingIncapable"),
    ("Host", "partial_maintenance"): ("", "quickPatchPartialMM", "nsxPartialMM", "sphereletPartialMM"),
    ("Image", "firmware"): ("installed", "any"),
    ("Image", "machine_id"): ("clean", "copied"),
    ("Image", "renderer"): ("netplan", "networkd", "network-manager", "sysconfig", "eni"),
    ("Nic", "rdma_state"): ("Active", "Down"),
    ("Rule", "kind"): ("affinity", "anti-affinity", "host-affinity", "host-anti-affinity"),
    ("Ssh", "policy"): ("on", "off", "automatic"),
    ("Vm", "drs"): ("", "off", "manual", "partiallyAutomated", "fullyAutomated"),
    ("Vm", "latency"): ("normal", "high"),
    ("Vm", "swap"): ("inherit", "vmDirectory", "hostLocal"),
    ("Vm", "power"): ("on", "off", "suspended"),
    ("Vm", "connection"): ("connected", "disconnected", "orphaned", "inaccessible", "invalid"),
    ("Vm", "firmware"): ("efi", "bios"),
    ("Vm", "tools"): ("running", "unmanaged", "none"),
    ("Vm", "licence"): ("licensed", "unlicensed", "unknown"),
    ("Vmkernel", "services"): NIC_TYPES,
}
TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")


def shipped() -> dict[str, Path]:
    """Return the scenario files that come with the package, by name."""
    folder = Path(str(resources.files("vsphere_ai.lab"))) / "scenarios"
    return {path.stem: path for path in sorted(folder.glob("*.yml"))}


def load(path: Path | None = None) -> Scenario:
    """Return the scenario of a file, the default one without a file; raise InputError naming every fault."""
    if path is None:
        text = resources.files("vsphere_ai.lab").joinpath("scenarios", DEFAULT).read_text(encoding="utf-8")
        return parse(text, DEFAULT)
    return _scenario(InputFile.of(path, most=MOST_VALUES))


def digest(path: Path | None) -> str:
    """Return what two different scenario files differ in; empty for the built-in one."""
    return hashlib.sha256(text_of(path).encode()).hexdigest() if path else ""


def parse(text: str, file: str) -> Scenario:
    """Return the scenario in `text`; `file` is the name shown in faults."""
    return _scenario(InputFile.of(text, file, MOST_VALUES))


def _scenario(file: InputFile) -> Scenario:
    reader = _Reader(file)
    if file.root.value is None and not file.faults.found:
        raise InputError([Diagnostic(Mark(file.document.name, 1, 1), "the scenario is empty")])
    scenario = reader.record(file.root, Scenario)
    file.faults.raise_any()
    assert isinstance(scenario, Scenario)  # noqa: S101 - no fault means it was built
    faults = list(_too_many(scenario, reader.places)) or list(_relations(scenario, reader.places))
    if faults:
        raise InputError(faults)
    return scenario


class _Reader:
    """Turns YAML nodes into the dataclasses of the format by their annotations; collects faults."""

    def __init__(self, file: InputFile) -> None:
        self.file, self.fault = file, file.fault
        self.places: dict[int, Mark] = {}
        """Where each part of the scenario is, by its id()."""

    def record(self, node: YamlNode, cls: Any) -> Any:
        hints, fields = _fields(cls)
        short = getattr(cls, "SHORT", "")
        values: dict[str, Any] = {}
        if short and is_scalar(node):
            made = cls(**{short: self.scalar(node, hints[short], (cls.__name__, short))})
            self.places[id(made)] = self.file.mark(node)
            return made
        if not isinstance(node.value, dict):
            self.fault(node, f"expected a mapping with the fields of a {cls.__name__}")
            return None
        for key, value in node.value.items():
            if key in fields:
                values[key] = self.value(value, hints[key], (cls.__name__, key))
            else:
                self.file.unknown(node, key, fields, cls.__name__)
        missing = [n for n, f in fields.items() if n not in values and _required(f)]
        if missing:
            self.fault(node, f"a {cls.__name__} needs {', '.join(missing)}")
            return None
        made = cls(**values)
        self.places[id(made)] = self.file.mark(node)
        return made

    def value(self, node: YamlNode, hint: Any, where: tuple[str, str]) -> Any:
        origin = typing.get_origin(hint)
        if origin is tuple:
            if not isinstance(node.value, list):
                self.fault(node, f"{where[1]} must be a list")
                return ()
            return tuple(self.value(item, typing.get_args(hint)[0], where) for item in node.value)
        if origin is dict:
            if not isinstance(node.value, dict):
                self.fault(node, f"{where[1]} must be a mapping")
                return {}
            return {key: self.value(below, str, where) for key, below in node.value.items()}
        if dataclasses.is_dataclass(hint):
            return self.record(node, hint)
        if not is_scalar(node):
            self.fault(node, f"{where[1]} must be a single value")
            return None
        return self.scalar(node, hint, where)

    def scalar(self, node: YamlNode, hint: Any, where: tuple[str, str]) -> Any:
        text = node.source
        if hint is bool:
            if text.lower() not in TRUE + FALSE:
                self.fault(node, f"{where[1]} must be true or false, not {text!r}")
            return text.lower() in TRUE
        if hint in (int, float):
            try:
                number = hint(text)
            except ValueError:
                self.fault(node, f"{where[1]} must be a number, not {text!r}")
                return hint(0)
            if fault := fault_in_number(number, where):
                self.fault(node, fault)
            return number
        choices = board_keys() if where == ("Gpu", "board") else CHOICES.get(where)
        if choices and text not in choices:
            self.fault(node, f"{where[1]} cannot be {text!r}", f"one of: {', '.join(choices)}")
        elif hint is str and (fault := fault_in_text(text, where)):
            self.fault(node, fault)
        if hint is str and len(RANGE.findall(text)) > 1:
            self.fault(node, f"{text!r} has more than one range")
        return text


@functools.cache
def _fields(cls: Any) -> tuple[dict[str, Any], dict[str, dataclasses.Field[Any]]]:
    """Return the types and the fields of a dataclass, by name."""
    return typing.get_type_hints(cls), {f.name: f for f in dataclasses.fields(cls)}


def _required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _too_many(scenario: Scenario, places: Mapping[int, Mark]) -> Iterator[Diagnostic]:
    """Yield the ranges that stand for nothing, and the first part with which the environment gets too large."""
    total = 0
    parts: tuple[Host | Vm, ...] = (*scenario.hosts, *scenario.vms)
    for part in parts:
        for text in (part.name, part.host) if isinstance(part, Vm) else (part.name,):
            found = RANGE.search(text)
            low, high = (int(found[1]), int(found[2])) if found else (1, 1)
            if low > high:
                yield Diagnostic(places[id(part)], f"the range in {text!r} is empty", "low end first: [01:16]")
            total += max(0, high - low + 1)
            if total > MOST_NAMES:
                yield Diagnostic(
                    places[id(part)], f"with {text!r} the environment has more than {MOST_NAMES} hosts and VMs"
                )
                return


def _relations(scenario: Scenario, places: Mapping[int, Mark]) -> Iterator[Diagnostic]:
    """Yield what is wrong between the parts: a name that nothing has, a name that two have."""
    clusters = {c.name for c in scenario.clusters}
    switches = {s.name for s in scenario.switches}
    groups = {name for s in scenario.switches for g in s.port_groups for name in (g.name, f"{s.name}/{g.name}")}
    hosts: set[str] = set()
    seen: set[tuple[str, str]] = set()
    for host in scenario.hosts:
        mark = places[id(host)]
        for name in expand(host.name):
            if name in hosts:
                yield Diagnostic(mark, f"host {name!r} is described twice")
            hosts.add(name)
        if host.cluster and host.cluster not in clusters:
            yield Diagnostic(mark, f"host {host.name!r} is in cluster {host.cluster!r}, which is not described")
        slots = [slot_of(pci) or pci for pci in (*(g.pci for g in host.gpus), *(n.pci for n in host.nics))]
        for pci in sorted({p for p in slots if slots.count(p) > 1}):
            yield Diagnostic(mark, f"{pci} of {host.name!r} is described twice")
        for group in host.device_groups:
            if bool(group.vgpu) == bool(group.device):
                yield Diagnostic(mark, f"device group {group.name!r} of {host.name!r} needs either vgpu or device")
        for nic in host.nics:
            if nic.switch and nic.switch not in switches:
                yield Diagnostic(mark, f"{nic.name} of {host.name!r} names the unknown switch {nic.switch!r}")
        for adapter in host.vmkernel:
            if adapter.port_group not in groups | {"VM Network", "Management Network"}:
                yield Diagnostic(
                    mark, f"{adapter.name} of {host.name!r} names the unknown port group {adapter.port_group!r}"
                )
    yield from _storage_relations(scenario, places, hosts)
    yield from _tag_relations(scenario, places)
    yield from _rule_relations(scenario, places)
    yield from resource_relations(scenario, places)
    mounted = {d.name: {name for text in d.hosts for name in expand(text)} for d in scenario.all_datastores}
    for vm in scenario.vms:
        yield from _vm_relations(vm, places[id(vm)], (hosts, groups), seen)
        yield from _vm_places(scenario, vm, places[id(vm)], mounted)


def _tag_relations(scenario: Scenario, places: Mapping[int, Mark]) -> Iterator[Diagnostic]:
    tagged: list[tuple[int, tuple[str, ...]]] = [(id(scenario), scenario.tags)]
    tagged += [(id(host), host.tags) for host in scenario.hosts] + [(id(vm), vm.tags) for vm in scenario.vms]
    for place, tags in tagged:
        for tag in tags:
            if not all(tag.partition("/")):
                yield Diagnostic(places[place], f"tag {tag!r} has no category", "write Category/name")


def _rule_relations(scenario: Scenario, places: Mapping[int, Mark]) -> Iterator[Diagnostic]:
    clusters = {name: host.cluster for host in scenario.hosts for name in expand(host.name)}
    rules = [(cluster, rule) for cluster in scenario.clusters for rule in cluster.rules]
    vms = {name: set(expand(vm.host)) for vm in scenario.vms if rules for name in expand(vm.name)}
    for cluster, rule in rules:
        mark = places[id(rule)]
        if [each.name for each in cluster.rules].count(rule.name) > 1:
            yield Diagnostic(mark, f"rule {rule.name!r} is described twice")
        if rule.kind.startswith("host-") != bool(rule.hosts):
            yield Diagnostic(mark, f"rule {rule.name!r} of kind {rule.kind} has {'no ' * (not rule.hosts)}hosts")
        for name in sorted(rule.vm_names):
            if not any(clusters.get(host) == cluster.name for host in vms.get(name, ())):
                yield Diagnostic(mark, f"rule {rule.name!r} names VM {name!r}, which is not of the cluster")
        for name in rule.host_names:
            if clusters.get(name) != cluster.name:
                yield Diagnostic(mark, f"rule {rule.name!r} names host {name!r}, which is not of the cluster")


def _storage_relations(scenario: Scenario, places: Mapping[int, Mark], hosts: set[str]) -> Iterator[Diagnostic]:
    clusters = {c.name for c in scenario.datastore_clusters}
    names = [d.name for d in scenario.datastores]
    for store in scenario.datastores:
        mark = places[id(store)]
        if names.count(store.name) > 1:
            yield Diagnostic(mark, f"datastore {store.name!r} is described twice")
        if store.free_gb > store.capacity_gb:
            yield Diagnostic(mark, f"datastore {store.name!r} has more free space than capacity")
        if store.cluster and store.cluster not in clusters:
            yield Diagnostic(mark, f"datastore {store.name!r} is in {store.cluster!r}, which is not described")
        for name in (each for text in store.hosts for each in expand(text)):
            if name not in hosts:
                yield Diagnostic(mark, f"datastore {store.name!r} is on host {name!r}, which is not described")


def _vm_places(scenario: Scenario, vm: Vm, mark: Mark, mounted: Mapping[str, set[str]]) -> Iterator[Diagnostic]:
    """Yield the datastore and the resource pool of a VM that are not described, or not where its hosts are."""
    store = vm.datastore or scenario.datastore
    if store not in mounted:
        yield Diagnostic(mark, f"VM {vm.name!r} is on datastore {store!r}, which is not described")
    for host in expand(vm.host) if mounted.get(store) else ():
        if host not in mounted[store]:
            yield Diagnostic(mark, f"VM {vm.name!r} runs on {host!r}, which has not mounted its datastore")
    if vm.pool:
        hosts = {name: h.cluster for h in scenario.hosts for name in expand(h.name)}
        pools = {c.name: {pool.path.strip("/") for pool in c.pools} for c in scenario.clusters}
        for cluster in sorted({hosts.get(name, "") for name in expand(vm.host)}):
            if not any(path == vm.pool.strip("/") for path in pools.get(cluster, ())):
                yield Diagnostic(mark, f"VM {vm.name!r} is in pool {vm.pool!r}, which its cluster does not have")


def _vm_relations(
    vm: Vm, mark: Mark, known: tuple[set[str], set[str]], seen: set[tuple[str, str]]
) -> Iterator[Diagnostic]:
    hosts, groups = known
    if vm.template and vm.power != "off":
        yield Diagnostic(mark, f"VM {vm.name!r} is a template, which is off")
    for name in expand(vm.name):
        if (vm.folder, name) in seen:
            yield Diagnostic(mark, f"VM {name!r} is described twice in folder {vm.folder!r}")
        seen.add((vm.folder, name))
    for name in expand(vm.host):
        if name not in hosts:
            yield Diagnostic(mark, f"VM {vm.name!r} runs on host {name!r}, which is not described")
    for group in (*vm.pvrdma, vm.network, *vm.more_networks):
        if group and group not in groups | {"VM Network"}:
            yield Diagnostic(mark, f"VM {vm.name!r} names the unknown port group {group!r}")
