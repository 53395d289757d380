"""Host data: what the ESXi host says about a VM's GPUs and uplinks, which its guest cannot see.

Of a vGPU the host's driver shows errors, clocks and links of the physical GPU; a passthrough GPU is the guest's own,
and the host knows its PCI device and log only (NVML, manage-vgpus-hypervisor). Facts are None where nothing says them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from vsphere_ai.health.answers import GuestFacts, SmiGpu
from vsphere_ai.health.finding import VmFinding, VmJudge, Witness
from vsphere_ai.health.kernel.xids import WORDS
from vsphere_ai.health.placement import VmPlace, place_findings
from vsphere_ai.health.preflight import rail_part
from vsphere_ai.model.nodes import Node

BAD_THROTTLES = {0x8: "hardware slowdown", 0x40: "thermal slowdown", 0x80: "power brake"}
"""Throttle reasons that are failures (nvml.h, nvmlClocksThrottleReason*)."""
CAPPED = 0x4
CLOCK_OFF = 60.0
"""Seconds from which the clock of a host is wrong; it is read some seconds before it is compared."""


@dataclass(frozen=True)
class HostFacts:
    """What is known of the host of a VM. `failure` is why its shell was not asked, empty where it was.

    `gpus` are by PCI address, `tenants` the other VMs on a GPU, `driver` the version of its NVIDIA package, `log` the
    lines of its log about GPUs. `uplink_speed` and `nominal_speed` are in Gb/s by vmnic; `switch_mtu` and `teamed`
    (uplinks beside the RDMA one) by the interface of the rail. `settings` are the VM's advanced settings.
    """

    failure: str = ""
    gpus: Mapping[str, SmiGpu] = field(default_factory=dict)
    tenants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    driver: str = ""
    log: tuple[str, ...] = ()
    uplink_speed: Mapping[str, float] = field(default_factory=dict)
    nominal_speed: Mapping[str, float] = field(default_factory=dict)
    switch_mtu: Mapping[str, int] = field(default_factory=dict)
    teamed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    place: VmPlace = field(default_factory=VmPlace)
    events: tuple[str, ...] = ()
    """Lines of its event log about links of vmnics."""
    log_failure: str = ""
    """Why its log could not be read; `failure` where its shell was not asked at all."""
    booted: datetime | None = None
    clock_ahead: float | None = None
    """Seconds that the host's clock is ahead of this machine's; None where it was not asked."""

    @property
    def correction(self) -> timedelta:
        """What times of its logs are ahead of this machine's; nothing where its clock was not asked."""
        return timedelta() if self.clock_ahead is None else timedelta(seconds=self.clock_ahead)


def host_findings(node: Node, guest: GuestFacts, host: HostFacts, *, passthrough: bool) -> Iterator[VmFinding]:
    """Yield what the host says against a VM."""
    for gpu in node.gpus:
        if not gpu.host_pci:
            continue
        part = f"GPU {gpu.host_pci}"
        seen = host.gpus.get(gpu.host_pci)
        if not passthrough and (host.failure or seen is None):
            why = host.failure or "the host's nvidia-smi does not list it"
            remedy = "allow SSH to the host (`start_service`), or look at its driver"
            yield VmJudge(node, part, "host")(
                "host-gpu", "unknown", f"its physical GPU cannot be looked at: {why}", remedy
            )
        elif seen is not None and not passthrough:
            yield from gpu_findings(node, seen, part)
    silent = bool(host.failure) and host.failure == host.log_failure
    if node.gpus and passthrough and silent:
        yield VmJudge(node, side="host")("host-log", "info", f"the guest is the only witness: {host.failure}", "")
    elif (node.gpus or node.rails) and host.log_failure and not silent:
        yield VmJudge(node, side="host")(
            "host-log", "unknown", host.log_failure, "look whether the account may read the log"
        )
    if not passthrough:
        yield from _branch(node, guest, host)
    ahead = host.clock_ahead
    if ahead is not None and abs(ahead) > CLOCK_OFF:
        message = f"the clock of its host is {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}: so are its logs"
        yield VmJudge(node, side="host")("host-clock", "warn", message, "set NTP of the host (`ntp` of a play)")
    yield from _uplinks(node, guest, host)
    yield from _settings(node, host)
    yield from place_findings(node, guest.packages, host.settings, host.place)


