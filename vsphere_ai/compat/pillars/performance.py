"""Rules of performance: nothing between the GPUs of a set is slower than it has to be."""

from __future__ import annotations

from vsphere_ai.compat.pillars.base import PillarCase, has_adapter, has_gpu, host_rule, set_rule, vm_rule
from vsphere_ai.gpu.corrections import PeerToPeer
from vsphere_ai.gpu.devices import has_vgpus, is_whole
from vsphere_ai.gpu.vgpus.vgpu import mmio_size_gb
from vsphere_ai.gpu.vgpus.window import MMIO_KEY, MMIO_SIZE_KEY, size_of
from vsphere_ai.model.estate.host_corrections import HighPerformance
from vsphere_ai.model.estate.vm_corrections import CpuSettings, SetOfVms
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.text import counted
from vsphere_ai.model.vm_sets import member_of, settings_of
from vsphere_ai.resources.corrections import text_of
from vsphere_ai.resources.mixins import device_states

LEAST_OF_BASELINE = 0.9
LATENCY = "config.latencySensitivity"
LAST_CHECK = 7
"""Days for which the state folder keeps XIDs; what was checked before says nothing of today."""


@vm_rule(
    "performance.rdma-nic",
    "RDMA adapter",
    source="vSphere Networking 7.0, Remote Direct Memory Access for Virtual Machines",
    verdicts={"pass": "a PVRDMA or SR-IOV adapter, or a whole NIC", "warn": "none, and the set has other VMs"},
    reads={"VirtualMachine": ("config.hardware.device",)},
    by_hand="the port group of an adapter is a choice of its owner: `nics` of the set, or `pvrdma`",
)
def rdma_nic(case: PillarCase) -> Finding | None:
    """A VM that trains together with others has an adapter for RDMA."""
    case.need("config.hardware.device")
    if has_adapter(case.farm.view, case.farm.targets[case.ref]):
        return case.passed("an adapter for RDMA", ("config.hardware.device", "RDMA"))
    if case.ref not in case.farm.together:
        return None
    remedy = text_of(SetOfVms(case.target, port_group="PORT_GROUP"))
    return case.warned("no adapter for RDMA", ("config.hardware.device", "no RDMA"), remedy=remedy)


@vm_rule(
    "performance.rdma-path",
    "Way to an RDMA device",
    source="vSphere Networking 7.0, PVRDMA Support",
    verdicts={"pass": "from the adapter to a RoCE device", "warn": "not on every host", "fail": "none"},
    uses=("vm.rdma-path", "vm.pvrdma-endpoints"),
    by_hand="`vsphere-ai rdma trace -o playbook` writes the playbook of the whole path",
)
def rdma_path(case: PillarCase) -> Finding | None:
    """Port group, switch and uplinks of each PVRDMA adapter lead to a RoCE device of the host."""
    return case.reported() if has_adapter(case.farm.view, case.farm.targets[case.ref]) else None


@host_rule(
    "performance.rdma-mtu",
    "MTU of RDMA",
    source="NVIDIA MLNX_OFED documentation, RoCE MTU; vSphere Networking 7.0",
    verdicts={"pass": "large enough", "warn": "smaller than it could be"},
    uses=("host.rdma-mtu", "host.pvrdma-mtu"),
    by_hand="`vsphere-ai rdma trace -o playbook` writes the playbook of the whole path",
)
def rdma_mtu(case: PillarCase) -> Finding | None:
    """The MTU of switches and VMkernel adapters carries RDMA messages of 4096 bytes."""
    return case.reported() if case.facts.get("config.network.rdmaDevice") else None


@host_rule(
    "performance.rdma-uplink",
    "RDMA NIC alone on its switch",
    source="vSphere Networking 7.0, PVRDMA Support",
    verdicts={"pass": "one active uplink", "warn": "teamed with others"},
    uses=("host.rdma-uplinks",),
    by_hand="`vsphere-ai rdma trace -o playbook` writes the playbook of the whole path",
)
def rdma_uplink(case: PillarCase) -> Finding | None:
    """PVRDMA uses one uplink: teaming sends a part of the traffic where no RDMA device is."""
    return case.reported() if case.facts.get("config.network.rdmaDevice") else None


