"""Plan files: a saved plan replaces only an older one, and only its owner can read it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from vsphere_ai.app.plan_playbook import PlanResult
from vsphere_ai.errors import UsageError
from vsphere_ai.planning.document import dumps, is_saved


def require_replaceable(path: Path) -> None:
    """Refuse to put a plan in place of anything but an older plan: `plan X -o X` would delete the playbook."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISREG(mode) and is_saved(path.read_text(encoding="utf-8", errors="replace")):
        return
    raise UsageError(
        f"{path} exists and is not a saved plan; it is not overwritten",
        "give another name with -o, or remove it first",
        rule="usage.not-overwritten",
    )


def save_plan(result: PlanResult, path: Path) -> None:
    """Write a plan to a file that only its owner can read: it names hosts, VMs and networks."""
    require_replaceable(path)  # something else may have been written there since
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(dumps(result.saved()) + "\n")
