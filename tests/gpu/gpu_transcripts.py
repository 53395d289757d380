"""Reads the transcripts in fixtures/: command, output, exit status."""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "fixtures"
FILES = sorted(FOLDER.glob("*.txt"))


@dataclass(frozen=True)
class Call:
    file: str
    argv: str
    stdout: str
    status: int

    def __str__(self):
        return f"{self.file}: {self.argv}"


def calls(path):
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
    found = []
    for block in re.split(r"(?m)^\$ ", text)[1:]:
        argv, _, rest = block.partition("\n")
        status = re.search(r"\[exit code (\d+)\]", rest)
        stdout = re.sub(r"(?m)^\[exit code \d+\]\n*", "", rest)
        found.append(Call(path.name, argv.strip(), stdout, int(status[1]) if status else 0))
    return found


def listings(option):
    """Every call of `nvidia-smi mig ... <option>` that only lists."""
    every = [c for path in FILES for c in calls(path)]
    # In "mig -lgi -i 0 -cgi 19" nvidia-smi creates; that is no listing.
    return [c for c in every if re.search(rf"mig .*{option}( |$)", f"{c.argv} ") and "-cgi" not in c.argv]
