"""Target of the device changes of one ConfigSpec: a copy of a VM's configuration, and where the VM is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.store import ManagedObject


@dataclass
class DeviceChange:
    """A copy of a VM's configuration that devices are added to, edited in and removed from."""

    farm: Farm
    vm: ManagedObject
    host: ManagedObject
    config: Any
    powered_on: bool
    new_keys: dict[int, int] = field(default_factory=dict)
    """The keys new devices got, by the negative ones the specification calls them by."""

    @property
    def hardware(self) -> int:
        """The VM's hardware version number."""
        return int(self.config.version.removeprefix("vmx-"))
