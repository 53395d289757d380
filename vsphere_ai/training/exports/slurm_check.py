"""Files of Slurm read back as Slurm reads them: slurm.conf, gres.conf, topology.conf, one or more below ``### FILE``.

Sources: SchedMD/slurm src/common/parse_config.c (one parser of lines for all files), read_config.c, gres.c and
src/plugins/topology/tree; each rule was tried with scontrol, slurmd -G and slurmctld of Slurm 22.05. Keys that no rule
here is about are named and not judged: Slurm has some 200 of them, and a later release has more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from vsphere_ai.model.dated_table import dated_table
from vsphere_ai.model.finding import Verdict
from vsphere_ai.model.names.c_number import c_number
from vsphere_ai.training.exports.finding import LineFinding, at_line, by_line, not_looked_at
from vsphere_ai.training.exports.slurm_hostlist import expanded

FILE = "### "
_PAIR = re.compile(r'([A-Za-z0-9_.]+)\s*[-*+/]?=\s*("[^"]*"(?=\s|$)|\S+)(?=\s|$)')
_COMMENT = re.compile(r"(?<!\\)(?:\\\\)*#")
_COUNT = re.compile(r"(\d{1,12})([KMGT]?)", re.ASCII | re.IGNORECASE)
_TABLE = dated_table("training/exports/slurm.yaml").values
_NODE, _GRES, _SWITCH, _SINGLE = (frozenset(_TABLE[kind]) for kind in ("node", "gres", "switch", "single"))
"""Keys of lines; those of slurm.conf that stand alone in a line are the usual ones, and most need no rule."""
_LINES = frozenset(("nodename", "partitionname", "nodeset", "downnodes", "frontendname"))
"""Keys of slurm.conf that begin a line of several keys."""
_STATES, _PARTITION_STATES, _AUTODETECT = (
    frozenset(_TABLE[kind]) for kind in ("node_states", "partition_states", "autodetect")
)
_BOOLEANS = frozenset(("yes", "no", "up", "down", "true", "false", "1", "0"))
_TIME = re.compile(r"-1|infinite|unlimited|\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}", re.ASCII | re.IGNORECASE)
_NUMBERS = ("Boards", "Sockets", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore", "CPUs", "RealMemory")


@dataclass
class _SlurmFiles:
    """What the files define and refer to; names by the line on which they stand."""

    nodes: dict[str, tuple[int, str]] = field(default_factory=dict)  # node -> line and its Gres
    sets: set[str] = field(default_factory=set)
    partitions: dict[str, int] = field(default_factory=dict)
    default_gres: str = ""
    gres_types: set[str] = field(default_factory=set)
    is_whole: bool = False
    gres_lines: list[tuple[int, tuple[str, ...], str, int]] = field(default_factory=list)  # nodes, type, number
    is_detected: bool = False
    unbound: list[int] = field(default_factory=list)
    """Lines of GPUs without a device."""
    switches: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)  # switch -> line and those below
    leaves: dict[str, tuple[int, str]] = field(default_factory=dict)  # node -> line and switch above it
    named: list[tuple[int, str, str, Verdict]] = field(default_factory=list)  # line, what is named, its name
    unknown: dict[str, int] = field(default_factory=dict)
    is_slurm_conf: bool = False
    included: int = 0
    """The line of the first Include: nodes may be defined in a file that is not here."""


def check(text: str) -> list[LineFinding]:
    """Return the findings of one file or several: form of lines, names, devices, numbers."""
    if _TOPOLOGY_YAML.search(text):
        return [at_line(0, "not looked at: topology.yaml, which Slurm reads from 25.05 on", "info")]
    files, findings = _SlurmFiles(), []
    for number, file, line in _lines(text):
        pairs = {name.lower(): value.strip('"') for name, value in _PAIR.findall(line)}
        if re.match(r"include\s+[^\s=]", line, re.IGNORECASE):
            files.unknown.setdefault(line.split()[0], number)
            files.included = files.included or number
            continue
        if left := _PAIR.sub("", line).strip():
            findings.append(at_line(number, f"'{left}' is not KEY=VALUE: Slurm refuses the file"))
            continue
        try:
            findings += list(_READERS[file](files, number, pairs, dict(_PAIR.findall(line))))
        except ValueError as error:
            findings.append(at_line(number, str(error)))
    findings += _references(files)
    findings += not_looked_at("keys", files.unknown)
    if not text.strip():
        findings.append(
            at_line(0, f"no node is defined; several files stand below '{FILE}slurm.conf' and so on", "warn")
        )
    return by_line(findings)


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the number, file and text of each line; comments are off, continued lines are one."""
    file, known, begun, pending = _file_of(text), True, 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        if raw.startswith(FILE) and re.fullmatch(r"[\w./-]+", raw[len(FILE) :].strip()):
            file = raw.removeprefix(FILE).strip()
            known, pending = file in _READERS, ""
            continue
        comment = _COMMENT.search(raw)
        line = (raw[: comment.end() - 1] if comment else raw).rstrip()
        slashes = len(line) - len(line.rstrip("\\"))
        begun = begun if pending else number
        if slashes % 2:
            pending += line[:-1] + " "
            continue
        whole, pending = (pending + line).strip().replace("\\#", "#").replace("\\\\", "\\"), ""
        if whole and known:
            yield begun, file, whole
    if pending.strip() and known:
        yield begun, file, pending.strip()


