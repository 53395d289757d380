"""Host files of Open MPI and DeepSpeed: a line per node, ``ADDRESS slots=N``, in the order of the ranks.

Sources: open-mpi/ompi orte/util/hostfile/hostfile_lex.l and openpmix/prrte src/util/hostfile/hostfile_lex.l (Open MPI 4
and 5); deepspeedai/DeepSpeed deepspeed/launcher/runner.py, _parse_hostfile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vsphere_ai.training.exports.finding import LineFinding, at_line
from vsphere_ai.training.launch import LaunchPlan
from vsphere_ai.training.launchers.mpi import host_file

_DEEPSPEED = re.compile(r"(\S+)\s+slots=(\d+)")
_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*|#[^\n]*", re.DOTALL)
_HOST = re.compile(r"\^?(?:[\w.+-]+@)?([\w,:*-][\w.,:*-]*)", re.ASCII)
_DOTTED = re.compile(r"\d[^.]*\.(?=.*[A-Za-z])", re.ASCII)
_MPICH = re.compile(r"[^:]+:\d+")
_OPTION = re.compile(r"([\w-]+)[ \t\f]*=[ \t\f]*(\S+)", re.ASCII)
_SLOTS = {"slots", "count", "cpu"}
_MOST = {f"{a}{sign}{b}" for a in ("slots", "cpus", "cpu", "count") for sign in "-_" for b in ("max",)}
_MOST |= {f"max{sign}{b}" for sign in "-_" for b in ("slots", "cpus", "cpu", "count")}
_COUNTS = {"boards", "sockets", "cores", "port"} | {
    f"{name}{sign}per{sign}{of}" for name, of in (("sockets", "board"), ("cores", "socket")) for sign in "-_"
}
_WORDS = {"username", "user-name", "user_name", "cpu_set", "cpu-set"}
_ONE_VERSION = {"port": "Open MPI 5", "cpu_set": "Open MPI 4", "cpu-set": "Open MPI 4"}
KEYS = "slots=N, max_slots=N"


def write(plan: LaunchPlan) -> str:
    """Return the host file."""
    return host_file(plan)


def check(text: str) -> list[LineFinding]:
    """Return the findings of a host file of Open MPI. A host may be listed again: its slots are added."""
    bare = _COMMENTS.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    lines = [(number, line.strip()) for number, line in enumerate(bare.splitlines(), 1) if line.strip()]
    findings = [finding for number, line in lines for finding in _line(number, line)]
    return findings if lines else [at_line(0, "no host is listed")]


def _line(number: int, line: str) -> Iterator[LineFinding]:
    host, _, rest = re.sub(r"[ \t\f]+", " ", line).partition(" ")
    if host == "rank":
        yield at_line(number, "a line of a rank file: not looked at", "info")
        return
    if host.startswith("+"):
        yield at_line(number, f"'{host}' is relative to an allocation, and refused in a plain host file")
    elif not (name := _HOST.fullmatch(host)):
        yield at_line(number, f"'{host}' is no host")
    elif _MPICH.fullmatch(name[1]):
        yield at_line(number, f"'{host}' is a host of that name here; HOST:N is the form of MPICH", "warn")
    elif name[1].startswith("-"):
        yield at_line(number, f"'{host}' begins with a hyphen, which no host name does", "warn")
    elif _DOTTED.match(name[1]):
        yield at_line(number, f"'{host}' begins with a digit: Open MPI 4 refuses such a name with dots", "warn")
    yield from _options(number, rest)


def _options(number: int, rest: str) -> Iterator[LineFinding]:
    left = _OPTION.sub("", rest).strip()
    if left:
        yield at_line(number, f"'{left}' is none of {KEYS}")
    slots, most = 0, None
    for name, value in _OPTION.findall(rest):
        if name in _ONE_VERSION:
            yield at_line(number, f"only {_ONE_VERSION[name]} has {name}=, other versions refuse it", "warn")
        if name in _WORDS:
            continue
        if name not in _SLOTS | _MOST | _COUNTS:
            yield at_line(number, f"'{name}={value}' is none of {KEYS}")
        elif not re.fullmatch(r"\d{1,9}", value, re.ASCII):
            yield at_line(number, f"'{value}' of {name} is no number")
        elif name in _SLOTS:
            slots += int(value)
            if not int(value):
                yield at_line(number, f"{name}=0 starts nothing on this host", "warn")
        elif name in _MOST:
            most = int(value)
    if most is not None and most < slots:
        yield at_line(number, "max_slots is less than slots")


def check_deepspeed(text: str) -> list[LineFinding]:
    """Return the findings of a host file of DeepSpeed: slots on every line, and no host twice."""
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
