"""Carry out a page: its files are written into a folder of its own, its commands run there, and the lab ends with it.

``python -m tools.story docs/story.md`` is what `make story` does. The lab and its state are in a folder of their own,
beside a lab that runs already. The exit code is 1 as soon as a command ends with another code than the
page says.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from tools.page_blocks import Block, blocks

ROOT = Path(__file__).parents[1]
STATE = "~/.local/state/vsphere-ai"
TOOL = "vsphere-ai"


def argv_of(line: str, state: Path) -> list[str]:
    """Return the words of a command, with the state folder of this run in the place of a user's."""
    words = [word.replace(STATE, str(state)) for word in shlex.split(line)]
    return [sys.executable, "-m", "vsphere_ai", *words[1:]] if words[0] == TOOL else words


def carry_out(block: Block, folder: Path, state: Path, environment: Mapping[str, str]) -> bool:
    """Run the commands of a block; return whether each ended as the page says."""
    commands = block.commands
    for command in commands:
        print(f"\n\033[1m$ {command.line}\033[0m" if sys.stdout.isatty() else f"\n$ {command.line}", flush=True)
        done = subprocess.run(argv_of(command.line, state), cwd=folder, env=environment, check=False)  # noqa: S603 - our page
        wanted = block.exit_code if command is commands[-1] else 0
        if done.returncode != wanted:
            print(f"story: {command.line} ended with {done.returncode}, and not with {wanted}", file=sys.stderr)
            return False
    return True


def main(page: Path) -> int:
    """Carry out a page; return the exit code."""
    signal.signal(signal.SIGTERM, _stopped)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-story-") as made:
        folder, state = Path(made) / "project", Path(made) / "state"
        for part in ("playbooks", "inventories"):
            shutil.copytree(ROOT / part, folder / part)
        environment = {k: v for k, v in os.environ.items() if k != "VSPHERE_AI_LAB_DIR"}
        environment |= {"VSPHERE_AI_STATE_DIR": str(state), "PYTHONPATH": str(ROOT)}
        try:
            for block in blocks(page):
                if block.file_name:
                    (folder / block.file_name).write_text(block.body, encoding="utf-8")
                if block.runs and not carry_out(block, folder, state, environment):
                    return 1
        finally:
            down = [sys.executable, "-m", "vsphere_ai", "lab", "down"]
            subprocess.run(down, cwd=folder, env=environment, check=False, stdout=subprocess.DEVNULL)  # noqa: S603 - our tool
    print(f"\n{page.name}: carried out in {time.monotonic() - began:.0f} s")
    return 0


def _stopped(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
