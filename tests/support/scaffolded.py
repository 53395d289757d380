"""A copy of the repository in which the scaffolds `tools/new_*.py` have made something, and how to run Python there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from support.gates import LONG
from support.places import ROOT
from tools import new_command, new_kind, new_lab_manager, new_requirement, new_rule

COPIED = (
    "vsphere_ai",
    "tools",
    "tests",
    "docs",
    "playbooks",
    "inventories",
    "integrations",
    "bench",
    "changes",
    "k8s",
    ".mypy_cache",
)
SCAFFOLDS = {
    s.SCAFFOLD.program: s.SCAFFOLD for s in (new_kind, new_rule, new_requirement, new_command, new_lab_manager)
}
NAMES = {
    "new_kind": "example_option",
    "new_rule": "example_state",
    "new_requirement": "example_limit",
    "new_command": "example_list",
    "new_lab_manager": re.sub(
        "(?=[A-Z])", "_", min(new_lab_manager.missing(), key=lambda f: f != "snmpSystem")
    ).lower(),
}
"""What each makes here. A manager is one that the lab has not, if possible one with a method that sets a property."""


class Copy:
    """A copy of the repository in a folder."""

    def __init__(self, folder):
        self.folder = folder
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy2(path, folder)
            elif path.name in COPIED:
                ignored = shutil.ignore_patterns("__pycache__", "cassettes")
                shutil.copytree(path, folder / path.name, symlinks=True, ignore=ignored)

    def python(self, *words, seconds=20 * LONG):
        """Run a module of Python in the copy; return the finished process."""
        places = {"PYTHONPATH": str(self.folder), "VSPHERE_AI_LAB_DIR": "", "PYTEST_ADDOPTS": "", "RELIABILITY": ""}
        command, env = [sys.executable, "-m", *words], {**os.environ, **places}
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=seconds)

    def make(self, program):
        """Let a scaffold write its files; return their paths."""
        done = self.python(f"tools.{program}", NAMES[program])
        assert done.returncode == 0, done.stdout + done.stderr
        return list(SCAFFOLDS[program].made(NAMES[program]))
