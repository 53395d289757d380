"""Names of others in files of other programs: each is read back as that name and nothing else, or refused by name.

The writers are found: the formats of exports, the commands of `render`, the files of all launchers, the functions of
`written_names`. One that has no reader here fails.
"""

from __future__ import annotations

import inspect
import json
import re
import shlex
import shutil
import subprocess
from dataclasses import fields, replace
from xml.parsers import expat

import pytest
import yaml
from support.hostile_names import HOSTILE, MARK
from support.required import required_module
from training.nodes import job
from training.test_topology import FAR, HOST, NODE

from vsphere_ai.cli.train.render import command as render
from vsphere_ai.errors import Refused
from vsphere_ai.health import nhc, prometheus
from vsphere_ai.model.names import written_names
from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.model.text import safe
from vsphere_ai.report.training.launch_text import launch_text
from vsphere_ai.training.exports import EXPORTS, nccl_topo
from vsphere_ai.training.launch import LaunchPlan
from vsphere_ai.training.launchers import LAUNCHERS, launch
from vsphere_ai.training.machine import machine_of
from vsphere_ai.training.node_topology import files, node_topology

OTHER = replace(NODE, vm="train-02", address="10.0.0.2", interface="ens160", host="esx02", rails=(FAR,))
PARTS = {
    **{f"node.{f.name}": Node for f in fields(Node) if f.type == "str"},
    **{f"rail.{f.name}": Rail for f in fields(Rail) if f.type == "str"},
    **{f"gpu.{f.name}": NodeGpu for f in fields(NodeGpu) if f.type == "str"},
}
"""Everything that is text of a node, of its rails and of its GPUs, whoever has said it."""


def named(part, value):
    """Two nodes; the second has a value in one of its texts."""
    of, field = part.split(".")
    if of == "node":
        return NODE, replace(OTHER, **{field: value})
    inner = replace({"rail": FAR, "gpu": OTHER.gpus[0]}[of], **{field: value})
    return NODE, replace(OTHER, **({"rails": (inner,)} if of == "rail" else {"gpus": (inner,)}))


# -- readers: what a program makes of a text


def read_slurm(text):
    found = []
    for section in text.split("### ")[1:]:
        name, _, lines = section.partition("\n")
        if name.startswith(("enroot", "plugstack")):
            continue
        for line in lines.splitlines():
            line = re.sub(r"(?<!\\)#.*", "", line).strip()
            pairs = re.findall(r'\s*([\w.]+)\s*=\s*("[^"]*"|\S+)', line)
            assert re.sub(r'\s*([\w.]+)\s*=\s*("[^"]*"|\S+)', "", line) == "", line
            # switches get names of their own
            found += [(name, *((k, "" if k.startswith("Switch") else v) for k, v in pairs))] if pairs else []
    return found


def read_hosts(text):
    found = []
    for line in text.splitlines():
        line = re.sub(r"(#|//|/\*).*", "", line).strip()
        found += [tuple(line.split())] if line else []
    return found


def read_nccl(text):
    """As NCCL: lines of at most 4,095 bytes, of which those that begin with # are left out (src/misc/param.cc)."""
    found = []
    for line in text.encode().split(b"\n"):
        assert len(line) < 4095, "NCCL takes the rest for another line"
        name, equals, value = line.rstrip(b"\r").partition(b"=")
        if equals and not line.startswith(b"#"):
            assert len(value) < 1023
            found.append((name.decode(), value.decode()))
    return found


def read_tf(text):
    return [
        (vm, task, json.loads(value)) for vm, task, value in (line.split("\t") for line in text.split("\n") if line)
    ]


def read_ansible(text, folder):
    required_module("ansible", "ansible")
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.template import Templar

    path = folder / "inventory.yml"
    path.write_text(text, "utf-8")
    loader = DataLoader()
    found = InventoryManager(loader, sources=[str(path)])
    hosts = {}
    for host in found.get_hosts():
        assert [h.name for h in found.get_hosts(host.name)] == [host.name], "the name is a pattern of others"
        templar = Templar(loader, variables=dict(host.vars))
        own = {k: templar.template(v) for k, v in host.vars.items() if k not in ("inventory_file", "inventory_dir")}
        hosts[host.name] = json.loads(json.dumps(own))
    assert len(hosts) == 2
    return hosts


