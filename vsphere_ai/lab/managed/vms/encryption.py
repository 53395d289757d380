"""Encryption of VMs with a virtual TPM, and the encryption mode of hosts: what vCenter shows and turns on."""

from __future__ import annotations

import uuid

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.store import ManagedObject

MODE = "encryption"
"""Among what the lab keeps of a host: its encryption mode (HostCryptoState), and when it had booted by then."""
PENDING = "pendingIncapable"


def describe(farm: Farm, host: ManagedObject, mode: str) -> None:
    """Give a host its encryption mode."""
    host.extra[MODE] = mode, farm.host(host).boot_time
    host["runtime"].cryptoState = mode


def mode_of(farm: Farm, host: ManagedObject) -> str:
    """Return the encryption mode of a host; one that was turned off is really off after a restart."""
    mode, booted = host.extra[MODE]
    return "incapable" if mode == PENDING and farm.host(host).boot_time != booted else str(mode)


def encrypt(vm: ManagedObject, *, missing: bool) -> None:
    """Encrypt a VM of the scenario and give it a virtual TPM; it is locked where its key is missing."""
    config = vm["config"]
    provider = vim.encryption.KeyProviderId(id="lab-key-provider")
    config.keyId = vim.encryption.CryptoKeyId(keyId=str(uuid.uuid5(uuid.NAMESPACE_OID, vm.moid)), providerId=provider)
    label = vim.Description(label="Virtual TPM", summary="Trusted Platform Module")
    tpm = vim.vm.device.VirtualTPM(key=11000, deviceInfo=label, controllerKey=100, unitNumber=16)
    config.hardware.device.append(tpm)
    vm["runtime"].cryptoState = "locked" if missing else "unlocked"


def refuse_locked(vm: ManagedObject) -> None:
    """Refuse every operation on a VM that is locked: its key is missing. That this is the fault is unverified."""
    if vm["runtime"].cryptoState == "locked":
        key = vm["config"].keyId
        raise vim.fault.EncryptionKeyRequired(requiredKey=[key], msg=f"The key '{key.keyId}' is missing.")


def take_key(farm: Farm, vm: ManagedObject, host: ManagedObject) -> None:
    """Enable the encryption mode of a host that an encrypted VM comes to."""
    if vm["config"].keyId is not None and mode_of(farm, host) != "safe":
        describe(farm, host, "safe")
        farm.store.touch(host, "runtime")
