"""Encryption: a host runs encrypted VMs, such as those with a virtual TPM, in encryption mode and with their keys.

vSphere Security 8.0, host encryption mode: vCenter turns the mode on when such a VM comes to a host, for an account
with the privilege, which those of the lab have. A host where it was turned off keeps to that until it restarts
(HostCryptoState). That it is this fault is unverified.
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import ALWAYS, CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.managed.vms.encryption import PENDING, mode_of


@requirement(5, ALWAYS | {Occasion.START}, CheckTests.HOST)
def encryption(case: LabCase) -> Faults:
    """Yield a fault where the VM is encrypted, and the host gets no key for it."""
    key = case.config.keyId
    if key is None or case.runs_here:
        return
    if mode_of(case.farm, case.host) == PENDING:
        where = f"cannot be sent to the host '{case.host['name']}'"
        yield vim.fault.EncryptionKeyRequired(requiredKey=[key], msg=f"The key '{key.keyId}' {where}.")
