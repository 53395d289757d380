"""Files of reports, and what they are of: a saved plan or a certificate from its file, or the record of a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.errors import UsageError
from vsphere_ai.language.document import require
from vsphere_ai.planning.document import SavedPlan, is_saved, open_saved
from vsphere_ai.runs.journal import is_named

if TYPE_CHECKING:
    from vsphere_ai.health.certificate import Certificate
    from vsphere_ai.runs.journal import Journal


def report_source(what: str) -> SavedPlan | Journal | Certificate:
    """Return a saved plan, the record of a run, or a certificate. Asks no vCenter.

    `UsageError` where it is none of these; `Conflict` for a plan that was edited.
    """
    path = Path(what)
    if not path.exists() and is_named(what):
        from vsphere_ai.runs.journal import open_run

        return open_run(what)
    require(path, "plan or certificate")
    text = path.read_text(encoding="utf-8", errors="replace")
    if is_saved(text):
        return open_saved(text, what)
    from vsphere_ai.health.certificate import opened

    try:
        return opened(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{what} is neither a saved plan nor a certificate: {error}",
            "give the name of a run, or a file that `plan -o` or `accept -o` wrote",
            rule="usage.report",
        ) from None


def save_report(path: Path, text: str) -> None:
    """Write a report to a file that only its owner can read, in the place of an earlier one."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UsageError(f"{path} is no ordinary file", "give another file with -o", rule="usage.report")
    new = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
