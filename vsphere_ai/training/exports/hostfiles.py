"""Host files of Open MPI and DeepSpeed: a line per node, ``ADDRESS slots=N``, in the order of the ranks.

Sources: Open MPI, mpirun(1), "Specifying Host Nodes"; DeepSpeed, launcher/runner.py, fetch_hostfile.
"""

from __future__ import annotations

import re

from vsphere_ai.training.exports.finding import Finding, lines_of
from vsphere_ai.training.launch import Plan
from vsphere_ai.training.launchers.mpi import host_file

_DEEPSPEED = re.compile(r"(\S+)\s+slots=(\d+)")
_OPTION = re.compile(r"(slots|max_slots|max-slots)\s*=\s*(\d+)")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]*")


def write(plan: Plan) -> str:
    """Return the host file."""
    return host_file(plan)


def check(text: str) -> list[Finding]:
    """Return what stands against a host file of Open MPI. A host may be listed again: its slots are added."""
    found = []
    for number, line in lines_of(text):
        host, _, rest = line.partition(" ")
        if not _HOST.fullmatch(host):
            found.append(Finding(number, f"'{host}' is no host"))
        left = _OPTION.sub("", rest).strip()
        if left:
            found.append(Finding(number, f"'{left}' is none of slots=N, max_slots=N"))
        options = {name.replace("-", "_"): int(value) for name, value in _OPTION.findall(rest)}
        if options.get("slots") == 0:
            found.append(Finding(number, "slots=0 starts nothing on this host"))
        if options.get("max_slots", 1 << 30) < options.get("slots", 0):
            found.append(Finding(number, "max_slots is less than slots"))
    return found or _empty(text)


def check_deepspeed(text: str) -> list[Finding]:
    """Return what stands against a host file of DeepSpeed: every line has slots, and no host is there twice."""
    found, seen = [], set()
    for number, line in lines_of(text):
        match = _DEEPSPEED.fullmatch(line)
        if match is None:
            found.append(Finding(number, f"'{line}' is not HOST slots=N"))
            continue
        if match[1] in seen:
            found.append(Finding(number, f"the host {match[1]} is listed twice"))
        if match[2] == "0":
            found.append(Finding(number, "slots=0 starts nothing on this host"))
        seen.add(match[1])
    return found or _empty(text)


def _empty(text: str) -> list[Finding]:
    return [] if lines_of(text) else [Finding(0, "no host is listed")]