@host_rule(
    "performance.lossless",
    "Lossless Ethernet for RoCE",
    source="NVIDIA, RoCE configuration; vSphere Networking 7.0",
    verdicts={"pass": "PFC or global pause", "warn": "neither", "unknown": "it cannot be read"},
    uses=("host.roce-lossless", "host.roce-dcb"),
)
def lossless(case: PillarCase) -> Finding | None:
    """RoCE loses much of its speed where switches drop packets."""
    return case.reported() if case.facts.get("config.network.rdmaDevice") else None


@vm_rule(
    "performance.gpudirect",
    "GPUDirect RDMA prepared",
    source="NVIDIA AI Enterprise 5.0, Deployment Guide for VMware vSphere, GPUDirect RDMA",
    verdicts={"pass": "the VM's advanced settings allow peer-to-peer", "warn": "they do not"},
    reads={"VirtualMachine": ("config.extraConfig", "config.hardware.device")},
)
def gpudirect(case: PillarCase) -> Finding | None:
    """A VM with a GPU and a virtual function or whole NIC lets the two exchange data without its memory."""
    devices = case.need("config.hardware.device")
    whole = sum(is_whole(d) for d in devices)
    nic = any(d.get("_typeName") == "VirtualSriovEthernetCard" for d in devices)
    if not ((has_vgpus(case.facts) and (whole or nic)) or (whole and nic) or whole > 1):
        return None
    keys = settings_of(case.facts)
    on = {k: str(keys.get(k, "")).lower() == "true" for k in ("pciPassthru.allowP2P", "pciPassthru.RelaxACSforP2P")}
    seen = tuple(on.items())
    if all(on.values()):
        return case.passed("peer-to-peer is allowed", *seen)
    return case.warned("peer-to-peer between GPU and NIC is not allowed", *seen, fix=PeerToPeer(case.target))


@host_rule(
    "performance.power-policy",
    "High performance",
    source="Performance Best Practices for VMware vSphere 7.0, Host Power Management",
    verdicts={"pass": "High performance", "warn": "another power policy"},
    reads={"HostSystem": ("config.powerSystemInfo",)},
)
def power_policy(case: PillarCase) -> Finding | None:
    """The power policy of a host is High performance: deep C-states cost time at every small message."""
    planned = case.planned("config.powerSystemInfo")
    if planned and planned.value == "high_performance":
        return case.passed("this plan sets the power policy to High performance", planned.evidence)
    policy = case.need("config.powerSystemInfo").get("currentPolicy") or {}
    seen = ("config.powerSystemInfo.currentPolicy", policy.get("shortName"))
    if policy.get("shortName") == "static":
        return case.passed("the power policy is High performance", seen)
    return case.warned(f"the power policy is {policy.get('shortName')}", seen, fix=HighPerformance(case.target))


@vm_rule(
    "performance.latency",
    "Latency sensitivity with reservations",
    source="vSphere Resource Management 7.0, Latency Sensitivity",
    verdicts={"pass": "normal, or high with all memory reserved", "fail": "high without"},
    reads={"VirtualMachine": (LATENCY, "config.memoryReservationLockedToMax", "config.cpuAllocation.reservation")},
    by_hand="which VMs are worth reserved CPUs is a choice of their owner: `tuning`",
)
def latency(case: PillarCase) -> Finding | None:
    """High latency sensitivity takes effect only with CPU and memory reserved."""
    level = (case.need(LATENCY) or {}).get("level")
    locked = case.facts.get("config.memoryReservationLockedToMax")
    mhz = case.facts.get("config.cpuAllocation.reservation")
    seen = (LATENCY, level), ("config.memoryReservationLockedToMax", bool(locked)), ("config.cpuAllocation", mhz or 0)
    if level != "high" or (locked and mhz):
        return case.passed(f"latency sensitivity is {level}", *seen)
    remedy = text_of(CpuSettings(case.target, low_latency=True))
    return case.failed("latency sensitivity is high, and CPU or memory is not reserved", *seen, remedy=remedy)


