"""Metrics of a farm for Prometheus, from the last reading: nothing is read for a scrape.

Labels are clusters, hosts, boards, states and playbooks; no VM is named.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from grp import getgrnam
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from vsphere_ai.errors import UsageError
from vsphere_ai.report.pages.farm_page import clusters_of, host_state, slices_of, verdict_of, without_vgpus
from vsphere_ai.security.files import write_output
from vsphere_ai.security.redaction import clean

if TYPE_CHECKING:
    from vsphere_ai.app.watching.farm_readings import FarmState
    from vsphere_ai.app.watching.farm_snapshot import FarmSnapshot

STATES = ("under way", "finished", "rolled back", "superseded", "closed", "unfinished", "stopped", "failed")
Rows = Sequence[tuple[str, ...]]


def exposition(state: FarmState, runs: Rows) -> bytes:
    """Return the text that Prometheus reads, secrets masked; `runs` are rows of the list of runs."""
    registry = CollectorRegistry()
    registry.register(_Farm(state, runs))
    return clean(generate_latest(registry).decode()).encode()


def write_textfile(path: Path, text: bytes, group: str = "") -> None:
    """Put metrics into a file that the textfile collector of node_exporter reads; it never sees half of one.

    Only its owner can read it, and the members of a `group` where one is named: node_exporter is another user.
    """
    number = None
    if group:
        try:
            number = getgrnam(group).gr_gid
        except KeyError:
            reason = f"there is no group {group!r} on this machine"
            raise UsageError(reason, "name the group of node_exporter: getent group", rule="usage.output") from None
    write_output(path, text.decode(), group=number)


class _Farm(Collector):
    def __init__(self, state: FarmState, runs: Rows) -> None:
        self._state, self._runs = state, runs

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; those of the farm only once it was read."""
        yield from _reading(self._state)
        if self._state.snapshot is not None:
            yield from _hosts(self._state.snapshot)
            yield from _gpus(self._state.snapshot)
            yield from _rest(self._state.snapshot)
        yield from _of_runs(self._runs)


def _reading(state: FarmState) -> Iterator[Metric]:
    yield _gauge(
        "up",
        "Whether the last reading of vCenter succeeded.",
        [((), float(state.error is None and state.snapshot is not None))],
    )
    readings = CounterMetricFamily("vsphere_ai_readings", "Readings of vCenter by outcome.", labels=["outcome"])
    readings.add_metric(["ok"], state.readings)
    readings.add_metric(["failed"], state.failures)
    yield readings
    found = state.snapshot
    if found is not None:
        age = state.age(time.time()) or 0.0
        yield _gauge("reading_age_seconds", "Age of the values that are shown.", [((), age)])
        yield _gauge("reading_timestamp_seconds", "Time of the last good reading.", [((), found.taken)])
        yield _gauge("reading_duration_seconds", "Seconds that the last good reading took.", [((), found.seconds)])
        world, about = found.world, found.about
        labels = ("vcenter", "version", "build")
        row = (world.name, about.version, about.build)
        yield _gauge("vcenter_info", "vCenter that is read.", [(row, 1.0)], labels)


def _hosts(found: FarmSnapshot) -> Iterator[Metric]:
    estate = found.estate
    hosts: Counter[tuple[str, ...]] = Counter()
    vms: Counter[tuple[str, ...]] = Counter()
    clusters = clusters_of(estate)
    for host in estate.hosts:
        cluster = clusters[host.name]
        hosts[cluster, host_state(estate[host.ref])] += 1
        for vm in estate.vms_on(host.ref):
            vms[cluster, str(estate[vm.ref].get("runtime.powerState") or "unknown")] += 1
    yield _gauge("hosts", "Hosts by cluster and state.", hosts.items(), ("cluster", "state"))
    yield _gauge("vms", "VMs by cluster and power state.", vms.items(), ("cluster", "power_state"))


