"""Screens of the tool beside their golden files."""

from __future__ import annotations

import difflib
import os
import re
import shlex

from support.places import ROOT
from support.steady import steady

GOLDEN = ROOT / "tests" / "e2e" / "golden"
STEPS = re.compile(r"\A.*^12:00:00 [^\n]*\n", re.MULTILINE | re.DOTALL)
CONNECTED = {"plan", "check", "doctor", "capacity", "show", "rdma", "apply", "verify", "trust"}


def compare(name, text):
    """Compare a text with `tests/e2e/golden/NAME.txt`; write it there with UPDATE_GOLDEN=1."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, "utf-8")
    expected = path.read_text("utf-8") if path.exists() else ""
    lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(path), "printed", lineterm="")
    assert text == expected, "\n".join(["UPDATE_GOLDEN=1 writes it anew", *lines])


def printed(cli, folders):
    """Return what a command printed, without what differs from run to run."""
    parts = [cli.out.rstrip("\n"), *(["--- standard error", cli.err.rstrip("\n")] * bool(cli.err))]
    return "".join(f"{line}\n" for line in steady("\n".join(filter(None, parts)), folders))


def ended(cli, folders):
    """Return what a command printed after the steps of a run, whose order differs; all of it when there were none."""
    return STEPS.sub("...\n", printed(cli, folders))


class Screens:
    """Runs commands and compares what they print."""

    def __init__(self, cli, monkeypatch, folders):
        self.cli, self.monkeypatch, self.folders = cli, monkeypatch, folders

    def both(self, name, command, code):
        """Compare a screen at 80 and at 120 columns; where both are the same, it is kept once."""
        self._compare(name, command, code, (80, 120))

    def one(self, name, command, code):
        """Compare the screen of a command that changes something: at 80 columns only."""
        self._compare(name, command, code, (80,))

    def end(self, name, command, code):
        """Compare what follows the steps of a run, whose order differs."""
        self._compare(name, command, code, (80,), ended)

    def _compare(self, name, command, code, widths, part=printed):
        found = {}
        words = shlex.split(command)
        given = (
            [*words, "-i", "inventories/lab.yml"] if words[0] in CONNECTED or words[:2] == ["run", "unlock"] else words
        )
        for width in widths:
            self.monkeypatch.setenv("COLUMNS", str(width))
            assert self.cli(*given) == code, self.cli.out + self.cli.err
            found.setdefault(part(self.cli, self.folders), []).append(str(width))
        (title,) = steady(f"$ vsphere-ai {command}    (exit code {code}, COLUMNS columns)")
        compare(name, "\n".join(f"{title}\n{t}".replace("COLUMNS", " and ".join(c), 1) for t, c in found.items()))