@host_rule(
    "performance.cpu-overcommit",
    "CPU not overcommitted",
    source="Performance Best Practices for VMware vSphere 7.0, CPU Overcommitment",
    verdicts={"pass": "as many vCPUs as threads, or fewer", "warn": "more"},
    reads={"HostSystem": ("summary.hardware.numCpuThreads",), "VirtualMachine": ("config.hardware.numCPU",)},
    by_hand="it takes other places for VMs, or fewer vCPUs",
)
def cpu_overcommit(case: PillarCase) -> Finding | None:
    """The VMs that run on a host with GPUs have no more vCPUs than the host has threads: data loaders need them."""
    estate = case.farm.view.estate
    on = [v for v in estate.vms_on(case.ref) if v.ref in case.farm.on]
    known = [estate[v.ref].get("config.hardware.numCPU") for v in on]
    threads = int(case.need("summary.hardware.numCpuThreads"))
    if None in known:
        return case.unknown(f"the vCPUs of {counted(known.count(None), 'VM')} on the host were not read")
    cpus = sum(map(int, known))
    seen = ("config.hardware.numCPU", cpus), ("summary.hardware.numCpuThreads", threads)
    if cpus > threads:
        return case.warned(f"{cpus} vCPUs run on {threads} threads", *seen, remedy="move VMs, or take vCPUs away")
    return case.passed(f"{cpus} vCPUs run on {threads} threads", *seen)


@vm_rule(
    "performance.memory",
    "All memory reserved",
    source="vSphere Networking 7.0, PVRDMA Support; NVIDIA AI Enterprise User Guide",
    verdicts={"pass": "reserved", "fail": "not reserved"},
    uses=("vm.memory-reservation",),
)
def memory(case: PillarCase) -> Finding | None:
    """All memory of a training VM is reserved: nothing of it is swapped or ballooned."""
    return case.reported()


@vm_rule(
    "performance.hot-add",
    "Hot add off",
    source="vSphere Virtual Machine Administration 7.0, Change CPU Hot Plug Settings",
    verdicts={"pass": "off", "warn": "on: the guest sees no NUMA topology"},
    uses=("vm.hotadd",),
    by_hand="no resource type sets hot add",
)
def hot_add(case: PillarCase) -> Finding | None:
    """CPU and memory hot add are off, so that the guest sees the NUMA topology."""
    return case.reported()


@vm_rule(
    "performance.hardware-version",
    "Virtual hardware version",
    source="VMware KB 2007240, Virtual machine hardware versions",
    verdicts={"pass": "new enough", "fail": "too old for its devices"},
    uses=("vm.hardware-version",),
    by_hand="a version cannot be taken back, and not every host runs it: the remedy names the one to write",
)
def hardware_version(case: PillarCase) -> Finding | None:
    """The virtual hardware is new enough for GPUs and RDMA adapters."""
    return case.reported()


@vm_rule(
    "performance.mmio-size",
    "Room for GPU memory in addresses",
    source="VMware, How to enable large-BAR GPUs; NVIDIA Virtual GPU Software Documentation, ESXi",
    verdicts={"pass": "the 64-bit MMIO window takes all GPUs of the VM", "fail": "it is off or too small"},
    reads={"VirtualMachine": ("config.extraConfig", "config.hardware.device")},
    by_hand="the play that gives the VM its GPUs sets the window",
)
def mmio_size(case: PillarCase) -> Finding | None:
    """The 64-bit MMIO window of a VM takes the memory of all its GPUs; else the VM does not start, or lacks a GPU."""
    case.need("config.hardware.device")
    vm, view = case.farm.targets[case.ref], case.farm.view
    states = [state for _, state in device_states(view, case.ref)]
    memory = sum(state.gpu_memory_gb(vm, view) for state in states)
    if not memory:
        return None
    size = max([size_of(settings_of(case.facts)), *(state.mmio_window_gb() for state in states)])
    on, need = size > 0, mmio_size_gb(memory)
    seen = (MMIO_KEY, on), (MMIO_SIZE_KEY, size), ("memory of all GPUs", f"{memory} GB")
    if on and size >= need:
        return case.passed(f"a window of {size} GB for {memory} GB of GPU memory", *seen)
    what = f"a window of {size} GB" if on else "no 64-bit window"
    remedy = "apply the play of its GPUs (vgpu, pci_devices) again: it sets the window"
    return case.failed(f"{what} for {memory} GB of GPU memory, which needs {need} GB", *seen, remedy=remedy)


