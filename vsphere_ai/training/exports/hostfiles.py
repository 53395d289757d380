"""Host files of Open MPI and DeepSpeed: a line per node, ``ADDRESS slots=N``, in the order of the ranks.

Source: deepspeedai/DeepSpeed deepspeed/launcher/runner.py, _parse_hostfile; for Open MPI see `openmpi_hosts`.
"""

from __future__ import annotations

import re

from vsphere_ai.training.exports.finding import LineFinding, at_line, by_line
from vsphere_ai.training.exports.openmpi_hosts import HostFile
from vsphere_ai.training.launch import LaunchPlan
from vsphere_ai.training.launchers.mpi import host_file

_DEEPSPEED = re.compile(r"(\S+)\s+slots=(\d+)")
_DOTTED = re.compile(r"\d[^.]*\.(?=.*[A-Za-z])", re.ASCII)
_MPICH = re.compile(r"[^:]+:\d+")


def write(plan: LaunchPlan) -> str:
    """Return the host file."""
    return host_file(plan)


def check(text: str) -> list[LineFinding]:
    """Return the findings of a host file of Open MPI, by the tokens and the grammar of its own reader."""
    host_file = HostFile()
    findings = list(host_file.read(text))
    for host in host_file.hosts:
        if _MPICH.fullmatch(host.name):
            message = f"'{host.name}' is a host of that name here; HOST:N is the form of MPICH"
            findings.append(at_line(host.line, message, "warn"))
        elif host.name.startswith("-"):
            findings.append(at_line(host.line, f"'{host.name}' begins with a hyphen, which no host name does", "warn"))
        elif _DOTTED.match(host.name):
            message = f"'{host.name}' begins with a digit: some releases of Open MPI 4 refuse such a name with dots"
            findings.append(at_line(host.line, message, "warn"))
        if host.slots == 0:
            findings.append(at_line(host.line, "slots=0 starts nothing on this host", "warn"))
    if not host_file.hosts and not host_file.others and not findings:
        return [at_line(0, "no host is listed")]
    return by_line(findings)


def check_deepspeed(text: str) -> list[LineFinding]:
    """Return the findings of a host file of DeepSpeed: slots on every line, and no host twice.

    Its configuration, which is JSON, is another file: no rule here is about one.
    """
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        message = "this is JSON, which DeepSpeed refuses as a host file; its configuration is not looked at"
        return [at_line(1 + text[: text.index("{")].count("\n"), message)]
    findings, seen = [], set()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _DEEPSPEED.match(line)
        if match is None:
            findings.append(at_line(number, f"'{line}' is not HOST slots=N"))
            continue
        if match[1] in seen:
            findings.append(at_line(number, f"the host {match[1]} is listed twice"))
        if not int(match[2]):
            findings.append(at_line(number, "slots=0 starts nothing on this host", "warn"))
        if rest := line[match.end() :].strip():
            findings.append(at_line(number, f"DeepSpeed does not read what follows the slots: '{rest}'", "info"))
        seen.add(match[1])
    return findings if seen or findings else [at_line(0, "no host is listed")]