def _file_of(text: str) -> str:
    """Return the file that a text without the name of one is, by its keys."""
    if re.search(r"^\s*(?:SwitchName|BlockName)\s*=", text, re.IGNORECASE | re.MULTILINE):
        return "topology.conf"
    is_gres = re.search(r"^\s*(?:NodeName\s*=\s*\S+\s+Name|Name|AutoDetect)\s*=", text, re.IGNORECASE | re.MULTILINE)
    has_more = re.search(r"^\s*(?:ClusterName|PartitionName|SlurmctldHost)\s*=", text, re.IGNORECASE | re.MULTILINE)
    return "gres.conf" if is_gres and not has_more else "slurm.conf"


def _slurm(
    files: _SlurmFiles, number: int, pairs: Mapping[str, str], shown: Mapping[str, str]
) -> Iterator[LineFinding]:
    files.is_slurm_conf = True
    kind = next(iter(pairs))
    if kind == "include":
        yield at_line(number, "Include has no '=': Slurm refuses the file")
    elif kind == "nodename":
        yield from _unknown(files, number, shown, _NODE)
        yield from _nodes(files, number, pairs)
    elif kind == "partitionname":
        yield from _partition(files, number, pairs)
    elif kind == "nodeset":
        files.sets.add(pairs["nodeset"])
        if "nodes" in pairs:  # nodes that there are not are left out of a set, without a word
            files.named += [(number, "node", name, "warn") for name in expanded(pairs["nodes"])]
    elif kind not in _LINES:
        files.is_whole = files.is_whole or kind == "clustername"
        if kind == "grestypes":
            files.gres_types.update(pairs[kind].lower().split(","))
        if kind in _SINGLE and len(shown) > 1:
            more = ", ".join(list(shown)[1:])
            yield at_line(number, f"{next(iter(shown))} stands alone in its line: Slurm refuses the file for {more}")
        else:
            yield from _unknown(files, number, shown, _SINGLE)


def _nodes(files: _SlurmFiles, number: int, pairs: Mapping[str, str]) -> Iterator[LineFinding]:
    if pairs["nodename"].upper() == "DEFAULT":
        files.default_gres = pairs.get("gres", files.default_gres)
    else:
        own = expanded(pairs["nodename"])
        if twice := [name for name in own if name in files.nodes]:
            first = files.nodes[twice[0]][0]
            yield at_line(number, f"the node {twice[0]} is defined twice, first on line {first}: slurmctld ends")
        files.nodes.update((name, (number, pairs.get("gres", files.default_gres))) for name in own)
        for key in ("NodeAddr", "NodeHostname", "Port", "BcastAddr"):
            count = len(expanded(pairs[key.lower()])) if key.lower() in pairs else 1
            if count not in (1, len(own)):
                yield at_line(number, f"{key} has {count} values for {len(own)} nodes: slurmctld ends")
    state = pairs.get("state", "unknown").lower().partition("+")[0]
    if state not in _STATES:
        yield at_line(number, f"State={pairs['state']} is no state of a node: slurmctld ends")
    yield from (at_line(number, message, verdict) for message, verdict in _shape(pairs))


def _partition(files: _SlurmFiles, number: int, pairs: Mapping[str, str]) -> Iterator[LineFinding]:
    name = pairs["partitionname"]
    if name.upper() != "DEFAULT" and files.partitions.setdefault(name, number) != number:
        yield at_line(number, f"the partition {name} is defined twice, first on line {files.partitions[name]}")
    if "nodes" in pairs:
        files.named += [(number, "node", node, "fail") for node in expanded(pairs["nodes"]) if node.upper() != "ALL"]
    if pairs.get("state", "up").lower() not in _PARTITION_STATES:
        yield at_line(number, f"State={pairs['state']} of a partition is none of UP, DOWN, DRAIN, INACTIVE")
    if pairs.get("default", "no").lower() not in _BOOLEANS:
        yield at_line(number, f"Default={pairs['default']} is neither YES nor NO")
    for key in ("MaxTime", "DefaultTime"):
        if key.lower() in pairs and not _TIME.fullmatch(pairs[key.lower()]):
            yield at_line(number, f"{key}={pairs[key.lower()]} is no time such as 60, 1:00:00, 2-00:00:00 or INFINITE")


