"""Where the project's own example files are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PLAYBOOKS = ROOT / "playbooks"
INVENTORY = ROOT / "inventories" / "lab.yml"
SET_PLAYBOOKS = [PLAYBOOKS / f"{name}.yml" for name in ("training-set", "vm-set", "hand-over", "prepared-guests")]
"""Playbooks for the scenario `training`; all others are for the default one."""
