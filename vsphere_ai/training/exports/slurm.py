"""Files of Slurm for the nodes of a job: slurm.conf, gres.conf, topology.conf, and those of pyxis and enroot.

Lines of a file stand below ``### FILE``. CPUs, memory and GPUs of a node are those that its guest shows; where
it was not asked, `slurmd -C` prints them on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod

from vsphere_ai.model.names.written_names import host_address, slurm_name, slurm_switch_names
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.exports.finding import Finding
from vsphere_ai.training.launch import Plan
from vsphere_ai.training.machine import Machine

FILE = "### "
SPINE = "spine"
"""The switch above the leaves, of which nothing else is known."""
_PAIR = re.compile(r"([A-Za-z]+)=(\S+)")
_LIST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*?(\[\d+(-\d+)?(,\d+(-\d+)?)*\])?")
_KEYS = {
    "slurm.conf": {
        *("GresTypes", "SelectType", "SelectTypeParameters", "TaskPlugin", "ProctrackType", "TopologyPlugin"),
        *(
            "NodeName",
            "NodeAddr",
            "CPUs",
            "Sockets",
            "CoresPerSocket",
            "ThreadsPerCore",
            "RealMemory",
            "Gres",
            "State",
            "PartitionName",
            "Nodes",
            "Default",
            "MaxTime",
        ),
        *("HealthCheckProgram", "HealthCheckInterval", "HealthCheckNodeState"),
    },
    "gres.conf": {"NodeName", "Name", "Type", "File", "AutoDetect", "MultipleFiles"},
    "topology.conf": {"SwitchName", "Nodes", "Switches"},
}


def write(plan: Plan) -> str:
    """Return the files, each below its name."""
    files = {
        "slurm.conf": _slurm(plan),
        "gres.conf": _gres(plan),
        "topology.conf": _topology(plan),
        "plugstack.conf.d/pyxis.conf": iter(["required /usr/local/lib/slurm/spank_pyxis.so"]),
        "enroot.conf": _enroot(),
    }
    texts = {name: list(lines) for name, lines in files.items()}
    return "\n".join(f"{FILE}{name}\n" + "".join(f"{x}\n" for x in lines) for name, lines in texts.items() if lines)


def _slurm(plan: Plan) -> Iterator[str]:
    yield "GresTypes=gpu"
    yield "SelectType=select/cons_tres"
    yield "ProctrackType=proctrack/cgroup"
    yield "TaskPlugin=task/cgroup,task/affinity"
    if all(_leaves(plan)):
        yield "TopologyPlugin=topology/tree"
    yield "HealthCheckProgram=/usr/sbin/nhc"
    yield "HealthCheckInterval=300"
    yield "HealthCheckNodeState=ANY"
    unknown = [_name(node) for node in plan.nodes if node.vm not in plan.machines]
    if unknown:
        yield f"# CPUs= and RealMemory= of {host_list(unknown)}: as 'slurmd -C' prints them there"
    for node in plan.nodes:
        kind, count = _gpus(plan, node)
        gres = f" Gres=gpu:{kind}{':' if kind else ''}{count}" if count else ""
        at = host_address(f"address of the VM {node.vm}", node.address)
        yield f"NodeName={_name(node)} NodeAddr={at}{_machine(plan.machines.get(node.vm))}{gres} State=UNKNOWN"
    names, name = host_list([_name(node) for node in plan.nodes]), re.sub(r"[^A-Za-z0-9_]", "_", plan.job.training_job)
    yield f"PartitionName={name} Nodes={names} Default=YES MaxTime=INFINITE"


def _gres(plan: Plan) -> Iterator[str]:
    """Yield the device files of GPUs: AutoDetect knows neither vGPUs' MIG instances nor NVLink."""
    for node in plan.nodes:
        kind, count = _gpus(plan, node)
        if count:
            files = f"[0-{count - 1}]" if count > 1 else "0"
            yield f"NodeName={_name(node)} Name=gpu{f' Type={kind}' if kind else ''} File=/dev/nvidia{files}"


def _name(node: Node) -> str:
    return slurm_name("name of the VM", node.vm)


def _gpus(plan: Plan, node: Node) -> tuple[str, int]:
    """Return the type and number of a node's GPUs: those that its guest shows, else those that vCenter does."""
    machine = plan.machines.get(node.vm)
    return (machine.gpu_type, len(machine.gpus)) if machine and machine.gpus else ("", len(node.gpus))


def _machine(machine: Machine | None) -> str:
    if machine is None:
        return ""
    shape = f"Sockets={machine.sockets} CoresPerSocket={machine.cores} ThreadsPerCore={machine.threads}"
    return f" CPUs={machine.cpus} {shape} RealMemory={machine.memory}"


def _leaves(plan: Plan) -> list[str]:
    """Return the leaf switch of each node's first rail; empty where it is not known."""
    return [next((r.switch_port for r in node.rails if r.switch_port), "") for node in plan.nodes]


def _topology(plan: Plan) -> Iterator[str]:
    """Yield the switches, where the leaf of every node is known: a node in no switch could not be used with others."""
    leaves = _leaves(plan)
    if not all(leaves):
        return
    names = slurm_switch_names(dict.fromkeys(leaves), (SPINE,))
    for leaf, name in names.items():
        below = host_list([_name(n) for n, own in zip(plan.nodes, leaves, strict=True) if own == leaf])
        yield f"SwitchName={name} Nodes={below}"
    if len(names) > 1:
        yield f"SwitchName={SPINE} Switches={','.join(names.values())}"


