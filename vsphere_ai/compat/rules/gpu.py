"""Rules about the GPUs of a host: models, MIG, passthrough, graphics type, and traces of the BIOS settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vsphere_ai.compat.base import Evidence, RuleCase, host_rule
from vsphere_ai.compat.devices import gpus
from vsphere_ai.gpu.corrections import SharedDirectGpus
from vsphere_ai.gpu.devices import PhysicalGpu
from vsphere_ai.gpu.vgpus.listed_board import boards_as_listed
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.plain import PlainObject
from vsphere_ai.resources.host_settings import DividesGpus
from vsphere_ai.resources.mixins import is_stated, vgpus_of
from vsphere_ai.resources.topics import Topic

WITHOUT_SRIOV = ("volta", "turing")  # vGPUs are bound to SR-IOV virtual functions from Ampere on
PLANNED_SHARED_DIRECT = "shared_direct"


@host_rule(
    "gpu.model",
    "GPU model known",
    source="NVIDIA Multi-Instance GPU User Guide, Supported GPUs; NVIDIA AI Enterprise User Guide, appendix A",
    verdicts={"pass": "in the catalogue", "warn": "an NVIDIA GPU the catalogue does not know", "fail": "no NVIDIA GPU"},
    reads=("hardware.pciDevice",),
    about=Topic.SHARED_GPUS,
)
def gpu_model(case: RuleCase) -> Iterator[Finding]:
    """The host has a physical NVIDIA GPU, and the catalogue of boards knows its PCI device id."""
    found = gpus(case)
    if not found:
        none = ("hardware.pciDevice", f"{len(case.need('hardware.pciDevice'))} devices, no NVIDIA GPU")
        yield case.failed("this host has no NVIDIA GPU", none, help="leave the host out of the play")
    for same in _by_model(found):
        seen, board = [g.seen for g in same], same[0].board
        known = board.title if board else f"{same[0].name or 'NVIDIA GPU'} (10de:{same[0].device_id:04x})"
        unchecked = "not in the catalogue, so nothing about its profiles can be checked beforehand"
        if board:
            yield case.passed(f"{len(same)} × {known}", *seen)
        else:
            yield case.warned(f"{len(same)} × {known}: {unchecked}", *seen)


@host_rule(
    "gpu.mig-capable",
    "GPU can be divided (MIG)",
    source="NVIDIA Multi-Instance GPU User Guide, Supported GPUs",
    verdicts={
        "pass": "the board has MIG profiles",
        "warn": "the board has none, but another GPU of the host has",
        "fail": "no GPU of the host has MIG profiles",
        "unknown": "the board is not in the catalogue, and nvidia-smi was not asked or lists no MIG profiles",
    },
    reads=("hardware.pciDevice",),
    about=Topic.MIG,
)
def gpu_mig_capable(case: RuleCase) -> Iterator[Finding]:
    """Only some boards can be divided into GPU instances."""
    found = gpus(case)
    listed = boards_as_listed(case.facts)
    boards = {g.pci: listed[g.pci].board for g in found}
    capable = any(b and b.mig_capable for b in boards.values())
    for same in _by_model(found):
        seen, board = [g.seen for g in same], boards[same[0].pci]
        if board is None:
            yield case.unknown(f"10de:{same[0].device_id:04x} is not in the catalogue", *seen)
        elif board.mig_capable:
            unpublished = " (placements not published, read from the host)" if board.named_profiles else ""
            note = unpublished if board.verified else " (profile ids unverified)"
            yield case.passed(f"{board.title} supports MIG{note}", *seen)
        elif capable:
            yield case.warned(f"{board.title} has no MIG; the host's other GPUs have", *seen)
        else:
            yield case.failed(f"{board.title} has no MIG", *seen, help="use time-sliced vGPU profiles")


@host_rule(
    "gpu.passthrough",
    "GPU not in passthrough mode",
    source="vSphere Resource Management, Configuring Virtual Graphics on vSphere",
    verdicts={
        "pass": "passthrough is off for every GPU",
        "warn": "VMs get GPUs as a whole, and neither their graphics type nor vGPUs are asked for",
        "fail": "passthrough is enabled or active for a GPU whose graphics type is asked for, or for every GPU of a "
        "host whose graphics type or MIG is asked for or whose VMs want vGPUs",
        "unknown": "vCenter does not list the GPU among the passthrough devices",
    },
    reads=("hardware.pciDevice", "config.pciPassthruInfo", "config.graphicsInfo"),
    about=Topic.SHARED_GPUS,
)
def gpu_passthrough(case: RuleCase) -> Iterator[Finding]:
    """A GPU handed to passthrough as a whole cannot be Shared Direct; the host's other GPUs can."""
    found = gpus(case)
    settings = _by_id(case.need("config.pciPassthruInfo"), "id")
    active = _by_id(case.facts.get("config.graphicsInfo") or (), "pciId")
    free: list[Evidence] = []
    taken: list[tuple[PhysicalGpu, Evidence]] = []
    for gpu in found:
        if active.get(gpu.pci, {}).get("graphicsType") == "direct":
            taken.append((gpu, (f"config.graphicsInfo[{gpu.pci}].graphicsType", "direct")))
        elif gpu.pci not in settings:
            yield case.unknown(f"vCenter shows no passthrough setting for GPU {gpu.pci}")
        elif settings[gpu.pci].get("passthruEnabled"):
            taken.append((gpu, (f"config.pciPassthruInfo[{gpu.pci}].passthruEnabled", True)))
        else:
            free.append((f"config.pciPassthruInfo[{gpu.pci}].passthruEnabled", False))
    if free:
        yield case.passed(f"passthrough is off for {_gpus(free)}", *free)
    meant = case.is_stated("config.graphicsConfig") or (taken and not free and _wants_others(case))
    for gpu, seen in taken:
        if meant:
            help = "disable passthrough for the device first (Host > Configure > PCI Devices)"
            yield case.failed(f"GPU {gpu.pci} is in passthrough mode and cannot be Shared Direct", seen, help=help)
        else:
            others = "the host's others are not" if free else "and so are all GPUs of this host"
            yield case.warned(f"GPU {gpu.pci} is in passthrough mode, {others}", seen)


