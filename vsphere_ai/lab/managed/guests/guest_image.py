"""Image of a VM's guest: what vCenter shows of it, and what its cloud-init makes of a VM's settings.

Source: open-vm-tools (``guestInfo.detailed.data``), cloud-init's DataSourceVMware and DataSourceOVF.
"""

from __future__ import annotations

import uuid
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.scenario import Image
from vsphere_ai.lab.store import ManagedObject

VMIOP = vim.vm.device.VirtualPCIPassthrough.VmiopBackingInfo
IMAGE = "image"
DETAILS = "guestInfo.detailed.data"
FIRMWARE = "installed firmware"
"""Among what the lab keeps of a VM: the firmware that its guest was installed with; empty where it boots with both."""
GUESTINFO_SINCE = (21, 3)
"""The first version of cloud-init with the VMware data source."""
ROUTING = ("netplan",)
"""Renderers that make routing rules and tables; others drop them (github.com/canonical/cloud-init issue 4862)."""


def of(mo: ManagedObject) -> Image:
    """Return the image on a VM's disks."""
    found: Image = mo.extra.get(IMAGE) or Image()
    return found


def boots(mo: ManagedObject) -> bool:
    """Return whether the guest finds its boot loader: not with another firmware than it was installed with.

    Beside a vGPU it does not boot with BIOS either (from public reports; unverified for small types).
    """
    config = mo["config"]
    if config.firmware != "efi" and any(isinstance(d.backing, VMIOP) for d in config.hardware.device):
        return False
    return mo.extra.get(FIRMWARE, "") in ("", config.firmware)


def tools_version(image: Image) -> int:
    """Return the version of VMware Tools as vCenter shows it: major * 1024 + minor * 32 + patch."""
    major, minor, patch = map(int, image.tools.split("."))
    return major * 1024 + minor * 32 + patch


def settings(image: Image) -> dict[str, str]:
    """Return the advanced settings that Tools have written in the image; they stay when it is off."""
    if not image.distribution:
        return {}
    name, _, version = image.distribution.partition(" ")
    words = {
        "architecture": "X86",
        "bitness": "64",
        "distroName": name,
        "distroVersion": version.split(" ")[0],
        "familyName": "Linux",
        "prettyName": image.distribution,
    }
    return {DETAILS: " ".join(f"{key}='{value}'" for key, value in words.items())}


def vapp_options(image: Image) -> Any:
    """Return the vApp options of a VM with OVF properties, None without any."""
    if not image.ovf_properties:
        return None
    return vim.vApp.VmConfigInfo(
        property=[
            vim.vApp.PropertyInfo(key=number, id=name, value=value, userConfigurable=True, type="string")
            for number, (name, value) in enumerate(image.ovf_properties.items())
        ],
        ovfEnvironmentTransport=["com.vmware.guestInfo"],
        installBootRequired=False,
        installBootStopDelay=0,
    )


def machine(mo: ManagedObject) -> str:
    """Return what a guest shows of its machine id, eight digits: the image's own where that was not taken out."""
    image = of(mo)
    text = repr(image) if image.machine_id == "copied" else str(mo["config"].instanceUuid)
    return uuid.uuid5(uuid.NAMESPACE_OID, text).hex[-8:]


def reads_guestinfo(mo: ManagedObject) -> bool:
    """Return whether cloud-init takes its data from guestinfo: OVF properties win where there are some."""
    version = of(mo).cloud_init
    new = version != "none" and tuple(map(int, version.split("."))) >= GUESTINFO_SINCE
    return new and mo["config"].vAppConfig is None


def rendered(mo: ManagedObject, ethernets: dict[str, Any]) -> dict[str, Any]:
    """Return what the image's renderer takes of a network file's entries: most drop rules and tables silently."""
    if of(mo).renderer in ROUTING:
        return ethernets
    kept = {}
    for name, each in ethernets.items():
        routes = [r for r in each.get("routes") or () if isinstance(r, dict) and "table" not in r]
        kept[name] = {key: value for key, value in each.items() if key != "routing-policy"} | {"routes": routes}
    return kept
