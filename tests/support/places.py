"""Where the project's own example files are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PLAYBOOKS = ROOT / "playbooks"
INVENTORY = ROOT / "inventories" / "lab.yml"