@vm_rule(
    "performance.gpu-errors",
    "No errors of GPUs",
    source="NVIDIA, XID Errors, catalogue; Azure Well-Architected Framework, health of nodes",
    verdicts={
        "pass": f"the last check of health, of the last {LAST_CHECK} days, saw no XID",
        "warn": "XIDs that a program may cause",
        "fail": "an XID after which the GPU does not go on",
        "unknown": f"health was not checked in the last {LAST_CHECK} days",
    },
    by_hand="an error of a GPU is the sign of something else: `vsphere-ai health`",
)
def gpu_errors(case: PillarCase) -> Finding | None:
    """The driver reported no error of the VM's GPUs, as the last check of `health` on this machine has kept it."""
    made = member_of(case.farm.view.estate, case.ref)
    if not has_gpu(case.farm.view, case.farm.targets[case.ref]) or (made and not made.exists):
        return None
    found, remedy = case.records.checked.get(case.name), f"vsphere-ai health {case.name}"
    if found is None or (case.records.today - found.taken).days > LAST_CHECK:
        return case.unknown(
            f"health was not checked in the last {LAST_CHECK} days", remedy="vsphere-ai health PLAYBOOK"
        )
    seen = ("vsphere-ai health", found.taken.isoformat()), ("XIDs", ", ".join(map(str, found.xids)) or "none")
    if found.fatal:
        return case.failed(f"fatal XID {', '.join(map(str, found.fatal))}", *seen, remedy=remedy)
    if found.xids:
        return case.warned(f"XID {', '.join(map(str, found.xids))}", *seen, remedy=remedy)
    return case.passed(f"no XID on {found.taken.isoformat()}", *seen)


@vm_rule(
    "performance.peer-to-peer",
    "Peer-to-peer between vGPUs",
    source="NVIDIA Virtual GPU Software Documentation, NVIDIA vGPU Peer-to-Peer",
    verdicts={"pass": "possible, or one vGPU", "warn": "not possible"},
    uses=("vm.peer-to-peer",),
    by_hand="it depends on the boards, and on the vGPU types that were chosen",
)
def peer_to_peer(case: PillarCase) -> Finding | None:
    """The vGPUs of a VM reach each other over NVLink where the boards have it."""
    return case.reported()


@set_rule(
    "performance.bus-bandwidth",
    "Bus bandwidth as it was",
    source="NVIDIA nccl-tests, doc/PERFORMANCE.md",
    verdicts={
        "pass": f"at least {LEAST_OF_BASELINE:.0%} of the baseline",
        "fail": "below it",
        "unknown": "no benchmark, or no baseline, of the set is recorded",
    },
    by_hand="a measurement is the sign of something else: `vsphere-ai bench nccl --bisect`",
)
def bus_bandwidth(case: PillarCase) -> Finding | None:
    """The newest all-reduce of a set reaches nine tenths of the baseline of the set."""
    found = case.records.measured.get(case.name)
    if found is None or not found.baseline:
        what = "benchmark" if found is None else "baseline"
        return case.unknown(f"no {what} of the set is recorded", remedy="vsphere-ai bench nccl PLAYBOOK")
    share = found.gb_per_second / found.baseline
    seen = (found.name, f"{found.gb_per_second:g} GB/s"), ("baseline", f"{found.baseline:g} GB/s")
    message = f"{share:.0%} of the baseline"
    if share < LEAST_OF_BASELINE:
        return case.failed(message, *seen, remedy="vsphere-ai bench nccl PLAYBOOK --bisect finds the slow part")
    return case.passed(message, *seen)
