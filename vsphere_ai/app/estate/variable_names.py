"""Names of the variables of a playbook, for the Tab key: read without the models of plays."""

from __future__ import annotations

from pathlib import Path

from vsphere_ai.language.yaml_files.yaml import UnreadableText, YamlNode, read
from vsphere_ai.security.files import reading

MOST_BYTES = 1024 * 1024


def variable_names(path: Path) -> tuple[str, ...]:
    """Return the variables that a playbook declares itself; none where it cannot be read."""
    if not path.is_file():
        return ()
    try:
        with reading(path) as file:
            root = read(file.read(MOST_BYTES).decode("utf-8", "ignore"), [])
    except (OSError, ValueError, UnreadableText):
        return ()
    items = root.value if isinstance(root.value, list) else []
    return tuple(name for item in items for name in _declared(item))


def _declared(item: YamlNode) -> tuple[str, ...]:
    declared = item.child("vars") if isinstance(item.value, dict) else None
    if declared is None or not isinstance(declared.value, dict) or {"hosts", "vms", "datacenters"} & item.value.keys():
        return ()
    return tuple(declared.value)