def read_xml(text):
    found = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, attributes: found.append((name, tuple(attributes.items())))
    parser.Parse(text, True)
    root, faults = nccl_topo.read(text)  # NCCL's own grammar, without entities
    assert root is not None, faults
    return found


NHC_HARNESS = r"""
command_not_found_handle() { return 0; }
for each in check_fs_mount_rw check_fs_free check_ps_service check_hw_eth check_cmd_output check_hw_cpuinfo \
            check_hw_physmem; do
  eval "$each() { printf '%s\\037' $each \"\$@\"; printf '\\036'; }"
done
while IFS= read -r line || [[ -n $line ]]; do
  [[ $line =~ ^[[:space:]]*(#|$) ]] && continue
  printf '%s\037' "${line%%||*}"
  eval "${line#*||}"
done < nhc.conf
"""


def read_nhc(text, folder):
    """As NHC: the target before the first ||, and what follows evaluated by bash."""
    (folder / "nhc.conf").write_text(text, "utf-8")
    done = subprocess.run(
        ["bash", "-c", NHC_HARNESS], cwd=folder, capture_output=True, text=True, check=False, timeout=20
    )
    assert done.stderr == ""
    assert [p.name for p in folder.iterdir()] == ["nhc.conf"], "a name was run as a command"
    words = [line.split("\x1f") for line in done.stdout.split("\x1e")]
    plain = [[w.replace("[.]", ".") if w.startswith("/") else w for w in line] for line in words]
    return [[*re.split("[,|]", re.sub(r"^(/\^\(|\{)|(\)\$/|\})$", "", mask.strip())), *rest] for mask, *rest in plain]


def read_rules(text):
    found = []
    for rule in yaml.safe_load(text)["groups"][0]["rules"]:
        pattern = json.loads(re.search(r"instance=~(\"(?:[^\"\\]|\\.)*\")", rule["expr"])[1])
        assert not re.fullmatch(pattern, "10x0.0.1:9400")
        plain = pattern.replace("\\", "")
        assert all(
            re.fullmatch(pattern, f"{each}{plain.partition(')')[2]}") for each in plain[3:].partition(")")[0].split("|")
        )
        found.append((rule["alert"], plain))
    return found


def documents(text):
    return list(yaml.safe_load_all(text))


READERS = {
    "hostfile": read_hosts,
    "deepspeed": read_hosts,
    "accelerate": documents,
    "tf-config": read_tf,
    "nccl-env": read_nccl,
    "ansible": read_ansible,
    "slurm": read_slurm,
    "nhc": read_nhc,
    "prometheus": read_rules,
    "nccl-topo": read_xml,
}
ELSEWHERE = {"netplan", "spiderpool", "network-operator"}
"""Commands whose texts are read back in `test_written_manifests`."""
IN_RUNS = {
    "hostfile": read_hosts,
    "accelerate.yaml": documents,
    "env.json": json.loads,
    "nccl-topo.xml": read_xml,
    "rank.py": str,
}
"""Files of a run directory."""


def written(form, nodes):
    """Return a text, and what the tool's own check finds against it."""
    if form == "nhc":
        text = nhc.written(nodes, {n.vm: nhc.Size(1, 16, 64) for n in nodes}, nodes[1].vm)
        return text, nhc.read(text)[1]
    if form == "prometheus":
        text = yaml.safe_dump(prometheus.rule_file(nodes, nodes[1].vm), sort_keys=False)
        return text, prometheus.faults(yaml.safe_load(text))
    if form == "nccl-topo":
        text = "".join(text for _, text in files(node_topology(n) for n in nodes[1:]))
        return text, nccl_topo.check(text) if text else []  # without a file it is said why
    export = EXPORTS[form]
    made = LaunchPlan(job(nccl="auto"), nodes, "ddp")
    text = export.write(made)
    return text, export.check(text)


def take(reader, text, folder):
    return reader(text, folder) if "folder" in inspect.signature(reader).parameters else reader(text)


def replaced(value, name):
    """Return what was read of a harmless text, with a name in place of `MARK`."""
    if isinstance(value, str):
        return value.replace(MARK, name)
    if isinstance(value, dict):
        return {replaced(k, name): replaced(v, name) for k, v in value.items()}
    return [replaced(v, name) for v in value] if isinstance(value, list | tuple) else value


def is_refused(error, name):
    """An error names the object and the value, without anything that a terminal obeys."""
    assert error.rule == written_names.RULE
    assert safe(name)[:40] in error.message
    assert safe(error.message) == error.message
    assert error.remedy


