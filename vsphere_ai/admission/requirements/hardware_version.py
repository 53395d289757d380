"""The host runs the VM's hardware version."""

from __future__ import annotations

from vsphere_ai.admission.base import RUNS, AdmissionCase, Quantity, Reason, requirement
from vsphere_ai.model.estate.host_version import PRODUCT, hardware_limits
from vsphere_ai.model.state import Target


@requirement(
    "admission.hardware-version",
    "Hardware version that the host runs",
    occasions=RUNS,
    source="Broadcom KB 315655, Virtual machine hardware versions",
    reads={"HostSystem": PRODUCT},
    faults=("VirtualHardwareVersionNotSupported",),
)
def hardware_version(case: AdmissionCase) -> Reason | None:
    """The number of a VM's hardware version is at most the highest one of the host's ESXi release."""
    host = Target("host", case.host.name, case.host.ref)
    known, _ = hardware_limits(case.situation.view.estate, (host,))
    if case.vm.version is None or not known or (runs := known[0].runs(case.vm.version)):
        return None
    if runs is None:
        text = f"ESXi {known[0].esxi} is newer than the releases that are known here"
        return case.unknown(f"{text}: whether it runs hardware version {case.vm.version} is not known")
    message = f"ESXi {known[0].esxi} runs hardware version {known[0].hardware} at most, the VM has {case.vm.version}"
    return case.no(
        message,
        "upgrade the host",
        quantity=Quantity(case.vm.version, known[0].hardware, "hardware version"),
        fault="VirtualHardwareVersionNotSupported",
    )
