"""Connected drives whose medium only the VM's present host has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vsphere_ai.admission.base import MOVES, AdmissionCase, Reason, requirement


@requirement(
    "admission.drive",
    "Connected ISO images and remote devices",
    occasions=MOVES,
    source="vSphere Web Services API, CannotAccessVmDevice and DisallowedMigrationDeviceAttached",
    reads={"Datastore": ("name", "host")},
    faults=("CannotAccessVmDevice", "DisallowedMigrationDeviceAttached"),
)
def drives(case: AdmissionCase) -> Iterator[Reason]:
    """A running VM moves only to a host that reaches the image in its connected drive.

    A drive of the host itself, or of a client, keeps it where it is. Disconnected drives do not count.
    """
    by_name = {s.name: s for s in case.situation.view.estate.of_type("Datastore")}
    for label, medium in case.vm.remote:
        matched = re.match(r"\[([^\]]*)\]", medium)
        store = by_name.get(matched[1]) if matched else None
        if matched and store is not None:
            mounts = store.get("host") or ()
            if any(m.get("key") == case.host.ref for m in mounts) or not mounts:
                continue
            message = f"it does not reach the datastore of {medium}, which is in {label}"
        elif matched:
            continue
        else:
            message = f"{label} is connected to {medium or 'a medium of the host'}"
        yield case.no(message, "disconnect the drive", fault="CannotAccessVmDevice")
