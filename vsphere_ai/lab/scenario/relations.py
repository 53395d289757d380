"""Faults between the resources that a scenario names: processors, memory, pools, HA, swap files, ISO images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.errors import Diagnostic, Mark
from vsphere_ai.lab.hardware.mainboard import GENERATIONS, features
from vsphere_ai.lab.scenario import Cluster, Host, Scenario, Vm, expand

Places = Mapping[int, Mark]
KEPT_AT_LEAST_MB = 256
"""Memory that the lab leaves to the VMs of a host at least."""


def resource_relations(scenario: Scenario, places: Places) -> Iterator[Diagnostic]:
    """Yield what is wrong between resources, each fault with its place."""
    stores = {store.name: {n for text in store.hosts for n in expand(text)} for store in scenario.all_datastores}
    members = {c.name: {n for h in scenario.hosts if h.cluster == c.name for n in expand(h.name)}
               for c in scenario.clusters}  # fmt: skip
    for host in scenario.hosts:
        yield from _of_host(host, places[id(host)], stores)
    for cluster in scenario.clusters:
        yield from _of_ha(cluster, places, members[cluster.name])
        yield from _of_pools(cluster, places)
        yield from _of_evc(scenario, cluster, places)
    for vm in scenario.vms:
        yield from _of_vm(vm, places[id(vm)], stores)


def _of_host(host: Host, mark: Mark, stores: Mapping[str, set[str]]) -> Iterator[Diagnostic]:
    if host.threads and not host.hyperthreading and host.threads != host.cpu_cores:
        yield Diagnostic(
            mark,
            f"host {host.name!r} has {host.threads} threads on {host.cpu_cores} cores without hyperthreading",
            "leave threads out, or switch hyperthreading on",
        )
    elif host.threads and host.threads < host.cpu_cores:
        yield Diagnostic(mark, f"host {host.name!r} has fewer threads ({host.threads}) than cores ({host.cpu_cores})")
    if host.system_memory_mb > (host.memory_gb << 10) - KEPT_AT_LEAST_MB:
        yield Diagnostic(
            mark,
            f"host {host.name!r} keeps {host.system_memory_mb} MB of {host.memory_gb << 10} MB for itself",
            f"leave {KEPT_AT_LEAST_MB} MB to its VMs",
        )
    if host.system_cpu_mhz > host.cpu_cores * host.cpu_mhz:
        yield Diagnostic(
            mark,
            f"host {host.name!r} keeps {host.system_cpu_mhz} MHz of {host.cpu_cores * host.cpu_mhz} MHz for itself",
        )
    known = features(host.cpu)
    for feature in host.cpu_features_off:
        if feature not in known:
            yield Diagnostic(
                mark, f"host {host.name!r} has no processor feature {feature!r}", f"{host.cpu} has: {', '.join(known)}"
            )
    if host.swap_datastore and host.swap_datastore not in stores:
        yield Diagnostic(mark, f"host {host.name!r} has swap_datastore {host.swap_datastore!r}, which is not described")
    elif host.swap_datastore and stores[host.swap_datastore]:
        for name in expand(host.name):
            if name not in stores[host.swap_datastore]:
                yield Diagnostic(mark, f"host {name!r} has not mounted its swap_datastore {host.swap_datastore!r}")


def _of_ha(cluster: Cluster, places: Places, members: set[str]) -> Iterator[Diagnostic]:
    ha = cluster.ha
    mark = places.get(id(ha)) or places[id(cluster)]
    dedicated = ha.admission_control == "hosts"
    if ha.admission_control != "off" and not ha.enabled:
        yield Diagnostic(mark, f"cluster {cluster.name!r} has admission control without HA", "set enabled: true")
    if dedicated != bool(ha.failover_hosts):
        yield Diagnostic(
            mark,
            f"cluster {cluster.name!r} has admission_control {ha.admission_control!r} "
            f"{'without' if dedicated else 'beside'} failover_hosts",
            "failover_hosts belong to admission_control: hosts",
        )
    for name in ha.host_names:
        if name not in members:
            yield Diagnostic(mark, f"failover host {name!r} is not of cluster {cluster.name!r}")
    if bool(ha.slot_cpu_mhz) != bool(ha.slot_memory_mb):
        yield Diagnostic(mark, f"cluster {cluster.name!r} fixes half a slot", "set slot_cpu_mhz and slot_memory_mb")


def _of_pools(cluster: Cluster, places: Places) -> Iterator[Diagnostic]:
    paths = [pool.path.strip("/") for pool in cluster.pools]
    for pool in cluster.pools:
        mark = places[id(pool)]
        if paths.count(pool.path.strip("/")) > 1:
            yield Diagnostic(mark, f"pool {pool.path!r} is described twice")
        for what, kept, limit in (
            ("memory", pool.memory_reservation_mb, pool.memory_limit_mb),
            ("CPU", pool.cpu_reservation_mhz, pool.cpu_limit_mhz),
        ):
            if 0 <= limit < kept:
                yield Diagnostic(mark, f"pool {pool.path!r} reserves more {what} ({kept}) than its limit ({limit})")


def _of_evc(scenario: Scenario, cluster: Cluster, places: Places) -> Iterator[Diagnostic]:
    wanted = {*features(cluster.evc)} if cluster.evc else set()
    for host in scenario.hosts if wanted else ():
        missing = sorted(wanted - ({*features(host.cpu)} - {*host.cpu_features_off}))
        if host.cluster == cluster.name and missing:
            yield Diagnostic(
                places[id(host)],
                f"host {host.name!r} has no {', '.join(missing)}, which EVC {cluster.evc!r} of its cluster demands",
                f"generations from old to new: {', '.join(GENERATIONS)}",
            )


def _of_vm(vm: Vm, mark: Mark, stores: Mapping[str, set[str]]) -> Iterator[Diagnostic]:
    if vm.cpus % vm.cores_per_socket:
        yield Diagnostic(mark, f"VM {vm.name!r} has {vm.cpus} CPUs in sockets of {vm.cores_per_socket}")
    if vm.memory_reservation_mb > vm.memory_gb << 10:
        yield Diagnostic(
            mark, f"VM {vm.name!r} reserves {vm.memory_reservation_mb} MB of {vm.memory_gb << 10} MB of memory"
        )
    if vm.memory_reservation_locked and vm.memory_reservation_mb:
        yield Diagnostic(mark, f"VM {vm.name!r} reserves all its memory: leave memory_reservation_mb out")
    if vm.simultaneous_threads > 1 and vm.cpus % 2:
        yield Diagnostic(mark, f"VM {vm.name!r} has {vm.cpus} CPUs in pairs of threads")
    store = vm.iso.partition("]")[0].removeprefix("[") if vm.iso.startswith("[") else ""
    if store and store not in stores:
        yield Diagnostic(mark, f"VM {vm.name!r} has an ISO image on datastore {store!r}, which is not described")
