"""Customization of guests (CustomizationLinuxPrep): what refuses it, its states and events, and the network it makes.

It waits for the next power-on, is carried out while the guest boots, and is over then, done or failed. Source: vSphere
Web Services API, CustomizationSpec and GuestInfoCustomizationInfo; KB 87648 for the order of NICs before 8.0.
"""

from __future__ import annotations

from ipaddress import ip_interface
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, events, reads
from vsphere_ai.lab.managed.guests import guest_faults, guest_image
from vsphere_ai.lab.managed.refusals import invalid_power_state, not_supported
from vsphere_ai.lab.managed.vms.vm_states import refuse_lost
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, fill
from vsphere_ai.lab.tasks import TaskWork

Customization = vim.vm.customization
PENDING, DONE, INFO = "pending customization", "customized network", "customization info"
"""Among what the lab keeps of a VM: the specification that waits, the name and network that were made, the state."""
PACKAGE = "/var/run/.vmware-imgcust/imcf"
BY_ADDRESS = (8, 0)
"""The first version that finds the NIC of a mapping by its MAC address; before it is that at the same place."""
NOT_LINUX = ("win", "other", "darwin", "freebsd", "solaris", "netware", "dos", "vmkernel")
"""How identifiers of other guests begin; those of other Linux systems have the word in them."""
OLDEST_TOOLS = (10, 1)
"""VMware Tools before these are too old to be customized in the lab; which are for vCenter is unverified."""
NO_SCRIPTS = "Customization script is disabled in the guest (deployPkg enable-custom-scripts)."


def check(mo: ManagedObject, spec: Any, *, tools: str) -> None:
    """Raise the fault that a specification is refused with for a VM; `tools` are those of its guest."""
    config = mo["config"]
    nics = len(_cards(config))
    image = guest_image.of(mo)
    linux = "linux" in config.guestId.lower() or not config.guestId.startswith(NOT_LINUX)
    if not linux or tools == "none" or not image.customization:
        raise vim.fault.UncustomizableGuest(
            uncustomizableGuestOS=config.guestFullName,
            msg=f"Customization of the guest operating system '{config.guestId}' is not supported.",
        )
    if tuple(map(int, image.tools.split("."))) < OLDEST_TOOLS:
        raise vim.fault.UncustomizableGuest(
            uncustomizableGuestOS=config.guestFullName,
            msg=f"Customization of the guest operating system '{config.guestId}' is not supported in this "
            "configuration: VMware Tools are too old.",
        )
    if not isinstance(spec.identity, Customization.LinuxPrep):
        raise not_supported("the lab customizes with CustomizationLinuxPrep only")
    if not isinstance(spec.identity.hostName, (Customization.FixedName, Customization.VirtualMachineNameGenerator)):
        raise not_supported("the lab knows fixed names and the name of the virtual machine only")
    if len(spec.nicSettingMap) != nics:
        raise vim.fault.NicSettingMismatch(
            numberOfNicsInSpec=len(spec.nicSettingMap),
            numberOfNicsInVM=nics,
            msg=f"The number of network adapters in the specification is not that of the virtual machine, {nics}.",
        )
    if PENDING in mo.extra:
        raise vim.fault.CustomizationPending(msg="A customization operation is already pending.")


def wait_for_power_on(farm: Farm, mo: ManagedObject, spec: Any) -> None:
    """Keep a specification for the next power-on."""
    mo.extra[PENDING] = spec
    mo["config"].tools.pendingCustomization = PACKAGE
    _state(farm, mo, "PENDING")


@changes(vim.VirtualMachine, "CustomizeVM_Task", "VirtualMachine.Provisioning.Customize")
def customize(call: Call, spec: Any) -> Any:
    """Customize the guest of a VM at its next power-on."""
    farm, mo = call.farm, call.mo

    def work(_task: TaskWork) -> None:
        refuse_lost(farm, mo)
        if mo["runtime"].powerState != "poweredOff":
            raise invalid_power_state(mo["runtime"].powerState, "poweredOff")
        check(mo, spec, tools=mo.extra["tools"])
        wait_for_power_on(farm, mo, spec)
        farm.store.touch(mo, "config")
        farm.record(mo, "CustomizeVM_Task")

    return farm.tasks.start(mo, "customize", work)


