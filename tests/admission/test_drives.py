"""Connected drives, ports, USB devices and LUNs of a running VM, read as vCenter shows them, before another host."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.admission_farm import HARDWARE, HOST, answer, farm, vm

from vsphere_ai.admission.machine import machine_of
from vsphere_ai.model.facts import Facts

SOURCE = "HostSystem:source"
RULE = "admission.drive"


def device(kind, backing, **fields):
    own = {"_typeName": kind, "key": 9000, "deviceInfo": {"label": "Thing 1"}, **fields}
    return {
        "connectable": {"connected": True},
        **own,
        "backing": {"_typeName": f"{kind}{backing}", **own.pop("of", {})},
    }


def port(backing, kind="VirtualSerialPort", **of):
    return device(kind, backing, of=of)


def told(*devices, occasion="vmotion", **datastores):
    """The answer for a VM with these devices that is to leave its host; `datastores` has the hosts that mount one."""
    moving = Facts("VirtualMachine:new", {"name": "new", "config.hardware.device": devices, "runtime.host": SOURCE})
    made = replace(vm(), remote=(m := machine_of(moving)).remote, usb=m.usb, raw_disks=m.raw_disks)
    stores = [
        Facts(f"Datastore:{name}", {"name": name, "host": tuple({"key": h, "mountInfo": {}} for h in hosts)})
        for name, hosts in datastores.items()
    ]
    situation = farm(objects=(Facts(SOURCE, {**HARDWARE, "name": "source"}), *stores))
    verdict, faults, rules = answer(situation, made, occasion)
    return (verdict if RULE in rules or "admission.datastore" in rules else "yes"), faults


@pytest.mark.parametrize(
    "connected",
    [
        port("DeviceBackingInfo", deviceName="/dev/char/serial/uart0"),
        port("URIBackingInfo", serviceURI="telnet://:7001"),
        port("FileBackingInfo", fileName="[away] vm/serial.log"),
        port("DeviceBackingInfo", "VirtualParallelPort", deviceName="/dev/parport0"),
        port("DeviceBackingInfo", "VirtualFloppy", deviceName="/dev/fd0"),
        port("RemoteDeviceBackingInfo", "VirtualFloppy", deviceName=""),
        port("ImageBackingInfo", "VirtualFloppy", fileName="[away] driver.flp"),
        port("IsoBackingInfo", "VirtualCdrom", fileName="[away] tools.iso"),
        port("AtapiBackingInfo", "VirtualCdrom", deviceName="/dev/cdrom"),
        port("RemotePassthroughBackingInfo", "VirtualCdrom", deviceName=""),
    ],
)
@pytest.mark.parametrize("occasion", ["vmotion", "evacuate"])
def test_what_only_the_source_has_keeps_a_vm(connected, occasion):
    away = {"away": ("HostSystem:other",)}
    assert told(connected, occasion=occasion, **away) == ("no", {"CannotAccessVmDevice"})
    assert told({**connected, "connectable": {"connected": False}}, **away)[0] == "yes"
    assert told(connected, occasion="power_cycle", **away)[0] == "yes"


@pytest.mark.parametrize(
    "connected",
    [
        port("URIBackingInfo", serviceURI="x", proxyURI="telnet://vspc:13370"),
        port("FileBackingInfo", fileName="[shared] vm/serial.log"),
        port("ImageBackingInfo", "VirtualFloppy", fileName="[shared] driver.flp"),
        port("RemoteHostBackingInfo", "VirtualUSB", hostname="esx01"),
    ],
)
def test_what_goes_along_keeps_no_vm(connected):
    assert told(connected, shared=(HOST, SOURCE))[0] == "yes"


def test_a_datastore_that_is_not_accessible_is_not_reached():
    text = port("IsoBackingInfo", "VirtualCdrom", fileName="[isos] tools.iso")
    assert told(text, isos=(HOST,))[0] == "yes"
    moving = vm(remote=(("CD/DVD drive 1", "[isos] tools.iso"),))
    store = Facts("Datastore:isos", {"name": "isos", "host": ({"key": HOST, "mountInfo": {"accessible": False}},)})
    assert answer(farm(objects=(store,)), moving, "vmotion")[:2] == ("no", {"CannotAccessVmDevice"})


@pytest.mark.parametrize("backing", ["USBBackingInfo", "RemoteClientBackingInfo"])
def test_whether_a_usb_device_goes_along_is_not_known(backing):
    assert told(device("VirtualUSB", backing, connected=True))[0] == "unknown"
    assert told(device("VirtualUSB", backing, connected=False, connectable=None))[0] == "yes"


def test_whether_another_host_reaches_a_lun_is_not_known():
    disk = device("VirtualDisk", "", of={"_typeName": "VirtualDiskRawDiskMappingVer1BackingInfo", "lunUuid": "02"})
    assert told(disk)[0] == "unknown"
    assert told(disk, occasion="power_on")[0] == "unknown"
    assert told(disk, occasion="clone")[0] == "yes"
