"""CPU features: a host shows a running VM every feature that it was shown when it powered on.

vSphere API, `runtime.featureRequirement` against `config.maskedFeatureCapability`; of a VM that is off
`offlineFeatureRequirement`, which every processor of the lab meets. FeatureRequirementsNotMet names what is missing.
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.managed.host_resources import requirements
from vsphere_ai.lab.managed.vms.cpu_features import needed


@requirement(22, frozenset({Occasion.VMOTION, Occasion.EVACUATE, Occasion.POWER_ON}), CheckTests.HOST)
def cpu_features(case: LabCase) -> Faults:
    """Yield a fault that names the features which the VM would miss."""
    shown = case.farm.host(case.host).mainboard.shown_features
    missing = tuple(feature for feature in needed(case.vm) if feature not in shown)
    if missing:
        yield vim.fault.FeatureRequirementsNotMet(
            featureRequirement=requirements(missing),
            vm=case.vm.ref,
            host=case.host.ref,
            msg="The target host does not support the virtual machine's current hardware requirements: "
            f"{', '.join(f'cpuid.{each}' for each in missing)}.",
        )