@reads(vim.VirtualMachine, "CheckCustomizationSpec", "VirtualMachine.Provisioning.Customize")
def check_customization(call: Call, spec: Any) -> None:
    """Refuse what a customization of this VM would be refused for."""
    check(call.mo, spec, tools=call.mo.extra["tools"])


def concerns(mo: ManagedObject) -> bool:
    """Return whether a customization is to be carried out, or was at an earlier boot."""
    return PENDING in mo.extra or DONE in mo.extra


def begin(farm: Farm, mo: ManagedObject) -> None:
    """Start what is pending."""
    if PENDING in mo.extra:
        _state(farm, mo, "RUNNING", startTime=now())
        message = f"Started customization of VM {mo['name']}"
        events.post(farm, mo, vim.event.CustomizationStartedEvent, message, logLocation="")


def carry_out(farm: Farm, mo: ManagedObject) -> tuple[str, dict[str, Any]]:
    """Carry out what is pending, or fail; return the host name and the network of the guest, as a network file."""
    spec = mo.extra.pop(PENDING, None)
    if spec is not None:
        mo["config"].tools.pendingCustomization = None
        why = _failure(mo, spec)
        began = getattr(mo.extra[INFO], "startTime", None)
        if why:
            _state(farm, mo, "FAILED", startTime=began, endTime=now(), errorMsg=why)
            failed = vim.event.CustomizationNetworkSetupFailed
            message = f"An error occurred while setting up network properties of VM {mo['name']}"
            events.post(farm, mo, failed, message, reason=why, logLocation="")
        else:
            name = getattr(spec.identity.hostName, "name", None) or str(mo["name"])
            mo.extra[DONE] = name, _network(farm, mo, spec)
            _state(farm, mo, "SUCCEEDED", startTime=began, endTime=now())
            message = f"Customization of VM {mo['name']} succeeded"
            events.post(farm, mo, vim.event.CustomizationSucceeded, message, logLocation="")
    made: tuple[str, dict[str, Any]] = mo.extra.get(DONE, ("", {}))
    return made


def _failure(mo: ManagedObject, spec: Any) -> str:
    if guest_faults.of(mo, "customization-fails") is not None:
        return "Failed to set up the network of the guest, as a fault of the lab demands."
    return NO_SCRIPTS if spec.identity.scriptText else ""


def _state(farm: Farm, mo: ManagedObject, word: str, **fields: Any) -> None:
    info = vim.vm.GuestInfo.CustomizationInfo(customizationStatus=f"TOOLSDEPLOYPKG_{word}", **fields)
    mo.extra[INFO] = fill(info)
    mo["guest"].customizationInfo = mo.extra[INFO]
    farm.store.touch(mo, "guest", "config")


def _cards(config: Any) -> list[Any]:
    """Return the NICs in the order of their PCI slots, which follows their keys where none is set."""
    cards = [d for d in config.hardware.device if isinstance(d, vim.vm.device.VirtualEthernetCard)]
    return sorted(cards, key=lambda card: (getattr(card.slotInfo, "pciSlotNumber", None) or 0, card.key))


def _network(farm: Farm, mo: ManagedObject, spec: Any) -> dict[str, Any]:
    release = tuple(map(int, farm.scenario.vcenter.version.split(".")[:2]))
    cards = [card.macAddress.lower() for card in _cards(mo["config"])]
    found = {}
    for number, mapping in enumerate(spec.nicSettingMap):
        mac = cards[number]
        if mapping.macAddress and release >= BY_ADDRESS:
            mac = mapping.macAddress.lower().replace("-", ":")
        found[f"nic{number}"] = {"match": {"macaddress": mac}, **_settings(mapping.adapter)}
    return found


def _settings(adapter: Any) -> dict[str, Any]:
    addresses, fixed = [], getattr(adapter.ip, "ipAddress", None)
    if fixed:
        addresses.append(str(ip_interface(f"{fixed}/{adapter.subnetMask or 24}")))
    six = adapter.ipV6Spec
    addresses += [f"{a.ipAddress}/{a.subnetMask}" for a in (six.ip if six else ()) if hasattr(a, "ipAddress")]
    gateways = [*(adapter.gateway or ()), *((six.gateway or ()) if six else ())]
    return {
        "addresses": addresses,
        "dhcp4": isinstance(adapter.ip, Customization.DhcpIpGenerator),
        "routes": [{"to": "default", "via": gateway} for gateway in gateways],
    }