def _gres(files: _SlurmFiles, number: int, pairs: Mapping[str, str], shown: Mapping[str, str]) -> Iterator[LineFinding]:
    yield from _unknown(files, number, shown, _GRES)
    detected = pairs.get("autodetect", "off").lower()
    files.is_detected = files.is_detected or detected != "off"
    if detected not in _AUTODETECT:
        message = f"AutoDetect={pairs['autodetect']} is not known here: Slurm ignores a word it does not have"
        yield at_line(number, message, "warn")
    own = tuple(expanded(pairs["nodename"])) if "nodename" in pairs else ()
    files.named += [(number, "node", name, "fail") for name in own]
    if "name" not in pairs and "autodetect" not in pairs:
        yield at_line(number, "a line has Name= or AutoDetect=: Slurm refuses it without")
        return
    if files.gres_types and pairs.get("name", "gpu").lower() not in files.gres_types:
        yield at_line(number, f"GresTypes of slurm.conf has no {pairs.get('name', 'gpu')}: the line is ignored", "warn")
    if pairs.get("name", "").lower() == "gpu":
        yield from _gpus(files, number, pairs, own)


def _gpus(files: _SlurmFiles, number: int, pairs: Mapping[str, str], own: tuple[str, ...]) -> Iterator[LineFinding]:
    if "multiplefiles" in pairs and pairs.keys() & {"file", "files"}:
        yield at_line(number, "File and MultipleFiles exclude each other: slurmd ends")
    path = pairs.get("file") or pairs.get("files") or pairs.get("multiplefiles")
    devices = expanded(path) if path else []
    count = _COUNT.fullmatch(pairs["count"]) if "count" in pairs else None
    if "count" in pairs and count is None:
        yield at_line(number, f"Count={pairs['count']} is no number, with K, M, G or T behind it")
    elif count is not None and devices and int(count[1]) != len(devices):
        yield at_line(number, f"Count={pairs['count']}, and File names {len(devices)} devices: slurmd ends")
    if not devices and "autodetect" not in pairs:
        files.unbound.append(number)  # AutoDetect may stand in a later line
    if "links" in pairs and not re.fullmatch(r"-?\d+(,-?\d+)*", pairs["links"], re.ASCII):
        yield at_line(number, f"Links={pairs['links']} is no list of whole numbers")
    elif "-1" not in pairs.get("links", "-1").split(","):
        yield at_line(number, f"Links={pairs['links']} has no -1 for the GPU itself: Slurm ignores them", "warn")
    if devices:
        files.gres_lines.append((number, own, pairs.get("type", ""), len(devices)))


def _topology(
    files: _SlurmFiles, number: int, pairs: Mapping[str, str], shown: Mapping[str, str]
) -> Iterator[LineFinding]:
    yield from _unknown(files, number, shown, _SWITCH)
    if next(iter(pairs)) not in ("switchname", "blockname", "blocksizes"):
        yield at_line(number, "a line begins with SwitchName=, BlockName= or BlockSizes=: Slurm refuses the file")
        return
    if "nodes" in pairs and "switches" in pairs:
        yield at_line(number, "a switch has Nodes or Switches, and not both")
    if "switchname" in pairs and not pairs.keys() & {"nodes", "switches"}:
        yield at_line(number, "a switch with neither Nodes nor Switches: older releases refuse the file", "warn")
    if _number(pairs.get("linkspeed", "1")) is None:
        yield at_line(number, f"LinkSpeed={pairs['linkspeed']} is no number: Slurm refuses the file")
    below = tuple(expanded(pairs["switches"])) if "switches" in pairs else ()
    own = expanded(pairs["switchname"]) if "switchname" in pairs else []
    for name in own:
        if name in files.switches:
            first = files.switches[name][0]
            yield at_line(number, f"the switch {name} is defined twice, first on line {first}: slurmctld ends")
    if "nodes" in pairs:
        nodes = [node for node in expanded(pairs["nodes"]) if node.upper() != "ALL"]
        files.named += [(number, "node", node, "warn") for node in nodes]  # slurmctld warns, and leaves it out
        for node in nodes:
            first, above = files.leaves.setdefault(node, (number, pairs.get("switchname", "")))
            if first != number and own:
                yield at_line(number, f"{node} is below two leaf switches, the other on line {first}: {above}", "warn")
    files.named += [(number, "switch", name, "fail") for name in below]
    files.switches.update((name, (number, below)) for name in own)


_TOPOLOGY_YAML = re.compile(r"\A(?:\s*(?:#.*)?\n)*(?:---\s*\n(?:\s*(?:#.*)?\n)*)?\s*- topology:")
"""The beginning of topology.yaml (Slurm, topology.yaml(5)): a list of topologies by name."""
_READERS = {"slurm.conf": _slurm, "gres.conf": _gres, "topology.conf": _topology}