def _wants_others(case: RuleCase) -> bool:
    """Return whether a playbook or a VM wants a GPU of this host that is not passed through."""
    view, estate = case.view, case.view.estate
    here, cluster = estate.vms_on(case.ref), estate.cluster_of(case.ref)
    others = estate.hosts_in(cluster.ref) if cluster and cluster.ref.startswith("ClusterComputeResource:") else ()
    around = (vm for host in others for vm in estate.vms_on(host.ref))
    may_come = (vm for vm in around if any((vm.ref, kind) in view.stated for kind in view.kinds))
    return is_stated(view, case.ref, DividesGpus) or any(vgpus_of(vm, view) for vm in (*here, *may_come))


@host_rule(
    "gpu.shared-direct",
    "GPU shared direct",
    source="NVIDIA AI Enterprise User Guide, Changing the Default Graphics Type in VMware vSphere",
    verdicts={
        "pass": "every GPU is Shared Direct, or will be after this plan",
        "warn": "some GPUs are not, or a GPU waits for the restart",
        "fail": "no GPU is or will be Shared Direct",
        "unknown": "the host has GPUs, but vCenter shows none of them as a graphics device",
    },
    reads=("hardware.pciDevice", "config.graphicsInfo", "config.graphicsConfig"),
    about=Topic.VGPU,
)
def gpu_shared_direct(case: RuleCase) -> Iterator[Finding]:
    """A vGPU starts only on a GPU whose active graphics type is Shared Direct.

    A configured type is active after the next restart.
    """
    planned = case.planned("config.graphicsConfig")
    if planned and planned.value == PLANNED_SHARED_DIRECT:
        yield case.passed("this plan sets Shared Direct", planned.evidence)
        return
    found = {g.pci for g in gpus(case)}
    active = {i["pciId"]: i["graphicsType"] for i in case.need("config.graphicsInfo") if i["pciId"] in found}
    if not active:
        if found:
            yield case.unknown("none of the host's GPUs is shown as a graphics device")
        return
    seen = [(f"config.graphicsInfo[{pci}].graphicsType", kind) for pci, kind in sorted(active.items())]
    ready = [pci for pci, kind in active.items() if kind == "sharedDirect"]
    waiting = [pci for pci in active if pci not in ready and _configured(case, pci) == "sharedDirect"]
    if len(ready) == len(active):
        yield case.passed(f"{_gpus(ready, ' is', ' are')} Shared Direct", *seen)
    elif case.ref in case.view.rebooting and len(ready) + len(waiting) == len(active):
        yield case.passed("Shared Direct after the restart in this plan", *seen, ("plan.reboot", True))
    elif waiting:
        yield case.warned(f"{', '.join(waiting)}: Shared Direct after a restart", *seen, help="restart the host")
    elif ready:
        yield case.warned(f"{len(ready)} of {len(active)} GPUs are Shared Direct", *seen)
    else:
        yield case.failed("no GPU is Shared Direct", *seen, help=case.play(SharedDirectGpus(case.own)))


