"""Virtual functions for SR-IOV adapters."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.admission.base import STARTS, AdmissionCase, Quantity, Reason, host_of, requirement
from vsphere_ai.fabric import virtual_functions
from vsphere_ai.fabric.corrections import VirtualFunctions
from vsphere_ai.fabric.networks import label
from vsphere_ai.fabric.virtual_functions import PhysicalFunction
from vsphere_ai.resources.corrections import text_of


@requirement(
    "admission.sriov",
    "Virtual functions for SR-IOV adapters",
    occasions=STARTS | {"ha_restart"},
    source="vSphere Networking 7.0, Single Root I/O Virtualization; vSphere Web Services API, HostSriovInfo",
    reads={"HostSystem": virtual_functions.PATHS},
    faults=("GenericVmConfigFault",),
    shared=True,
)
def sriov(case: AdmissionCase) -> Reason | None:
    """Each SR-IOV adapter has a free virtual function of a NIC behind its port group, or of the NIC that it names.

    Functions are matched to all VMs there together, in any assignment.
    """
    own, host, estate = case.vm.functions, case.host, case.situation.view.estate
    if not own:
        return None
    if host.get(virtual_functions.DEVICES) is None:
        return case.unknown("its SR-IOV functions were not read")
    taken = [d for ref, m in case.situation.on(host.ref).items() if ref != case.vm.ref for d in m.functions]
    short = len(virtual_functions.unserved(estate, host, (*taken, *own)))
    short -= len(virtual_functions.unserved(estate, host, taken))
    if not short:
        return None
    groups = dict.fromkeys(d.port_group for d in own)
    there = {f.pci: f for g in groups for f in virtual_functions.behind(estate, host, g)}
    named = ", ".join(label(estate, network) if (network := estate.get(g)) else g for g in groups)
    have = virtual_functions.listed(there.values())
    message = f"no virtual function is free for {named}: {have}, {len(taken)} in use there"
    help = _more(case, tuple(there.values()), short) if there else "connect a NIC with SR-IOV to the switch there"
    return case.no(message, help, "GenericVmConfigFault", Quantity(len(own), len(own) - short, "functions"))


def _more(case: AdmissionCase, nics: Sequence[PhysicalFunction], short: int) -> str:
    """Return how a playbook gives a host as many functions more as are short, where one of the NICs has room."""
    for nic in nics:
        have = nic.now if nic.configured is None else nic.configured
        if have is not None and nic.most is not None and have + short <= nic.most:
            more = VirtualFunctions(host_of(case.host), functions={nic.pci: have + short})
            return f"write {text_of(more)} in a play for {case.host.name}"
    return "use another host, or NICs with more virtual functions"
