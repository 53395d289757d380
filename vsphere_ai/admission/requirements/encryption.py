"""Encrypted VMs: their host takes keys, and has the one of the VM."""

from __future__ import annotations

from vsphere_ai.admission.base import EVERY, AdmissionCase, Reason, requirement

STATE = "runtime.cryptoState"
"""Of a host: ``safe`` where it has a host key and takes those of VMs, else ``incapable``, ``prepared``,
``pendingIncapable`` (HostCryptoState)."""
FAULT = "EncryptionKeyRequired"


@requirement(
    "admission.encryption",
    "Keys of encrypted VMs",
    occasions=EVERY,
    source="vSphere Security 8.0, host encryption mode (GUID-17568345); vSphere Web Services API, HostCryptoState",
    reads={"HostSystem": (STATE,)},
    faults=(FAULT,),
)
def encryption(case: AdmissionCase) -> Reason | None:
    """A VM that is encrypted, or has a virtual TPM, runs only on a host that takes keys and gets the VM's.

    Where the encryption mode of a host is off, vCenter turns it on when such a VM comes there, if the account has
    Cryptographer.RegisterHost and a key provider answers: neither is read, so that the answer is unknown. A host whose
    mode was turned off, and that waits for a restart, takes none until then; that this is the fault is unverified. A
    VM that is locked because its key is missing is refused by [`vm.encrypted`](compatibility.md#vmencrypted).
    """
    vm, state = case.vm, case.host.get(STATE)
    if not vm.encrypted:
        return None
    if state == "safe" or case.ran_alike("encrypted"):
        return None
    if state == "pendingIncapable" and case.host.ref not in case.situation.view.rebooting:
        message = f"its encryption mode was turned off and ends with its restart, and the VM has {vm.encrypted}"
        return case.no(message, "enable the encryption mode of the host again, or use another host", FAULT)
    if state is None:
        return case.unknown(f"whether it takes keys of encrypted VMs was not read, and the VM has {vm.encrypted}")
    message = f"its encryption mode is off ({state}), and the VM has {vm.encrypted}: whether vCenter can turn it on "
    help = "enable it beforehand: Host > Configure > Security Profile > Host Encryption Mode"
    return case.unknown(f"{message}is not known", help)
