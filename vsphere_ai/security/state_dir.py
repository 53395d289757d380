"""State folder of this tool: journals, locks and runs, kept between two commands."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from vsphere_ai.errors import Storage


def state_dir() -> Path:
    """Return the folder of journals, locks and runs: ``$VSPHERE_AI_STATE_DIR``, else the user's state folder."""
    given = os.environ.get("VSPHERE_AI_STATE_DIR")
    if given:
        return Path(given).expanduser().absolute()
    from platformdirs import user_state_path

    return user_state_path("vsphere-ai")


CONFIGURATION = "VSPHERE_AI_CONFIG"
"""An environment variable: the configuration file of the user."""


def configuration_file() -> Path | None:
    """Return the file of ``VSPHERE_AI_CONFIG``, else ``vsphere-ai/config.yml`` in the user's folder, if it is there.

    That folder is ``$XDG_CONFIG_HOME``, else ``~/.config`` (XDG Base Directory Specification 0.8). An empty variable
    means that no file is read.
    """
    named = os.environ.get(CONFIGURATION)
    if named is not None:
        return Path(named) if named else None
    path = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "vsphere-ai" / "config.yml"
    return path if path.is_file() else None


def lab_dir() -> Path:
    """Return the folder of the running lab: ``$VSPHERE_AI_LAB_DIR``, else ``lab`` below the state folder."""
    given = os.environ.get("VSPHERE_AI_LAB_DIR")
    return Path(given).expanduser().absolute() if given else state_dir() / "lab"


def own_state_dir() -> Path:
    """Return the state folder, made 0700 when it is missing; `Storage` when others may put something else there."""
    folder = state_dir()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Storage(f"{folder.parent}: {error.strerror}", OWN) from error
    # what is in it is closed to others anyway: they may see its names
    return _own(folder, 0o022, "that only you can write to", f"chmod go-w {folder}")


def own_folder(name: str) -> Path:
    """Return a folder of the state folder, made 0700; `Storage` when it or the state folder is not ours alone."""
    folder = own_state_dir() / name
    return _own(folder, 0o077, "that only you can use", f"chmod 700 {folder}")


def private_folder(folder: Path) -> Path:
    """Return a folder that was named, made 0700 when it is missing; `Storage` when it is not this user's alone."""
    return _own(folder, 0o077, "that only you can use", f"chmod 700 {folder}", "give another folder")


OWN = "give a folder of your own in VSPHERE_AI_STATE_DIR"


def _own(folder: Path, forbidden: int, words: str, remedy: str, other: str = OWN) -> Path:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError as error:
        raise Storage(f"{folder}: {error.strerror}", other) from error
    if stat.S_ISLNK(found.st_mode):
        raise Storage(f"{folder} is a link, which may lead elsewhere tomorrow", other, rule="journal.folder")
    if found.st_uid != os.getuid():
        raise Storage(f"{folder} belongs to another user (user {found.st_uid})", other, rule="journal.folder")
    if found.st_mode & forbidden:
        raise Storage(f"{folder} is not a folder {words}", f"{remedy}, or {other}", rule="journal.folder")
    return folder


def file_name(text: str) -> str:
    """Return a text from outside, such as the instance UUID of a vCenter, as the name of a file."""
    return "".join(c for c in text if c.isalnum() or c == "-") or "unknown"