def test_every_command_of_render_has_a_reader():
    assert set(render.commands) == set(READERS) | ELSEWHERE
    assert set(EXPORTS) <= set(READERS)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("form", READERS)
def test_a_name_is_read_back_as_that_name_or_refused(form, part, tmp_path):
    count = 0
    number = iter(range(1000))

    def folder():
        made = tmp_path / str(next(number))
        made.mkdir()
        return made

    reader, taken = READERS[form], {}

    def read(text):
        if text not in taken:  # most parts of a node do not stand in most files
            taken[text] = json.dumps(take(reader, text, folder()))
        return taken[text]

    text, against = written(form, named(part, MARK))
    expected = read(text) if text else None
    for name in HOSTILE:
        try:
            text, against = written(form, named(part, name))
        except Refused as error:
            is_refused(error, name)
            count += 1
            continue
        assert list(against) == [], name
        if expected is not None:
            assert read(text) == json.dumps(replaced(json.loads(expected), name)), name
    used = {f"node.{f}" for f in ("vm", "address", "interface", "host")}
    used |= {f"rail.{f}" for f in ("interface", "address", "rdma_device")}
    assert count < len(HOSTILE), "a name such as grows is refused everywhere"
    assert not count or part in used


def test_a_vm_whose_name_is_a_command_is_named_with_what_would_work():
    with pytest.raises(Refused) as caught:
        written("nhc", named("node.vm", "x} || touch PWN; #"))
    assert "the name of the VM 'x} || touch PWN; #' cannot be written into a configuration of NHC" in str(caught.value)
    assert "letters of ASCII, digits" in caught.value.remedy


def test_switches_get_names_of_their_own():
    leaves = [*HOSTILE, "spine", "leaf 1", "leaf/1", "leaf_1", "LEAF_1", ""]
    found = written_names.slurm_switch_names(leaves, ("spine",))
    assert list(found) == leaves
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", each) for each in found.values())
    assert len({each.lower() for each in (*found.values(), "spine", "default", "all")}) == len(leaves) + 3


def test_a_guest_cannot_say_numbers_that_no_machine_has():
    lscpu = "Socket(s): {}\nCore(s) per socket: 4\nThread(s) per core: 2\n"
    for sockets in ("0", "-1", "9" * 30):
        with pytest.raises(ValueError, match="no machine has"):
            machine_of(lscpu.format(sockets), "MemTotal: 8 kB")
    for name in HOSTILE:
        kind = machine_of(lscpu.format(1), "MemTotal: 8 kB", name).gpu_type
        assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*|", kind), name


# -- launches


def of_launch(mode, nodes):
    made = launch(job(nccl=HOST["nccl"], mpi={"ssh_mesh": True, "via": "mpirun"}), mode, nodes, "run1")
    words = [([*p.argv], dict(p.env)) for each in made.nodes for p in each.processes]
    texts = [(f.name, f.text) for each in made.nodes for f in each.files]
    return made, words, texts


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("mode", LAUNCHERS)
def test_commands_variables_and_files_of_a_launch(mode, part, tmp_path):
    _, expected, files_expected = of_launch(mode, named(part, MARK))
    for name in HOSTILE:
        try:
            made, words, texts = of_launch(mode, named(part, name))
        except Refused as error:
            is_refused(error, name)
            continue
        assert replaced(words, name) == replaced(expected, name)
        for (file, text), (_, harmless) in zip(texts, files_expected, strict=True):
            assert replaced(IN_RUNS[file](harmless), name) == replaced(IN_RUNS[file](text), name), name
        shown = launch_text(made)
        assert safe(shown.replace("\n", "")) == shown.replace("\n", "")


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not here")
def test_the_words_that_launch_prints_are_those_words_in_bash(tmp_path):
    line = " ".join(map(written_names.shell_word, HOSTILE))
    assert safe(line) == line
    (tmp_path / "words").write_text(f"printf '%s\\0' {line}\n", "utf-8")
    done = subprocess.run(
        ["bash", "words"], cwd=tmp_path, env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True, timeout=20
    )
    assert done.stdout.decode().split("\0")[:-1] == list(HOSTILE)
    assert [p.name for p in tmp_path.iterdir()] == ["words"]
    assert all(shlex.split(written_names.shell_word(n)) == [n] for n in HOSTILE if safe(n) == n)
