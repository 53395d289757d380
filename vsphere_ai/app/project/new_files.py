"""New files: written whole, all of them or none, for their owner only, and never in the place of one that is there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from vsphere_ai.errors import UsageError
from vsphere_ai.security.files import draft, make_private_folder, not_written


def require_absent(paths: Iterable[Path], hint: str = "choose another name, or remove the file") -> None:
    """Refuse, before anything is asked or read, to write where something is already."""
    for path in paths:
        if os.path.lexists(path):
            raise UsageError(f"{path} is there already", hint, rule="usage.not-overwritten")


def write_new(texts: Mapping[Path, str]) -> None:
    """Write files that are not there yet: all of them, or none where one fails or the command is stopped.

    Folders that are missing are made. `UsageError` where a file is there, or cannot be written.
    """
    with ExitStack() as undo, ExitStack() as temporary:
        drafts = {}
        try:
            for folder in {path.parent for path in texts}:
                make_private_folder(folder)
            for path, text in texts.items():
                made = drafts[path] = draft(path, text.encode())
                temporary.callback(made.unlink, missing_ok=True)
            for path, made in drafts.items():
                os.link(made, path)  # unlike a rename, it replaces no file
                undo.callback(path.unlink, missing_ok=True)
        except FileExistsError as error:
            raise UsageError(
                f"{error.filename2 or error.filename} is there already",
                "choose another name, or remove the file",
                rule="usage.not-overwritten",
            ) from None
        except OSError as error:
            raise not_written(Path(error.filename or path), error) from None
        undo.pop_all()