def _enroot() -> Iterator[str]:
    yield "ENROOT_RUNTIME_PATH /run/enroot/user-$(id -u)"
    yield "ENROOT_CACHE_PATH /var/cache/enroot/user-$(id -u)"
    yield "ENROOT_DATA_PATH /var/lib/enroot/user-$(id -u)"


def host_list(names: list[str]) -> str:
    """Return names as Slurm writes them: ``trn-[01-04]`` where they are numbered without a gap, else a list."""
    parts = [re.fullmatch(r"(.*?)(\d+)", name) for name in names]
    numbered = [p for p in parts if p is not None]
    if len(names) > 1 and len(numbered) == len(names):
        prefixes = {(p[1], len(p[2])) for p in numbered}
        numbers = [int(p[2]) for p in numbered]
        if len(prefixes) == 1 and numbered[0][1] and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return f"{numbered[0][1]}[{numbered[0][2]}-{numbered[-1][2]}]"
    return ",".join(names)


def expanded(text: str) -> list[str]:
    """Return the names of a host list; `ValueError` for one that is none."""
    found: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text):
        if not _LIST.fullmatch(part):
            raise ValueError(f"'{part}' is no name of a node")
        prefix, bracket, inner = part.partition("[")
        if not bracket:
            found.append(prefix)
            continue
        for piece in inner.rstrip("]").split(","):
            first, _, last = piece.partition("-")
            if last and (int(last) < int(first) or int(last) - int(first) > 65535):
                raise ValueError(f"'{piece}' is no range")
            numbers = range(int(first), int(last or first) + 1)
            found += [f"{prefix}{number:0{len(first)}d}" for number in numbers]
    return found


def check(text: str) -> list[Finding]:
    """Return what stands against files below their names: keys, names of nodes, switches and devices."""
    found: list[Finding] = []
    nodes: set[str] = set()
    gpus: dict[str, tuple[int, str]] = {}  # node -> line and Gres of slurm.conf
    files: dict[str, str] = {}  # node -> type and number of gres.conf
    named: list[tuple[int, str, str]] = []  # line, what is named, its name
    switches: set[str] = set()
    file = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(FILE):
            file = line.removeprefix(FILE).strip()
        known = _KEYS.get(file)
        if known is None or not line.strip() or line.startswith("#"):
            continue
        pairs = dict(_PAIR.findall(line))
        if _PAIR.sub("", line).strip():
            found.append(Finding(number, f"'{line}' is not KEY=VALUE ..."))
        found += [Finding(number, f"{file} has no key {key}") for key in pairs if key not in known]
        if (
            file == "gres.conf"
            and pairs.get("Name") == "gpu"
            and not {"File", "MultipleFiles", "AutoDetect"} & set(pairs)
        ):
            found.append(Finding(number, "a gpu needs File, MultipleFiles or AutoDetect"))
        found += [Finding(number, message) for message in _wrong_numbers(pairs)]
        try:
            if file == "slurm.conf":
                own = expanded(pairs["NodeName"]) if "NodeName" in pairs else []
                nodes.update(own)
                gpus.update((name, (number, pairs.get("Gres", ""))) for name in own)
            elif "NodeName" in pairs:
                own = expanded(pairs["NodeName"])
                named += [(number, "node", name) for name in own]
                if pairs.get("Name") == "gpu" and "File" in pairs:
                    files.update((name, _gres_of(pairs)) for name in own)
            named += [(number, "node", n) for n in expanded(pairs["Nodes"]) if n != "ALL"] if "Nodes" in pairs else []
            named += [(number, "switch", n) for n in expanded(pairs["Switches"])] if "Switches" in pairs else []
            switches.update(expanded(pairs["SwitchName"]) if "SwitchName" in pairs else ())
        except ValueError as error:
            found.append(Finding(number, str(error)))
    for number, what, name in named:
        if name not in (nodes if what == "node" else switches):
            found.append(Finding(number, f"there is no {what} {name}"))
    for name, (number, gres) in gpus.items():
        if name in files and gres and files[name] != gres:
            found.append(Finding(number, f"{name} has Gres={gres}, and gres.conf says {files[name]}"))
    return sorted(found) if nodes or found else [Finding(0, f"no node is defined below '{FILE}slurm.conf'")]


def _wrong_numbers(pairs: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the numbers of a node."""
    names = ("Sockets", "CoresPerSocket", "ThreadsPerCore", "CPUs", "RealMemory")
    for name in names:
        if name in pairs and not re.fullmatch(r"[1-9]\d{0,9}", pairs[name]):
            yield f"{name}={pairs[name]} is no number from 1"
            return
    if all(name in pairs for name in names[:4]):
        product = prod(int(pairs[name]) for name in names[:3])
        if int(pairs["CPUs"]) != product:
            yield f"CPUs={pairs['CPUs']}, but sockets × cores × threads are {product}"


def _gres_of(pairs: Mapping[str, str]) -> str:
    """Return what Gres= has to be by a line of gres.conf."""
    inner = re.search(r"\[(\d+)-(\d+)\]", pairs["File"])
    count = int(inner[2]) - int(inner[1]) + 1 if inner else 1
    return ":".join(("gpu", *((pairs["Type"],) if "Type" in pairs else ()), str(count)))
