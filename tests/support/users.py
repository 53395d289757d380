"""A new user at a terminal: types only what the README, a help page or a screen has shown."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from support import prefork
from support.gates import LONG, busy
from support.places import ROOT

MOST_COMMANDS, MOST_SECONDS = 5, 120.0
PROGRAM = "vsphere-ai"
WORD = re.compile(r"--[a-z][a-z-]*")


class User:
    """Works in a folder of their own, with the example playbooks; `seen` is all that was read so far.

    `types` checks that a command, and each option of it, was seen before: in the README, in `--help` of the command
    line, in a page that the task names, or on a screen. Help of a command costs no command: people ask for it.
    """

    def __init__(self, folder, lab=None, *pages, program=None):
        self.folder, self.commands, self.begun = folder, [], time.monotonic()
        folder.mkdir(exist_ok=True)
        self.program = program  # another one than that of these tests
        for part in () if program else ("playbooks", "inventories"):
            shutil.copytree(ROOT / part, folder / part)
        (folder / ".git").mkdir()
        self.environment = {
            **os.environ, "COLUMNS": "100", "VSPHERE_AI_STATE_DIR": str(folder / "state"), "NO_COLOR": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }  # fmt: skip
        if lab is not None:
            self.environment["VSPHERE_AI_LAB_DIR"] = str(lab.directory)
        self.seen = (ROOT / "README.md").read_text("utf-8")
        self.screen = ""
        for page in pages:
            self.reads(page)
        self._run([PROGRAM, "--help"])

    def reads(self, page):
        """Read a page of the documentation, as `vsphere-ai explain` and the site show it."""
        self.seen += (ROOT / page).read_text("utf-8")

    def reads_own(self, name):
        """Read a file in the folder."""
        self.seen += (self.folder / name).read_text("utf-8")

    def writes(self, name, text):
        """Write a file with an editor."""
        (self.folder / name).write_text(text, "utf-8")

    def asks_for_help(self, *command):
        """Read the help of a command."""
        self._run([PROGRAM, *command, "--help"])

    def types(self, line, *, ends=0, typing=None):
        """Type a command; return what the screen shows. It ends with this exit code; None: with any."""
        words = shlex.split(line)
        self.commands.append(line)
        assert len(self.commands) <= MOST_COMMANDS, f"more than {MOST_COMMANDS} commands: {self.commands}"
        self._seen_before(words, line)
        code, output = self._run(words, typing)
        assert ends in (code, None), f"{line} ended with {code}, not {ends}:\n{output}"
        took = time.monotonic() - self.begun
        assert took < MOST_SECONDS * busy(), f"{took:.0f} s after the beginning"
        return output

    def watches(self, line, until):
        """Type a command that goes on; press Ctrl-C once this text is there; return what the screen showed."""
        words = shlex.split(line)
        self.commands.append(line)
        assert len(self.commands) <= MOST_COMMANDS, f"more than {MOST_COMMANDS} commands: {self.commands}"
        self._seen_before(words, line)
        argv = [sys.executable, "-u", "-m", "vsphere_ai", *words[1:]]
        process = subprocess.Popen(
            argv, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        timer = threading.Timer(LONG / 2, process.kill)
        timer.start()
        shown = ""
        for printed in process.stdout:
            shown += printed
            if until in printed:
                process.send_signal(signal.SIGINT)
        timer.cancel()
        assert process.wait(LONG) == 130, shown
        self.screen = shown
        self.seen += shown
        return shown

    def _seen_before(self, words, line):
        if words[0] == PROGRAM:
            assert re.search(rf"\b{re.escape(words[1])}\b", self.seen), f"{words[1]}: not shown anywhere yet"
        else:
            assert words[0] in self.seen, f"{words[0]}: not shown anywhere yet"
        for option in WORD.findall(line):
            assert option in self.seen, f"{option} of '{line}' was not shown anywhere yet"

    def _run(self, words, typing=None):
        if words[0] == PROGRAM and self.program:
            argv, run = [str(self.program), *words[1:]], subprocess.run
        elif words[0] == PROGRAM and typing is None:
            argv, run = [sys.executable, "-m", "vsphere_ai", *words[1:]], prefork.run
        else:
            argv, run = words, subprocess.run
        more = {"input": typing} if typing is not None else {}
        done = run(
            argv, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=LONG, **more,
        )  # fmt: skip
        self.screen = done.stdout
        self.seen += done.stdout
        return done.returncode, done.stdout
