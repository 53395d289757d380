"""Where the project's own example files are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PLAYBOOKS = ROOT / "playbooks"
INVENTORY = ROOT / "inventories" / "lab.yml"
SET_PLAYBOOKS = [PLAYBOOKS / "training-set.yml", PLAYBOOKS / "vm-set.yml"]
"""Playbooks for the scenario `training`; all others are for the default one."""
