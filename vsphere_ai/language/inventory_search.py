"""Search for the inventory: the one that was named, else the project's, else that of the running lab."""

from __future__ import annotations

from pathlib import Path

from vsphere_ai.errors import UsageError
from vsphere_ai.language.document import require
from vsphere_ai.language.inventory import Inventory, load_inventory, running_lab
from vsphere_ai.security.file_ownership import gap

PROJECT_INVENTORY = "vsphere-ai.yaml"


def find_inventory(given: Path | None) -> Inventory:
    """Load the given inventory, else the project's `vsphere-ai.yaml`, else that of the running lab."""
    if given is not None:
        require(given, "inventory")
        return load_inventory(given)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / PROJECT_INVENTORY).is_file():
            _require_own(folder / PROJECT_INVENTORY)
            return load_inventory(folder / PROJECT_INVENTORY)
        if (folder / ".git").exists():
            break
    try:
        return load_inventory(running_lab())
    except UsageError as error:
        raise UsageError(
            f"no inventory: give one with -i, or write {PROJECT_INVENTORY}, or start the lab",
            "vsphere-ai lab up starts the embedded farm",
            rule="inventory.none",
        ) from error


def _require_own(found: Path) -> None:
    """Refuse an inventory that was found, not named, and that others may have put there.

    It says which programs are run, which files are read for passwords, and where they are sent.
    """
    unsafe = gap(found)
    if unsafe is not None:
        raise UsageError(
            f"the inventory {found} was not named, and {unsafe.path} {unsafe.why}",
            f"if it is the right one: -i {found}",
            rule="inventory.unsafe",
        )