@host_rule(
    "gpu.iommu",
    "IOMMU (VT-d) evidence",
    source="vSphere Web Services API reference, HostPciPassthruInfo.passthruCapable",
    verdicts={"pass": "a device is passthrough-capable", "warn": "none is: VT-d is suspected to be off"},
    reads=("config.pciPassthruInfo",),
    about=Topic.SHARED_GPUS,
)
def gpu_iommu(case: RuleCase) -> Finding:
    """VT-d or AMD IOMMU has to be on in the BIOS.

    No property shows it. A device vSphere calls passthrough-capable proves it, the absence of one is only a suspicion.
    """
    devices = case.need("config.pciPassthruInfo")
    proof = next((d["id"] for d in devices if d.get("passthruCapable")), None)
    if proof:
        return case.passed("IOMMU is on", (f"config.pciPassthruInfo[{proof}].passthruCapable", True))
    return case.warned(
        "no device is passthrough-capable: VT-d or AMD IOMMU is suspected to be off",
        ("config.pciPassthruInfo", f"{len(devices)} devices, none passthrough-capable"),
        help="check VT-d (Intel) or IOMMU (AMD) and 4G decoding in the BIOS",
    )


@host_rule(
    "gpu.sriov",
    "SR-IOV evidence",
    source="NVIDIA AI Enterprise User Guide, BIOS settings for vGPU on Ampere and later",
    verdicts={
        "pass": "every GPU that needs SR-IOV is capable, or none needs it",
        "warn": "a GPU is not capable: SR-IOV is suspected to be off",
        "unknown": "vCenter does not list the GPU among the passthrough devices",
    },
    reads=("hardware.pciDevice", "config.pciPassthruInfo"),
    about=Topic.SHARED_GPUS,
)
def gpu_sriov(case: RuleCase) -> Iterator[Finding]:
    """From Ampere on every vGPU is bound to an SR-IOV virtual function, so SR-IOV has to be on in the BIOS.

    A GPU that vSphere calls SR-IOV-capable shows it; the contrary is only a suspicion.
    """
    found = gpus(case)
    entries = _by_id(case.need("config.pciPassthruInfo"), "id")
    needing = [g for g in found if not g.board or g.board.architecture not in WITHOUT_SRIOV]
    if found and not needing:
        yield case.passed("these boards need no SR-IOV", *[g.seen for g in found])
    missing = [g.pci for g in needing if g.pci not in entries]
    if missing:
        yield case.unknown(f"not listed among the passthrough devices: {', '.join(missing)}")
    capable = [(g.pci, bool(entries[g.pci].get("sriovCapable"))) for g in needing if g.pci in entries]
    seen = [(f"config.pciPassthruInfo[{pci}].sriovCapable", able) for pci, able in capable]
    suspects = [pci for pci, able in capable if not able]
    if suspects:
        help = "check SR-IOV (global), VT-d and ARI in the BIOS"
        yield case.warned(f"SR-IOV is suspected to be off: {', '.join(suspects)}", *seen, help=help)
    elif seen:
        yield case.passed(f"{_gpus(seen, ' is', ' are')} SR-IOV-capable", *seen)


def _by_model(found: Sequence[PhysicalGpu]) -> tuple[tuple[PhysicalGpu, ...], ...]:
    models = dict.fromkeys(g.device_id for g in found)
    return tuple(tuple(g for g in found if g.device_id == m) for m in models)


def _gpus(found: Sequence[object], one: str = "", more: str = "") -> str:
    return f"1 GPU{one}" if len(found) == 1 else f"{len(found)} GPUs{more}"


def _by_id(items: Sequence[PlainObject], key: str) -> dict[str, PlainObject]:
    return {str(i[key]): i for i in items}


def _configured(case: RuleCase, pci: str) -> str | None:
    config = case.facts.get("config.graphicsConfig") or {}
    types = {d["deviceId"]: d["graphicsType"] for d in config.get("deviceType") or ()}
    return types.get(pci, config.get("hostDefaultGraphicsType"))
