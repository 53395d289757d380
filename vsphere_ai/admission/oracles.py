"""vCenter's own answers: methods that say without effect what would work, what they leave out, what differs."""

from __future__ import annotations

from dataclasses import dataclass

from vsphere_ai.admission.base import Occasion

CHECK, ADMITS, UNANSWERED = "vcenter.check", "vcenter.admits", "vcenter.unanswered"

_RULES = ("admission.host-rule", "admission.vm-rule", "admission.ha", "admission.vcpu-share")
"""What no test of the checkers is about: CheckTestType has no tests of rules, of HA and of DRS options."""
_LEFT = ("admission.gpu", "admission.devices", "admission.sriov", "admission.swap")
"""Places on GPUs, free devices and free space, which they have no tests of, either."""


@dataclass(frozen=True)
class Oracle:
    """A method of vCenter that answers without effect."""

    method: str
    occasion: Occasion
    words: str
    """What vCenter refuses: ``to power it on``."""
    asked: str
    """About which VMs or hosts of a plan, as words."""
    source: str
    misses: tuple[str, ...] = ()
    """Requirements that it does not look at: that it passed says nothing of these."""
    service: str = ""
    """Property of the service content that holds its object; "" for a method of a cluster."""
    also: tuple[str, ...] = ()
    """Privileges on hosts beside that of the method."""

    @property
    def name(self) -> str:
        """Its name without the ending of methods that are tasks."""
        return self.method.removesuffix("_Task")


POWER_ON = Oracle(
    "CheckPowerOn_Task",
    "power_on",
    "to power it on",
    "VMs that are off and power on as they are, on hosts that the plan does not change",
    "vSphere Web Services API, VirtualMachineCompatibilityChecker.CheckPowerOn_Task and CheckTestType",
    (*_RULES, *_LEFT),
    "vmCompatibilityChecker",
)
CONFIG = Oracle(
    "CheckVmConfig_Task",
    "reconfigure",
    "to change its configuration",
    "VMs that are changed, on hosts that the plan does not change",
    "vSphere Web Services API, VirtualMachineCompatibilityChecker.CheckVmConfig_Task",
    (*_RULES, *_LEFT),
    "vmCompatibilityChecker",
)
CLONE = Oracle(
    "CheckClone_Task",
    "clone",
    "to clone it",
    "VMs that are made, where the plan changes neither their host nor that of their source",
    "vSphere Web Services API, VirtualMachineProvisioningChecker.CheckClone_Task",
    (*_RULES, *_LEFT),
    "vmProvisioningChecker",
)
MIGRATE = Oracle(
    "CheckMigrate_Task",
    "vmotion",
    "to move it",
    "VMs that the run moves itself, from where they are to hosts that the plan has not changed by then",
    "vSphere Web Services API, VirtualMachineProvisioningChecker.CheckMigrate_Task",
    (*_RULES, *_LEFT),
    "vmProvisioningChecker",
)
EVACUATE = Oracle(
    "ClusterEnterMaintenanceMode",
    "evacuate",
    "to move it off its host for maintenance mode",
    "the hosts that are out of service together, where DRS moves VMs off them",
    "vSphere Web Services API, ClusterComputeResource.ClusterEnterMaintenanceMode",
    ("admission.gpu",),
    also=("Host.Config.Maintenance",),
)
ORACLES = (POWER_ON, CONFIG, CLONE, MIGRATE, EVACUATE)


@dataclass(frozen=True)
class OracleDifference:
    """A rule about vCenter's answer beside that of the requirements."""

    id: str
    title: str
    verdict: str
    doc: str
    help: str


DIFFERENCES = (
    OracleDifference(
        CHECK,
        "vCenter refuses what the requirements admit",
        "no",
        "vCenter names a fault for a change, a power-on, a clone, a move or an evacuation, and what was read did not "
        "foresee it: it knows more than it shows, for example compute policies. The plan is refused with vCenter's "
        "fault. One that a requirement foresees as things stand, and that the plan removes first, is no difference.",
        "correct what vCenter names, or leave the VM out",
    ),
    OracleDifference(
        ADMITS,
        "vCenter admits what the requirements refuse",
        "preferred",
        "A requirement refuses a VM on a host as things stand, and vCenter's check, which looks at the same, "
        "passed. The refusal stands: the check is no promise. What a check does not look at is no difference.",
        "compare the figures of the refusal with the vSphere Client",
    ),
    OracleDifference(
        UNANSWERED,
        "vCenter did not answer",
        "unknown",
        "A check could not be asked (a missing privilege, no such service, no answer in time), or its answer does not "
        "decide: a dry run of an evacuation also counts VMs that the plan powers off, moves, changes or destroys "
        "before the host enters maintenance mode. It never counts as an answer; only the requirements decide then.",
        "give the account the privilege that vCenter names, or plan again when vCenter answers",
    ),
)
HELP = {each.id: each.help for each in DIFFERENCES}