def _gpus(found: FarmSnapshot) -> Iterator[Metric]:
    labels = ("cluster", "host", "board")
    count: Counter[tuple[str, ...]] = Counter()
    running: Counter[tuple[str, ...]] = Counter()
    slices = {name: Counter[tuple[str, ...]]() for name in ("", "used", "free", "stranded")}
    clusters = clusters_of(found.estate)
    for host, own in found.gpus.items():
        for use in own:
            key = clusters.get(host, ""), host, use.slot.board.key
            count[(*key, use.slot.mode)] += 1
            running[key] += len(use.running)
            seen = slices_of(use.slot)
            if seen:
                whole, free = use.slot.board.memory_slices, len(seen.free)
                counted = {"": whole, "used": whole - free, "free": free, "stranded": len(seen.stranded)}
                for name, number in counted.items():
                    slices[name][key] += number
    yield _gauge("gpus", "GPUs that give vGPUs, by mode.", count.items(), (*labels, "mode"))
    other: Counter[tuple[str, ...]] = Counter()
    for target in found.estate.hosts:
        rest = without_vgpus(found.estate[target.ref], found.gpus.get(target.name, ()))
        for (_, graphics), number in rest.items():
            other[clusters[target.name], target.name, graphics] += number
    words = "GPUs that give no vGPUs, by graphics type."
    yield _gauge("gpus_without_vgpus", words, other.items(), ("cluster", "host", "graphics_type"))
    yield _gauge("vgpus_running", "vGPUs of running VMs.", running.items(), labels)
    said = {"": "Memory slices of GPUs in MIG mode.", "used": "Memory slices that an instance has."}
    said |= {"free": "Memory slices that no instance has.", "stranded": "Free memory slices that no profile can use."}
    for name, numbers in slices.items():
        yield _gauge(f"gpu_slices{name and '_'}{name}", said[name], numbers.items(), labels)


def _rest(found: FarmSnapshot) -> Iterator[Metric]:
    paths = Counter((verdict_of(t),) for t in found.traces)
    rows = [((state,), paths[state,]) for state in ("healthy", "broken", "unknown")]
    yield _gauge("rdma_paths", "RDMA paths of PVRDMA adapters by state.", rows, ("state",))
    known = [d for d in found.drift if d.plan is not None]
    one = ("playbook",)
    rows = [((d.playbook,), d.changes) for d in known]
    yield _gauge("drift_changes", "Settings that are not as a playbook wants them.", rows, one)
    rows = [((d.playbook,), len(d.plan.problems)) for d in known if d.plan]
    yield _gauge("drift_problems", "Problems that keep settings from being compared or changed.", rows, one)
    rows = [((d.playbook,), int(d.plan is not None)) for d in found.drift]
    yield _gauge("drift_known", "Whether the drift from a playbook could be computed.", rows, one)


def _of_runs(runs: Rows) -> Iterator[Metric]:
    states = Counter((row[1],) for row in runs)
    rows = [((state,), states[state,]) for state in STATES]
    yield _gauge("runs", "Runs on this machine by state.", rows, ("state",))
    pending = sum(int(row[6] or 0) for row in runs)
    yield _gauge("pending_actions", "Actions that runs on this machine have left to put back.", [((), pending)])
    newest: dict[str, float] = {}
    for row in runs:  # the newest first
        if row[5]:
            newest.setdefault(row[1], datetime.fromisoformat(row[5]).replace(tzinfo=UTC).timestamp())
    words = "Time at which the newest run in a state began."
    yield _gauge("last_run_timestamp_seconds", words, (((s,), at) for s, at in newest.items()), ("state",))


def _gauge(
    name: str, words: str, rows: Iterable[tuple[tuple[str, ...], float]], labels: Sequence[str] = ()
) -> GaugeMetricFamily:
    made = GaugeMetricFamily(f"vsphere_ai_{name}", words, labels=labels)
    for row, value in rows:
        made.add_metric(row, value)
    return made
