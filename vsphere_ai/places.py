"""Where this tool keeps what it has to remember between two commands."""

from __future__ import annotations

import os
from pathlib import Path


def state_dir() -> Path:
    """Return the folder of journals, locks and runs: ``$VSPHERE_AI_STATE_DIR``, else the user's state folder."""
    given = os.environ.get("VSPHERE_AI_STATE_DIR")
    if given:
        return Path(given).expanduser().absolute()
    from platformdirs import user_state_path

    return user_state_path("vsphere-ai")


def lab_dir() -> Path:
    """Return the folder of the running lab: ``$VSPHERE_AI_LAB_DIR``, else ``lab`` below the state folder."""
    given = os.environ.get("VSPHERE_AI_LAB_DIR")
    return Path(given).expanduser().absolute() if given else state_dir() / "lab"
