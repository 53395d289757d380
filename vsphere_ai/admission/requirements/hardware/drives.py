"""Connected drives, ports and USB devices whose medium only the VM's present host has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vsphere_ai.admission.base import MOVES, AdmissionCase, Reason, requirement
from vsphere_ai.admission.requirements.datastores import is_mounted


@requirement(
    "admission.drive",
    "Connected images, remote devices and devices of the host",
    occasions=MOVES,
    source="vSphere Web Services API, CannotAccessVmDevice and DisallowedMigrationDeviceAttached",
    reads={"Datastore": ("name", "host")},
    faults=("CannotAccessVmDevice", "DisallowedMigrationDeviceAttached"),
)
def drives(case: AdmissionCase) -> Iterator[Reason]:
    """A running VM moves only to a host that reaches the file in its connected drive, or behind its connected port.

    The drives are those for CDs and floppies, the ports serial and parallel ones. A device of the host itself, or of a
    client, keeps the VM where it is; so does a serial port over the network without a concentrator (reported in public:
    vmware/vic issues 2202 and 3492). What is not connected does not count. Whether a USB device goes along depends on
    how it was added to the VM, which is not shown: unknown.
    """
    by_name = {s.name: s for s in case.situation.view.estate.of_type("Datastore")} if case.vm.remote else {}
    for label, medium in case.vm.remote:
        matched = re.match(r"\[([^\]]*)\]", medium)
        store = by_name.get(matched[1]) if matched else None
        if matched and (store is None or not store.get("host") or is_mounted(store.ref, case)):
            continue
        message = f"{label} is connected to {medium}"
        if matched:
            message = f"it does not reach the datastore of {medium}, which is in {label}"
        yield case.no(message, f"disconnect {label}", fault="CannotAccessVmDevice")
    if case.vm.usb:
        names = ", ".join(case.vm.usb)
        message = f"whether {names} goes along is not shown: it does if vMotion was enabled when it was added"
        yield case.unknown(message, f"disconnect {names}")
