"""Exports of a job's nodes: what is written is read back, and every rule of a reader finds what breaks it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml
from click.testing import CliRunner
from support.seeds import chance
from training.nodes import job, node, nodes

from vsphere_ai.cli.train.render import command
from vsphere_ai.cli.train.render_job import FORMATS
from vsphere_ai.training.exports import EXPORTS
from vsphere_ai.training.exports.finding import faults, line_of
from vsphere_ai.training.exports.slurm import host_list
from vsphere_ai.training.exports.slurm_hostlist import expanded
from vsphere_ai.training.launch import LaunchPlan
from vsphere_ai.training.machine import machine_of


def plan(count=4, of=None, **more):
    return LaunchPlan(job(**{"nccl": "auto", **more}), of or nodes(count, gpus=2, rails=2), "ddp")


def with_leaves(*leaves):
    return tuple(
        replace(node(n), rails=(replace(node(n).rails[0], switch_port=leaf),)) for n, leaf in enumerate(leaves)
    )


def test_every_format_has_a_command():
    assert set(FORMATS) == set(EXPORTS)


@pytest.mark.parametrize("name", EXPORTS)
def test_what_is_written_is_read_back(name):
    random = chance(f"export {name}")
    for _ in range(30):
        of = tuple(node(n, gpus=random.randint(1, 8) if n == 0 else 4) for n in range(random.randint(1, 40)))
        if name == "accelerate":
            of = tuple(replace(n, gpus=of[-1].gpus) for n in of)
        if random.random() < 0.5:
            of = tuple(replace(n, rails=with_leaves(*"ab")[i % 2].rails) for i, n in enumerate(of))
        tf = {"parameter_servers": random.randint(0, 3), "chief": random.random() < 0.5}
        export = EXPORTS[name]
        text = export.write(plan(of=of, tensorflow=tf))
        assert export.check(text) == []
        assert text.endswith("\n")


def test_the_host_file():
    assert EXPORTS["hostfile"].write(plan(2)) == "10.20.0.11 slots=2\n10.20.0.12 slots=2\n"


def test_settings_of_nodes_that_have_the_same_stand_once():
    text = EXPORTS["nccl-env"].write(plan(3))
    assert text.startswith("# nodes: train-01, train-02, train-03\n")
    assert text.count("NCCL_IB_HCA==rocep1s0:1,rocep2s0:1") == 1
    other = (*nodes(2), replace(node(2), interface="ens999"))
    assert EXPORTS["nccl-env"].write(plan(of=other)).count("# nodes: ") == 2


def test_the_inventory_of_ansible():
    found = yaml.safe_load(EXPORTS["ansible"].write(plan(2, training_job="a.b")))
    group = found["all"]["children"]["a_b"]
    assert list(group["hosts"]) == ["train-01", "train-02"]
    assert group["hosts"]["train-02"]["ansible_host"] == "10.20.0.12"
    assert group["hosts"]["train-02"]["node_rank"] == 1
    assert group["hosts"]["train-01"]["nccl_env"]["NCCL_SOCKET_IFNAME"] == "=ens192"


def test_the_files_of_slurm():
    text = EXPORTS["slurm"].write(plan(of=with_leaves("leaf 1", "leaf 1", "leaf 2", "leaf 2")))
    assert "NodeName=train-01 NodeAddr=10.20.0.11 Gres=gpu:2 State=UNKNOWN" in text
    assert "Nodes=train-[01-04] Default=YES" in text
    assert "NodeName=train-03 Name=gpu File=/dev/nvidia[0-1]" in text
    assert text.partition("### topology.conf\n")[2].splitlines()[:3] == [
        "SwitchName=leaf_1 Nodes=train-[01-02]",
        "SwitchName=leaf_2 Nodes=train-[03-04]",
        "SwitchName=spine Switches=leaf_1,leaf_2",
    ]
    assert "topology" not in EXPORTS["slurm"].write(plan(of=with_leaves("leaf 1", "")))


LSCPU = """\
Architecture:                       x86_64
  CPU op-mode(s):                   32-bit, 64-bit
CPU(s):                             96
  On-line CPU(s) list:              0-95
Vendor ID:                          AuthenticAMD
  Thread(s) per core:               2
  Core(s) per socket:               24
  Socket(s):                        2
