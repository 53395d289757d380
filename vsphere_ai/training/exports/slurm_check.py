"""Files of Slurm read back as Slurm reads them: slurm.conf, gres.conf, topology.conf, one or more below ``### FILE``.

Sources: SchedMD/slurm src/common/parse_config.c (one parser of lines for all files), read_config.c, gres.c and
src/plugins/topology/tree. Keys that no rule here is about are named and not judged: Slurm has some 200 of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from vsphere_ai.training.exports.finding import LineFinding, at_line, by_line, not_looked_at

FILE = "### "
MOST_IN_RANGE = 65_536
"""Names of one range, MAX_RANGE of src/common/hostlist.c; unverified for releases before 20.11."""
_PAIR = re.compile(r'([A-Za-z0-9_.]+)\s*[-*+/]?=\s*("[^"]*"|[^\s"]\S*)(?=\s|$)')
_COMMENT = re.compile(r"(?<!\\)(?:\\\\)*#")
_GROUP = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_TEXT = re.compile(r"[\w./:%@+-]*", re.ASCII)
_COUNT = re.compile(r"(\d{1,12})([KMGT]?)", re.ASCII | re.IGNORECASE)
_NODE = frozenset(
    re.findall(
        r"\w+",
        """
    bcastaddr boards corespeccount corespersocket cpus cpuspeclist cpubind feature features gres memspeclimit
    nodeaddr nodehostname nodename port procs realmemory reason sockets socketsperboard state threadspercore
    tmpdisk tresweights weight
    """,
    )
)
_GRES = frozenset(
    re.findall(
        r"\w+",
        """
    autodetect count cpus cores file files flags link links multiplefiles name nodename type
    """,
    )
)
_SWITCH = frozenset(
    re.findall(
        r"\w+",
        """
    switchname nodes switches linkspeed blockname blocksizes
    """,
    )
)
_SINGLE = frozenset(
    re.findall(
        r"\w+",
        """
    clustername slurmctldhost controlmachine grestypes selecttype selecttypeparameters taskplugin proctracktype
    topologyplugin healthcheckprogram healthcheckinterval healthchecknodestate downnodes frontendname reason
    """,
    )
)
"""Keys of slurm.conf that stand alone in a line and need no rule."""
_NUMBERS = ("Boards", "Sockets", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore", "CPUs", "RealMemory")


@dataclass
class _SlurmFiles:
    """What the files define and refer to; names by the line on which they stand."""

    nodes: dict[str, tuple[int, str]] = field(default_factory=dict)  # node -> line and its Gres
    sets: set[str] = field(default_factory=set)
    default_gres: str = ""
    gres_types: bool = False
    gres_lines: list[tuple[int, tuple[str, ...], str, int]] = field(default_factory=list)  # nodes, type, number
    is_detected: bool = False
    switches: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)  # switch -> line and those below
    named: list[tuple[int, str, str]] = field(default_factory=list)  # line, what is named, its name
    unknown: dict[str, int] = field(default_factory=dict)
    is_slurm_conf: bool = False
    included: int = 0
    """The line of the first Include: nodes may be defined in a file that is not here."""


def expanded(text: str) -> list[str]:
    """Return the names of a host list: groups may stand anywhere in a name; `ValueError` for one that is none."""
    names: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text):
        rest = _GROUP.sub("", part)
        if not part or not _TEXT.fullmatch(rest):
            raise ValueError(f"'{part}' is no name of a node")
        made = [""]
        at = 0
        for group in _GROUP.finditer(part):
            numbers = list(_numbers(group[1]))
            if len(made) * len(numbers) > MOST_IN_RANGE:
                raise ValueError(f"'{part}' is no list of {MOST_IN_RANGE} names or fewer")
            made = [f"{name}{part[at : group.start()]}{number}" for name in made for number in numbers]
            at = group.end()
        names += [f"{name}{part[at:]}" for name in made]
    return names


def _numbers(inner: str) -> Iterator[str]:
    for piece in inner.split(","):
        match = _RANGE.fullmatch(piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first or last - first >= MOST_IN_RANGE:
            raise ValueError(f"'{piece}' is no range")
        yield from (f"{number:0{len(match[1])}d}" for number in range(first, last + 1))


def check(text: str) -> list[LineFinding]:
    """Return the findings of one file or several: form of lines, names, devices, numbers."""
    if _TOPOLOGY_YAML.search(text):
        return [at_line(0, "not looked at: topology.yaml, which Slurm reads from 25.05 on", "info")]
    files, findings = _SlurmFiles(), []
    for number, file, line in _lines(text):
        pairs = {name.lower(): value.strip('"') for name, value in _PAIR.findall(line)}
        if re.match(r"include\s+\S", line, re.IGNORECASE):
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
    if "nodename" in pairs:
        if pairs["nodename"].upper() == "DEFAULT":
            files.default_gres = pairs.get("gres", files.default_gres)
        else:
            own = expanded(pairs["nodename"])
            files.nodes.update((name, (number, pairs.get("gres", files.default_gres))) for name in own)
        yield from _unknown(files, number, shown, _NODE)
        for message, is_corrected in _shape(pairs):
            yield at_line(number, message, "warn" if is_corrected else "fail")
    elif "partitionname" in pairs or "nodeset" in pairs:
        if "nodeset" in pairs:
            files.sets.add(pairs["nodeset"])
        if "nodes" in pairs:
            files.named += [(number, "node", name) for name in expanded(pairs["nodes"]) if name.upper() != "ALL"]
    else:
        files.gres_types = files.gres_types or "grestypes" in pairs
        yield from _unknown(files, number, shown, _SINGLE)


def _gres(files: _SlurmFiles, number: int, pairs: Mapping[str, str], shown: Mapping[str, str]) -> Iterator[LineFinding]:
    yield from _unknown(files, number, shown, _GRES)
    if pairs.get("autodetect", "off").lower() != "off":
        files.is_detected = True
    own = tuple(expanded(pairs["nodename"])) if "nodename" in pairs else ()
    files.named += [(number, "node", name) for name in own]
    if pairs.get("name", "").lower() != "gpu":
        return
    path = pairs.get("file") or pairs.get("files") or pairs.get("multiplefiles")
    devices = expanded(path) if path else []
    count = _COUNT.fullmatch(pairs["count"]) if "count" in pairs else None
    if "count" in pairs and count is None:
        yield at_line(number, f"Count={pairs['count']} is no number, with K, M, G or T behind it")
    elif count is not None and devices and int(count[1]) != len(devices):
        yield at_line(number, f"Count={pairs['count']}, and File names {len(devices)} devices", "warn")
    if not devices and not files.is_detected and "autodetect" not in pairs:
        yield at_line(number, "a gpu without File, MultipleFiles or AutoDetect is bound to no device", "warn")
    if "links" in pairs and not re.fullmatch(r"-?\d+(,-?\d+)*", pairs["links"], re.ASCII):
        yield at_line(number, f"Links={pairs['links']} is no list of whole numbers")
    if devices:
        files.gres_lines.append((number, own, pairs.get("type", ""), len(devices)))


def _topology(
    files: _SlurmFiles, number: int, pairs: Mapping[str, str], shown: Mapping[str, str]
) -> Iterator[LineFinding]:
    yield from _unknown(files, number, shown, _SWITCH)
    if "nodes" in pairs and "switches" in pairs:
        yield at_line(number, "a switch has Nodes or Switches, and not both")
    below = tuple(expanded(pairs["switches"])) if "switches" in pairs else ()
    if "nodes" in pairs:
        files.named += [(number, "node", n) for n in expanded(pairs["nodes"]) if n.upper() != "ALL"]
    files.named += [(number, "switch", name) for name in below]
    if "switchname" in pairs:
        files.switches.update((name, (number, below)) for name in expanded(pairs["switchname"]))


_TOPOLOGY_YAML = re.compile(r"\A(?:\s*(?:#.*)?\n)*(?:---\s*\n(?:\s*(?:#.*)?\n)*)?\s*- topology:")
"""The beginning of topology.yaml (Slurm, topology.yaml(5)): a list of topologies by name."""
_READERS = {"slurm.conf": _slurm, "gres.conf": _gres, "topology.conf": _topology}


def _unknown(files: _SlurmFiles, number: int, shown: Mapping[str, str], known: frozenset[str]) -> Iterator[LineFinding]:
    for name in shown:
        if name.lower() not in known:
            files.unknown.setdefault(name, number)
    yield from ()


def _references(files: _SlurmFiles) -> Iterator[LineFinding]:
    for number, what, name in files.named:
        if what == "node" and not files.is_slurm_conf:
            continue  # the nodes are in a file that is not here
        if name not in (files.switches if what == "switch" else {*files.nodes, *files.sets}):
            elsewhere = f", unless the file of line {files.included} has it" if files.included else ""
            yield at_line(number, f"there is no {what} {name}{elsewhere}", "info" if elsewhere else "fail")
    yield from _cycles(files.switches)
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


def _shape(pairs: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Yield what is wrong with the numbers of a node, and whether Slurm corrects it."""
    values: dict[str, int] = {}
    for name in _NUMBERS:
        text = pairs.get(name.lower())
        if text is None:
            continue
        if not re.fullmatch(r"[1-9]\d{0,9}", text, re.ASCII):
            yield f"{name}={text} is no number from 1", False
            return
        values[name] = int(text)
    sockets = values.get("Sockets")
    if sockets is None and "SocketsPerBoard" in values:
        sockets = values["SocketsPerBoard"] * values.get("Boards", 1)
    if sockets is None or not {"CPUs", "CoresPerSocket", "ThreadsPerCore"} <= set(values):
        return
    cores = sockets * values["CoresPerSocket"]
    threads = prod((cores, values["ThreadsPerCore"]))
    if values["CPUs"] not in (cores, threads):
        # Slurm logs an error and corrects it; that it does so in every release is unverified
        yield f"CPUs={values['CPUs']}, but sockets × cores × threads are {threads}", True
