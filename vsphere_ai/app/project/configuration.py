"""Configuration file of the user: whether it can be trusted, and its default values for options."""

from __future__ import annotations

import os
from pathlib import Path

from vsphere_ai.errors import UsageError
from vsphere_ai.language.configuration import Configuration, Converter, Known, load_configuration
from vsphere_ai.language.inventories.inventory import configure_inventory
from vsphere_ai.language.yaml_files.document import require
from vsphere_ai.security.file_ownership import gap
from vsphere_ai.security.state_dir import CONFIGURATION, configuration_file

__all__ = ["Configuration", "Converter", "Known"]


def read_configuration(path: Path, known: Known) -> Configuration:
    """Return the defaults of a file; `UsageError` where it is not there, or was not named and others may write it.

    It names an inventory, and so which programs are run. `InputError` with every fault of the file.
    """
    require(path, "configuration file")
    unsafe = None if os.environ.get(CONFIGURATION) else gap(path)
    if unsafe is not None:
        raise UsageError(
            f"the configuration file {path} was not named, and {unsafe.path} {unsafe.why}",
            f"if it is the right one: {CONFIGURATION}={path}",
            rule="configuration.unsafe",
        )
    return load_configuration(path, known)


def use_inventory(path: Path | None) -> None:
    """Let `find_inventory` take the inventory that the configuration file names; None: it names none."""
    configure_inventory(path, str(configuration_file() or ""))