"""


def test_slurm_is_given_what_the_guests_show():
    names = "NVIDIA A100-SXM4-40GB\nNVIDIA A100-SXM4-40GB\n"
    shown = machine_of(LSCPU, "MemTotal:       923456780 kB\nMemFree: 1 kB\n", names)
    assert (shown.cpus, shown.memory, shown.gpu_type) == (96, 901813, "a100-sxm4-40gb")
    assert machine_of(LSCPU, "MemTotal: 1 kB", "GRID A100-10C\nGRID A100-20C").gpu_type == ""
    with pytest.raises(ValueError, match="MemTotal"):
        machine_of("lscpu: not found", "")
    text = EXPORTS["slurm"].write(replace(plan(), machines={"train-01": shown, "train-02": shown}))
    shape = "CPUs=96 Sockets=2 CoresPerSocket=24 ThreadsPerCore=2 RealMemory=901813 Gres=gpu:a100-sxm4-40gb:2"
    assert f"NodeName=train-01 NodeAddr=10.20.0.11 {shape} State=UNKNOWN" in text
    assert "# CPUs= and RealMemory= of train-[03-04]: as" in text
    assert "NodeName=train-02 Name=gpu Type=a100-sxm4-40gb File=/dev/nvidia[0-1]" in text
    assert EXPORTS["slurm"].check(text) == []
    for right, wrong, message in (
        ("CPUs=96", "CPUs=64", "sockets × cores × threads are 96"),
        ("RealMemory=901813", "RealMemory=880G", "RealMemory=880G is no number"),
        ("nvidia[0-1]", "nvidia[0-3]", "gres.conf says gpu:a100-sxm4-40gb:4"),
        ("Type=a100-sxm4-40gb", "Type=h100", "gres.conf says gpu:h100:2"),
    ):
        found = EXPORTS["slurm"].check(text.replace(right, wrong, 1))
        assert [message in each.message for each in found] == [True], found


def test_host_lists_are_written_and_read():
    random = chance("host lists")
    assert host_list(["trn-00", "trn-01", "trn-02"]) == "trn-[00-02]"
    assert host_list(["a1", "a3"]) == "a1,a3"
    assert expanded("trn-[00-02,07],x") == ["trn-00", "trn-01", "trn-02", "trn-07", "x"]
    for _ in range(200):
        first, width = random.randint(0, 99), random.randint(2, 4)
        names = [f"n{number:0{width}d}" for number in range(first, first + random.randint(1, 30))]
        assert expanded(host_list(names)) == names
    for wrong in ("a b", "a[1-", "a[3-1]", ""):
        with pytest.raises(ValueError, match="no "):
            expanded(wrong)


MACHINE = {
    "compute_environment": "LOCAL_MACHINE",
    "distributed_type": "MULTI_GPU",
    "num_machines": 2,
    "num_processes": 4,
    "machine_rank": 0,
    "main_process_ip": "10.0.0.1",
    "main_process_port": 29500,
}


def machines(*changes):
    return "".join(f"---\n{yaml.safe_dump({**MACHINE, **each})}" for each in changes)


def tf(cluster=None, kind="worker", index=0):
    return json.dumps({"cluster": cluster or {"worker": ["a:1", "b:1"]}, "task": {"type": kind, "index": index}})


SLURM = "### slurm.conf\nNodeName=a,b Gres=gpu:1\n"
GRES = "### slurm.conf\nGresTypes=gpu\nNodeName=n1 Gres=gpu:{}\n### gres.conf\n{}\n"
BROKEN = [
    ("hostfile", "a slot=1\n", 1),
    ("hostfile", "a slots=1\n-b slots=1\n", 2),
    ("hostfile", "a slots=0\n", 1),
    ("hostfile", "a slots=4 max_slots=2\n", 1),
    ("hostfile", "# nothing\n", 0),
    ("deepspeed", "a\n", 1),
    ("deepspeed", "a slots=1\na slots=1\n", 2),
    ("deepspeed", "a slots=0\n", 1),
    ("deepspeed", "", 0),
    ("accelerate", "a: [", 0),
    ("accelerate", "", 0),
    ("accelerate", machines({"num_machines": "two"}), 2),
    ("accelerate", machines({"num_processes": 5}), 2),
    ("accelerate", machines({"machine_rank": 2}), 2),
    ("accelerate", machines({}, {}), 2),
    ("accelerate", machines({}, {"machine_rank": 1, "main_process_ip": "10.0.0.2"}), 0),
    ("tf-config", "{", 1),
    ("tf-config", "", 0),
    ("tf-config", tf(index=2), 1),
    ("tf-config", tf(kind="boss"), 1),
    ("tf-config", f"{tf()}\n{tf()}", 2),
    ("tf-config", tf({"worker": ["a:1", "a:1"]}), 1),
    ("tf-config", f"{tf()}\n{tf({'worker': ['a:1', 'c:1']}, index=1)}", 0),
    ("nccl-env", "NCCL_DEBUG\n", 1),
    ("nccl-env", "PATH=/bin\n", 1),
    ("nccl-env", "NCCL_DEBUG=LOUD\n", 1),
    ("nccl-env", "NCCL_IB_HCA==mlx5_0:1;id\n", 1),
    ("nccl-env", "NCCL_NET_GDR_LEVEL=FAR\n", 1),
    ("nccl-env", "NCCL_IB_TC=1\nNCCL_IB_TC=2\n", 2),
    ("ansible", "a: [", 0),
    ("ansible", "- a\n", 0),
    ("ansible", "all: {hosts: {}}\n", 0),
    ("ansible", "all: {host: {a: {}}}\n", 0),
    ("ansible", "a-b: {hosts: {a: {}}}\n", 0),
    ("ansible", "all: {hosts: {a: {x-y: 1}}}\n", 0),
    ("ansible", "all: {hosts: {a: {ansible_host: 1.1.1.1}, b: {ansible_host: 1.1.1.1}}}\n", 0),
    ("slurm", "", 0),
    ("slurm", f"{SLURM}PartitionName=x Nodes=a,c\n", 3),
    ("slurm", f"{SLURM}Colour=red\n", 3),
    ("slurm", f"{SLURM}a node\n", 3),
    ("slurm", "### slurm.conf\nNodeName=a[1-\n", 2),
    ("slurm", f"{SLURM}### gres.conf\nNodeName=a Name=gpu Type=a100\n", 4),
    ("slurm", f"{SLURM}### gres.conf\nNodeName=c Name=gpu File=/dev/nvidia0\n", 4),
    ("slurm", f"{SLURM}### topology.conf\nSwitchName=s Switches=t\n", 4),
]


@pytest.mark.parametrize(("name", "text", "line"), BROKEN, ids=[f"{f}-{n}" for n, (f, _, _) in enumerate(BROKEN)])
def test_what_breaks_a_rule_is_found_on_its_line(name, text, line):
    assert line in {line_of(finding) for finding in EXPORTS[name].check(text)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hostfile", "a slots=8 max_slots=8\nb # again\nb\n"),
        ("accelerate", machines({}, {"machine_rank": 1})),
        ("tf-config", f"{tf()}\n{tf(index=1)}\n"),
        ("nccl-env", "NCCL_IB_HCA=^mlx5_3\nNCCL_MADE_UP=1\n"),
        ("ansible", "all: {children: {gpu: {hosts: {a: , b: {ansible_host: 10.0.0.1}}}}}\n"),
        ("slurm", f"{SLURM}PartitionName=x Nodes=ALL\n### gres.conf\nAutoDetect=nvml\n"),
    ],
)
def test_files_of_others_that_are_right(name, text):
    assert faults(EXPORTS[name].check(text)) == []


# format, text, and the verdicts of the findings, the lines that they are on
MACHINES_OF_DEEPSPEED = "distributed_type: DEEPSPEED\nnum_processes: 4\nnum_machines: 2\nmain_process_ip: a\n"
READ = [
    ("hostfile", "a\tslots=8\n", ()),
    ("hostfile", "a slots = 8 max-slots=8 username=me\n// b\n/* c\nd */ e slots=2 # f\n", ()),
    ("hostfile", "me@a cpu=4\n^b\n10.0.0.1\nfe80::1 slots=1\n", ("warn 2",)),
    ("hostfile", "a:8\n", ("warn 1",)),
    ("hostfile", "1a.example.com\n", ("warn 1",)),
    ("hostfile", "+n0\n", ("fail 1",)),
    ("hostfile", "a slots=2\na slots=3\n", ("fail 2",)),
    ("hostfile", "a slots=2 cpu=3\n", ("fail 1",)),
    ("hostfile", "a\na\n", ()),
    ("hostfile", "a max_slots=4 slots=8\n", ()),
    ("hostfile", "a max_slots=0\n", ("fail 1",)),
    ("hostfile", "a cpus-max=4\n", ("fail 1",)),
    ("hostfile", "a sockets=2\n", ("fail 1",)),
    ("hostfile", "a slots=2\r\n", ("fail 1",)),
    ("hostfile", "a\nb\r\n", ("fail 2",)),
    ("hostfile", "a /* two\nlines */ slots=2\n", ("fail 2",)),
    ("hostfile", "/* not closed\na\n", ("fail 1",)),
    ("hostfile", '"a" slots=2\n', ("fail 1",)),
    ("hostfile", "[fd00::1] slots=2\n", ("fail 1",)),
    ("hostfile", "a b\n", ("fail 1",)),
    ("hostfile", "a b.example.com\n", ("fail 1",)),
    ("hostfile", "a\v slots\f= 2\n", ()),
    ("hostfile", "a slots=-1\n", ("fail 1",)),
    ("hostfile", "a@b@c\n", ("fail 1",)),
    ("hostfile", "a cpu_set=0\n", ("fail 1",)),
    ("hostfile", "rank 0=a slot=1\n", ("info 1",)),
    ("hostfile", "a slots=x\n", ("fail 1",)),
    ("deepspeed", "a slots=8 max_slots=8\nb slots=2 # two\n  # c\n", ("info 1", "info 2")),
    ("deepspeed", "a   slots=0\n", ("warn 1",)),
    ("deepspeed", "a slots = 8\n", ("fail 1",)),
    ("deepspeed", '{\n  "train_batch_size": 8,\n  "zero_optimization": {"stage": 2}\n}\n', ("fail 1",)),
    ("accelerate", "distributed_type: FSDP\nnum_processes: 4\nfsdp_config: {}\n", ()),
    ("accelerate", "distributed_type: FSDP\n", ("warn 1",)),
    ("accelerate", MACHINES_OF_DEEPSPEED, ("warn 1",)),
    ("accelerate", f"{MACHINES_OF_DEEPSPEED}deepspeed_config: {{deepspeed_multinode_launcher: standard}}\n", ()),
    ("accelerate", f"{MACHINES_OF_DEEPSPEED}deepspeed_config: {{deepspeed_hostfile: /hosts}}\n", ()),
    ("accelerate", "distributed_type: DEEPSPEED\nnum_processes: 4\nnum_machines: 1\n", ()),
    ("accelerate", "num_processes: 2\n", ("fail 1",)),
    ("accelerate", "distributed_type: MULTI_GPU\nnum_processes: 1\n", ("warn 1",)),
    ("accelerate", "distributed_type: MULTI_GPU\nnum_processes: 2\ngpu_ids: '0'\n", ("fail 1",)),
    ("accelerate", "distributed_type: MULTI_XPU\nnum_processes: 2\ngpu_ids: '0'\n", ("fail 1",)),
    ("accelerate", "distributed_type: FSDP\nnum_processes: 2\ngpu_ids: '0'\n", ()),
    ("accelerate", "distributed_type: 'NO'\ngpu_ids: 0\n", ("fail 1",)),
    ("accelerate", "distributed_type: 'NO'\nipex_config: {}\n", ("warn 1",)),
    ("accelerate", "distributed_type: 'NO'\nnum_machines: 2\n", ("fail 1",)),
    ("accelerate", "compute_environment: AMAZON_SAGEMAKER\nprofile: x\n", ("info 1",)),
    ("accelerate", "compute_environment:\ndistributed_type: 'NO'\n", ("fail 1",)),
    ("accelerate", "distributed_type: {a: 1}\n", ("warn 1",)),
    ("accelerate", "distributed_type: [MULTI_GPU]\n", ("warn 1",)),
    ("nccl-env", "NCCL_IB_HCA = mlx5_0\n", ("fail 1",)),
    ("nccl-env", " NCCL_IB_HCA=mlx5_0\n", ("fail 1",)),
    ("nccl-env", 'NCCL_SOCKET_IFNAME="ens192"\n', ("fail 1",)),
    ("nccl-env", "NCCL_IB_HCA=mlx5_0 # the first\n", ("fail 1",)),
    ("nccl-env", "NCCL_IB_DISABLE=true\n", ("warn 1",)),
    ("nccl-env", "NCCL_IB_TC=010\nNCCL_IB_SL=0x1\nNCCL_BUFFSIZE=8M\n", ("warn 1", "warn 3")),
    ("nccl-env", "NCCL_DEBUG=info\nFI_PROVIDER=efa\nUCX_TLS=rc\n", ()),
    ("nccl-env", "NCCL_IB_HCA==mlx5_0:1:0:1,mlx5_1\n", ()),
    ("nccl-env", "NCCL_IB_TC=1\nNCCL_IB_TC=1\n", ("warn 2",)),
    ("nccl-env", "PATH=/bin\n", ("info 1",)),
    ("nccl-env", "  \n # NCCL_DEBUG=INFO\n\t# a\n", ()),
    ("nccl-env", "=INFO\n", ("fail 1",)),
    ("nccl-env", "NCCL_MADE_UP=1\n", ("info 1",)),
    ("nccl-env", "NCCL_IB_HCA=^=mlx5_0,,mlx5_1:,\n", ()),
    ("nccl-env", "NCCL_IB_HCA=mlx5_0, mlx5_1\n", ("fail 1",)),
    ("nccl-env", "NCCL_IB_HCA==^mlx5_0\n", ("fail 1",)),
    ("nccl-env", "NCCL_IB_HCA=mlx5_0:a\n", ("fail 1",)),
    ("nccl-env", "NCCL_SOCKET_IFNAME=^\n", ("warn 1",)),
    ("nccl-env", "NCCL_SOCKET_IFNAME=bond0.100,_x@1\n", ()),
    ("nccl-env", "NCCL_DEBUG= info\n", ("warn 1",)),
    ("nccl-env", "NCCL_DEBUG=INFO # more\n", ("fail 1",)),
    ("nccl-env", "NCCL_DEBUG_SUBSYS=^coll, net\nNCCL_DEBUG_TIMESTAMP_LEVELS=all\n", ()),
    ("nccl-env", "NCCL_DEBUG_SUBSYS=INIT,NEWER\n", ("warn 1",)),
    ("nccl-env", "NCCL_SET_THREAD_NAME=t\n", ()),
    ("nccl-env", "NCCL_SET_THREAD_NAME=yes\n", ("warn 1",)),
    ("nccl-env", "NCCL_P2P_LEVEL=NVL\nNCCL_NET_GDR_LEVEL=2\n", ()),
    ("nccl-env", "NCCL_P2P_LEVEL=nvl\n", ("fail 1",)),
    ("nccl-env", "NCCL_P2P_DISABLE=true\n", ("warn 1",)),
    ("nccl-env", "NCCL_IB_TC=99999999999999999999\n", ("warn 1",)),
    ("nccl-env", "NCCL_X=" + "x" * 1024, ("fail 1",)),
    ("ansible", "[gpu]\nn[01:16] ansible_user=me\n[all:vars]\nx=1\n[gpu:children]\nother\n[other]\n", ()),
    ("ansible", "[gpu]\na\n[gpu:children]\nother\n", ("fail 4",)),
    ("ansible", "[gpu]\na b\n", ("fail 2",)),
    ("ansible", "[gpu:hostz]\na\n", ("fail 1",)),
    ("ansible", "a ansible_host=10.0.0.1\n", ()),
    ("ansible", "all: {hosts: [a, b]}\n", ("fail 0",)),
    ("ansible", "all: {hosts: a}\n", ()),
    ("ansible", "plugin: aws_ec2\n", ("info 0",)),
    ("ansible", "all:\n  hosts:\n    a:\n      b: !vault |\n        $ANSIBLE_VAULT;1.1;AES256\n        3031\n", ()),
    ("ansible", "all: {hosts: {a: {b: !unsafe '{{ c }}', d: e}}}\n", ()),
    ("ansible", "all: {hosts: {a: !!python/name:os.system x}}\n", ("fail 0",)),
    ("ansible", "all: {hosts: {'n[01:3]': }}\n", ("fail 0",)),
    ("ansible", "all: {hosts: {'n[1:]': }}\n", ("fail 0",)),
    ("ansible", "all: {hosts: {'n[1:8:2]-[a:c]': }}\n", ()),
    ("ansible", "all: {hosts: {7: }}\n", ("fail 0",)),
    ("ansible", "all: {hosts: {a: 0, b: []}}\n", ()),
    ("ansible", "x: {children: {y: {children: {x: }}}}\n", ("fail 0",)),
    ("ansible", "x: {children: {y: text}}\n", ("fail 0", "warn 0")),
    ("ansible", "[a:children]\na\n", ("fail 2",)),
    ("ansible", "[a:children]\nb c\n[b]\n", ("fail 2",)),
    ("ansible", "[a]\nn[3:1] x=1\nn[c:a]\n", ("fail 3",)),
    ("ansible", "[a]\nn1:\n", ("fail 2",)),
    ("ansible", "a-b: {hosts: {x: }}\n", ("warn 0",)),
    ("ansible", "x: {hosts: {a: {ansible_host: h, ansible_port: 1}, b: {ansible_host: h, ansible_port: 2}}}\n", ()),
    ("slurm", "ClusterName=x\nNewerKey=pmix\nNodeName=n[1-2] CPUs=8\nPartitionName=p Nodes=ALL\n", ("info 2",)),
    ("slurm", 'nodename=n1 \\\n  cpus=4 Feature="a b" # four\nPartitionName=p Nodes=n1\n', ()),
    (
        "slurm",
        "NodeName=DEFAULT Gres=gpu:1\nGresTypes=gpu\nNodeName=r[1-2]n[1-4]-ib\nPartitionName=p Nodes=r2n4-ib\n",
        (),
    ),
    ("slurm", "NodeName=n1 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CPUs=8\n", ()),
    ("slurm", "NodeName=n1 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CPUs=9\n", ("warn 1",)),
    ("slurm", "NodeSet=s Nodes=n1\nNodeName=n1\nPartitionName=p Nodes=s\n", ()),
    ("slurm", "NodeName=n[1-[2-3]]\n", ("fail 1",)),
    ("slurm", "NodeName=n1 CPUs\n", ("fail 1",)),
    ("slurm", "SwitchName=a Nodes=n[1-4]\nSwitchName=b Switches=a LinkSpeed=4\n", ()),
    ("slurm", "SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Nodes=n2\n", ("fail 1",)),
    ("slurm", "SwitchName=a Switches=b\nSwitchName=b Switches=a\n", ("fail 1", "fail 2")),
    ("slurm", "AutoDetect=nvml\nNodeName=n1 Name=gpu Count=8\n", ()),
    ("slurm", "NodeName=n1 Name=gpu File=/dev/nvidia[0-3] Count=8\n", ("fail 1",)),
    (
        "slurm",
        GRES.format("h100:8", "Name=gpu Type=h100 File=/dev/nvidia[0-3]\nName=gpu Type=h100 File=/dev/nvidia[4-7]"),
        (),
    ),
    ("slurm", GRES.format("8", "NodeName=n1 Name=gpu Type=h100 File=/dev/nvidia[0-3]"), ("fail 3",)),
]


@pytest.mark.parametrize(("name", "text", "verdicts"), READ, ids=[f"{r[0]}-{n}" for n, r in enumerate(READ)])
def test_a_file_is_judged_as_its_reader_reads_it(name, text, verdicts):
    found = EXPORTS[name].check(text)
    assert tuple(f"{f.verdict} {line_of(f)}" for f in found) == verdicts, found


ANSIBLE = [text for name, text, *_ in (*BROKEN, *READ) if name == "ansible"]


@pytest.mark.parametrize("text", ANSIBLE, ids=[str(n) for n in range(len(ANSIBLE))])
def test_ansible_refuses_the_inventories_that_have_a_fault(text, tmp_path):
    loading = pytest.importorskip("ansible.parsing.dataloader")
    from ansible.inventory.manager import InventoryManager

    path = tmp_path / ("hosts" if text[0] == "[" or "=" in text.split("\n")[0] else "hosts.yml")
    path.write_text(text)
    found = EXPORTS["ansible"].check(text)
    if any(each.verdict == "info" for each in found):
        return  # another program's file
    manager = InventoryManager(loader=loading.DataLoader(), sources=[str(path)])
    has_hosts = not faults(found) and not any(each.message == "no host is listed" for each in found)
    assert bool(manager.list_hosts()) is has_hosts


def test_the_commands(tmp_path):
    path = tmp_path / "job.yml"
    listed = [{"name": "a", "address": "10.0.0.1", "gpus": 2}]
    path.write_text(yaml.safe_dump({"training_job": "x", "nodes": listed, "script": "/a.py"}))

    def run(*words):
        done = CliRunner().invoke(command, words, standalone_mode=False)
        return done.return_value if done.exception is None else done.exception.exit_code, done.stdout

    for name in EXPORTS:
        code, text = run(name, "-f", str(path))
        assert code == 0
        (tmp_path / "made").write_text(text)
        assert run(name, "--check", str(tmp_path / "made"))[0] == 0
        (tmp_path / "made").write_text("{[ ]\n")
        assert run(name, "--check", str(tmp_path / "made"))[0] == 2
    assert run("hostfile")[0] == 64