def gpu_findings(node: Node, gpu: SmiGpu, part: str, witness: Witness = "host") -> Iterator[VmFinding]:
    """Yield what the side that owns a GPU says against it; a value that it does not show is not judged here."""
    said = VmJudge(node, part, witness)
    if gpu.fault:
        yield said("gpu-fault", "fail", f"nvidia-smi shows no values of it: {gpu.fault}", WORDS["reset_gpu"])
    if gpu.ecc_uncorrected:
        message = f"{gpu.ecc_uncorrected} uncorrected ECC errors"
        yield said("ecc", "fail", message, "reset the GPU; replace it if they come back")
    if gpu.remap_failed:
        yield said("remap", "fail", "a row of its memory could not be remapped", WORDS["isolate"])
    elif gpu.remap_pending:
        yield said("remap", "warn", "a row of its memory is to be remapped at the next reset", WORDS["reset_gpu"])
    throttle = gpu.throttle
    bad = [] if throttle is None else [words for bit, words in BAD_THROTTLES.items() if throttle & bit]
    if bad:
        yield said("throttle", "fail", f"its clocks are lowered: {', '.join(bad)}", "look at cooling and power supply")
    elif throttle is not None and throttle & CAPPED:
        yield said("throttle", "warn", "its clocks are lowered by the power cap", "look at the power limit")
    _, _, now, most = gpu.pcie
    if now is not None and most is not None and now < most:
        yield said("pcie", "fail", f"{now} PCIe lanes of {most}", "reseat the board, look at riser and BIOS")


def is_other_branch(guest: str, host: str) -> bool:
    """Return whether two versions of the driver are of different branches, as far as both are known."""
    return bool(guest and host) and guest.partition(".")[0] != host.partition(".")[0]


def _branch(node: Node, guest: GuestFacts, host: HostFacts) -> Iterator[VmFinding]:
    own = next((gpu.driver for gpu in guest.gpus if gpu.driver), "")
    if is_other_branch(own, host.driver):
        message = f"the guest's driver {own} is of another branch than the host's {host.driver}"
        yield VmJudge(node, side="host")(
            "driver-branch", "fail", message, "install the guest driver of the host's vGPU release"
        )


def _uplinks(node: Node, guest: GuestFacts, host: HostFacts) -> Iterator[VmFinding]:
    for rail in node.rails:
        part = rail_part(rail)
        now, best = host.uplink_speed.get(rail.vmnic), host.nominal_speed.get(rail.vmnic)
        if now is not None and best is not None and now < best:
            message = f"{rail.vmnic} runs at {now:g} Gb/s, and can {best:g}"
            yield VmJudge(node, part, "host")(
                "uplink-speed", "fail", message, "look at cable, transceiver and switch port"
            )
        switch, inside = host.switch_mtu.get(rail.interface), guest.interfaces.get(rail.interface)
        if switch is not None and inside is not None and inside.mtu > switch:
            message = f"the interface has an MTU of {inside.mtu}, and the distributed switch {switch}"
            yield VmJudge(node, part, "host")("switch-mtu", "fail", message, "raise the MTU of the distributed switch")
        others = host.teamed.get(rail.interface, ())
        if others:
            message = f"the uplink of RDMA is teamed with {', '.join(others)}"
            yield VmJudge(node, part, "host")(
                "teaming", "fail", message, "leave one uplink on the port group and the switch"
            )


def _settings(node: Node, host: HostFacts) -> Iterator[VmFinding]:
    for pci, others in host.tenants.items():
        if others and any(gpu.host_pci == pci for gpu in node.gpus):
            message = f"it shares the GPU with {', '.join(others)}"
            yield VmJudge(node, f"GPU {pci}", "host")(
                "co-tenant", "info", message, "give benchmarks a GPU of their own"
            )
    uvm = [k for k, v in host.settings.items() if k.endswith(".cfg.enable_uvm") and v.strip() in ("1", "TRUE", "true")]
    rdma = any(rail.rdma_device.startswith(("roce", "rocep")) for rail in node.rails)
    if uvm and rdma:
        message = "unified memory (enable_uvm) is on: the VM cannot move by vMotion"
        yield VmJudge(node, side="host")("uvm", "info", message, "")