def _unknown(files: _SlurmFiles, number: int, shown: Mapping[str, str], known: frozenset[str]) -> Iterator[LineFinding]:
    for name in shown:
        if name.lower() not in known:
            files.unknown.setdefault(name, number)
    yield from ()


def _references(files: _SlurmFiles) -> Iterator[LineFinding]:
    for number, what, name, verdict in files.named:
        if what == "node" and not files.is_slurm_conf:
            continue  # the nodes are in a file that is not here
        if name not in (files.switches if what == "switch" else {*files.nodes, *files.sets}):
            elsewhere = f", unless the file of line {files.included} has it" if files.included else ""
            yield at_line(number, f"there is no {what} {name}{elsewhere}", "info" if elsewhere else verdict)
    if files.is_whole and not files.included:
        for what, defined in (("NodeName", files.nodes), ("PartitionName", files.partitions)):
            if not defined:
                yield at_line(0, f"no line defines {what}: slurmctld does not start without one", "warn")
    yield from _cycles(files.switches)
    for number in () if files.is_detected else files.unbound:
        yield at_line(number, "a gpu without File, MultipleFiles or AutoDetect is bound to no device", "warn")
    for name, (number, gres) in files.nodes.items():
        own = [(kind, count) for _, nodes, kind, count in files.gres_lines if name in nodes or not nodes]
        if own and not files.is_detected and (other := _other_gres(gres, own)):
            yield at_line(number, f"{name} has Gres={gres or '(none)'}, and gres.conf says {other}")
    untyped = [number for number, gres in files.nodes.values() if gres]
    if untyped and not files.gres_types:
        yield at_line(min(untyped), "Gres= needs GresTypes=gpu in slurm.conf", "warn")


def _cycles(switches: Mapping[str, tuple[int, tuple[str, ...]]]) -> Iterator[LineFinding]:
    for name, (number, below) in switches.items():
        reached: set[str] = set()
        left = list(below)
        while left:
            switch = left.pop()
            if switch not in reached:
                reached.add(switch)
                left += switches.get(switch, (0, ()))[1]
        if name in reached:
            yield at_line(number, f"the switch {name} is below itself")


def _other_gres(gres: str, lines: Iterable[tuple[str, int]]) -> str:
    """Return the GPUs of gres.conf as Gres= has to name them; empty where it does, or cannot be compared."""
    wanted: dict[str, int] = {}
    for part in gres.split(","):
        words = part.partition("(")[0].split(":")
        if words[0].lower() == "gpu":
            count = _COUNT.fullmatch(words[-1]) if len(words) > 1 else None
            kind = words[1] if len(words) > (2 if count else 1) else ""
            wanted[kind] = wanted.get(kind, 0) + (int(count[1]) if count else 1)
    there: dict[str, int] = {}
    for kind, devices in lines:
        there[kind] = there.get(kind, 0) + devices
    if "" in wanted or "" in there:  # a number of GPUs of any type
        is_known = not set(wanted) - {""} or not set(there) - {""} or set(wanted) <= {*there, ""}
        is_same = sum(wanted.values()) == sum(there.values()) and is_known
    else:
        is_same = wanted == there
    shown = ",".join(":".join(("gpu", *((kind,) if kind else ()), str(count))) for kind, count in there.items())
    return "" if is_same or not gres else shown


def _shape(pairs: Mapping[str, str]) -> Iterator[tuple[str, Verdict]]:
    """Yield what is wrong with the numbers of a node, and whether Slurm refuses or corrects it."""
    values: dict[str, int] = {}
    for name in _NUMBERS:
        text = pairs.get(name.lower())
        if text is None or text.upper() in ("INFINITE", "UNLIMITED"):
            continue
        value = _number(text)
        if value is None or value < 0:
            yield f"{name}={text} is no number from 1", "fail"
            return
        if value == 0:
            yield f"{name}=0: Slurm takes 1", "warn"
        values[name] = value or 1
    sockets = values.get("Sockets")
    if sockets is None and "SocketsPerBoard" in values:
        sockets = values["SocketsPerBoard"] * values.get("Boards", 1)
    if sockets is None or not {"CPUs", "CoresPerSocket", "ThreadsPerCore"} <= set(values):
        return
    cores = sockets * values["CoresPerSocket"]
    threads = prod((cores, values["ThreadsPerCore"]))
    if values["CPUs"] not in (sockets, cores, threads):
        # Slurm 22.05 logs an error and corrects it
        yield f"CPUs={values['CPUs']}, but sockets × cores × threads are {threads}", "warn"


def _number(text: str) -> int | None:
    """Return a number with nothing around it; None where it is none."""
    value = c_number(text)
    return value[0] if value is not None and not value[1] and not text[:1].isspace() else None
