"""New files: written whole and all of them or none, and never in the place of one that is there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from vsphere_ai.errors import UsageError

MODE = 0o644
"""What is written here holds no secret, and others may read it."""


def require_absent(paths: Iterable[Path], hint: str = "choose another name, or remove the file") -> None:
    """Refuse, before anything is asked or read, to write where something is already."""
    for path in paths:
        if os.path.lexists(path):
            raise UsageError(f"{path} is there already", hint, rule="usage.not-overwritten")


def write_new(texts: Mapping[Path, str]) -> None:
    """Write files that are not there yet: all of them, or none where one fails or the command is stopped.

    `UsageError` where one is there, `OSError` where it cannot be written.
    """
    with ExitStack() as undo, ExitStack() as temporary:
        drafts = {}
        try:
            for path, text in texts.items():
                drafts[path] = draft = path.with_name(f".{path.name}.{os.getpid()}")
                temporary.callback(draft.unlink, missing_ok=True)
                with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "w", encoding="utf-8") as to:
                    os.fchmod(to.fileno(), MODE)
                    to.write(text)
                    to.flush()
                    os.fsync(to.fileno())
            for path, draft in drafts.items():
                os.link(draft, path)  # unlike a rename, it replaces no file
                undo.callback(path.unlink, missing_ok=True)
        except FileExistsError as error:
            raise UsageError(
                f"{error.filename2 or error.filename} is there already",
                "choose another name, or remove the file",
                rule="usage.not-overwritten",
            ) from None
        undo.pop_all()
