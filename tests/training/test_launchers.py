"""Commands and variables of every mode, against the documented command lines of the launchers."""

from __future__ import annotations

import json

import pytest
import yaml
from training.nodes import commands, job, launched, node, nodes

from vsphere_ai.app.training.node_program.processes import MARK
from vsphere_ai.errors import Refused
from vsphere_ai.training.launch import RUN_VARIABLE, VARIABLES_FILE
from vsphere_ai.training.launchers import LAUNCHERS, launch

DIR = "/var/tmp/vsphere-ai/run1"
SCRIPT = "/shared/train.py --epochs 3"
MPI = (
    "--mca pml ob1 --mca btl self,vader,tcp --mca btl_tcp_if_include ens192 --mca oob_tcp_if_include ens192 "
    "--mca plm_rsh_no_tree_spawn 1"
)


def static(number, more=""):
    return (
        f"torchrun --nnodes=2 --node-rank={number} --nproc-per-node=2 --master-addr=10.20.0.11 --master-port=29500 "
        f"--local-addr=10.20.0.{11 + number} {more}{SCRIPT}"
    )


def elastic(number):
    return (
        "torchrun --nnodes=2:4 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint=10.20.0.11:29400 --rdzv-id=run1 "
        f"--rdzv-conf=is_host={'false' if number else 'true'} --local-addr=10.20.0.{11 + number} "
        f"--max-restarts=3 {SCRIPT}"
    )


def legacy(number):
    return (
        f"python3 -m torch.distributed.launch --use_env --nnodes=2 --node_rank={number} --nproc_per_node=2 "
        f"--master_addr=10.20.0.11 --master_port=6105 {SCRIPT}"
    )


def deepspeed(number):
    return (
        f"deepspeed --hostfile {DIR}/hostfile --master_addr 10.20.0.11 --master_port 29500 --no_ssh "
        f"--node_rank {number} {SCRIPT}"
    )


RANK = f"python3 {DIR}/rank.py python3 -u {SCRIPT}"
HEAD = "-x MASTER_ADDR -x MASTER_PORT"
TABLE = [
    ("torchrun", {}, [[static(0)], [static(1)]]),
    ("torchrun", {"torchrun": {"max_restarts": 2}}, [[static(n, "--max-restarts=2 ")] for n in (0, 1)]),
    ("torchrun", {"torchrun": {"elastic": "2:4", "max_restarts": 3}}, [[elastic(0)], [elastic(1)]]),
    ("torchrun", {"torchrun": {"legacy": True}, "port": 6105}, [[legacy(0)], [legacy(1)]]),
    ("env", {}, [[f"python3 -u {SCRIPT}"] * 2] * 2),
    (
        "mpi",
        {},
        [[f"mpirun -np 4 --hostfile {DIR}/hostfile --map-by ppr:2:node --bind-to none {MPI} {HEAD} {RANK}"], []],
    ),
    ("horovod", {}, [[f"horovodrun -np 4 -H 10.20.0.11:2,10.20.0.12:2 --network-interfaces ens192 {RANK}"], []]),
    (
        "horovod",
        {"mpi": {"via": "mpirun"}},
        [
            [
                "mpirun -np 4 -H 10.20.0.11:2,10.20.0.12:2 --bind-to none --map-by slot -x LD_LIBRARY_PATH -x PATH "
                f"{HEAD} --mca pml ob1 --mca btl ^openib --mca btl_tcp_if_include ens192 "
                f"--mca oob_tcp_if_include ens192 {RANK}"
            ],
            [],
        ],
    ),
    ("deepspeed", {}, [[deepspeed(0)], [deepspeed(1)]]),
    (
        "deepspeed",
        {"deepspeed": {"via": "openmpi"}},
        [
            [
                f"deepspeed --hostfile {DIR}/hostfile --master_addr 10.20.0.11 --master_port 29500 --launcher openmpi "
                f"--launcher_args --mca btl_tcp_if_include ens192 --mca oob_tcp_if_include ens192 "
                f"--no_local_rank --no_python {RANK}"
            ],
            [],
        ],
    ),
    (
        "deepspeed",
        {"deepspeed": {"via": "pdsh"}},
        [
            [
                f"deepspeed --hostfile {DIR}/hostfile --master_addr 10.20.0.11 --master_port 29500 --launcher pdsh "
                f"--no_local_rank --no_python {RANK}"
            ],
            [],
        ],
    ),
    ("accelerate", {}, [[f"accelerate launch --config_file {DIR}/accelerate.yaml {SCRIPT}"]] * 2),
    ("lightning", {}, [[static(0)], [static(1)]]),
    ("lightning", {"lightning": {"via": "env"}}, [[f"python3 -u {SCRIPT}"] * 2] * 2),
    ("tensorflow", {}, [[f"python3 -u {SCRIPT}"]] * 2),
]


@pytest.mark.parametrize(("mode", "more", "expected"), TABLE, ids=[f"{m}-{n}" for n, (m, _, _) in enumerate(TABLE)])
def test_the_commands_of_a_mode(mode, more, expected):
    made = launched(mode, args=["--epochs", 3], **more)
    assert commands(made) == expected
    assert made.mode == mode


def test_every_mode_is_in_the_table():
    assert {mode for mode, _, _ in TABLE} == set(LAUNCHERS)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("torchrun", "torchrun --standalone --nnodes=1 --nproc-per-node=2 /shared/train.py"),
        (
            "mpi",
            f"mpirun -np 2 --hostfile {DIR}/hostfile --map-by ppr:2:node --bind-to none --mca pml ob1 "
            f"--mca btl self,vader,tcp {HEAD} python3 {DIR}/rank.py python3 -u /shared/train.py",
        ),
        ("horovod", f"horovodrun -np 2 -H 10.20.0.11:2 python3 {DIR}/rank.py python3 -u /shared/train.py"),
    ],
)
def test_one_node_needs_no_network(mode, expected):
    assert commands(launched(mode, 1)) == [[expected]]


@pytest.mark.parametrize(
    ("mode", "what", "end"),
    [
        ("torchrun", {"module": "pkg.train"}, " -m pkg.train"),
        ("torchrun", {"command": ["/opt/run", "-v"]}, " --no-python /opt/run -v"),
        ("env", {"module": "pkg.train"}, "python3 -u -m pkg.train"),
        ("env", {"command": ["/opt/run", "-v"]}, "/opt/run -v"),
        ("mpi", {"command": ["all_reduce_perf", "-b", "8"]}, "rank.py all_reduce_perf -b 8"),
        ("deepspeed", {"module": "pkg.train"}, " --module pkg.train"),
        ("deepspeed", {"command": ["/opt/run"]}, " --no_local_rank --no_python /opt/run"),
        ("accelerate", {"command": ["/opt/run"]}, " --no_python /opt/run"),
    ],
)
def test_a_module_and_a_command(mode, what, end):
    assert commands(launched(mode, **what))[0][0].endswith(end)


def test_programs_of_a_python_environment_lie_beside_its_python():
    assert commands(launched("torchrun", python="/opt/venv/bin/python"))[0][0].startswith("/opt/venv/bin/torchrun ")
    assert commands(launched("env", python="/opt/venv/bin/python"))[0][0].startswith("/opt/venv/bin/python -u ")


def test_the_eight_variables_of_each_process():
    made = launched("env", of=(node(0, gpus=2), node(1, gpus=1)))
    found = [p.env for each in made.nodes for p in each.processes]
    head = {"MASTER_ADDR": "10.20.0.11", "MASTER_PORT": "29500", "WORLD_SIZE": "3"}
    own = [("0", "0", "2", "0"), ("1", "1", "2", "0"), ("2", "0", "1", "1")]
    for env, (rank, local, size, group) in zip(found, own, strict=True):
        mine = {"RANK": rank, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": size, "NODE_RANK": group, "GROUP_RANK": group}
        assert env == head | mine | ({"OMP_NUM_THREADS": "1"} if size == "2" else {})


def test_placeholders_have_the_values_of_each_process():
    args = [
        "--rank",
        "{rank}",
        "--local={local_rank}",
        "{node_rank}/{nodes}",
        "{{keep}}",
        "{run_dir}/x",
        "{master_port}",
    ]
    made = launched("env", args=args, env={"HERE": "{node_rank}"})
    words = [p.argv[3:] for each in made.nodes for p in each.processes]
    assert words[3] == ("--rank", "3", "--local=1", "1/2", "{keep}", f"{DIR}/x", "29500")
    assert [made.nodes[n].processes[0].env["HERE"] for n in (0, 1)] == ["0", "1"]


@pytest.mark.parametrize("mode", ["torchrun", "deepspeed", "accelerate", "mpi"])
def test_a_launcher_of_a_node_leaves_placeholders_of_ranks_to_the_rank_file(mode):
    made = launched(mode, args=["{local_rank}", "{run}"])
    assert commands(made)[0][0].endswith(f"python3 {DIR}/rank.py python3 -u /shared/train.py {{local_rank}} run1")
    assert {f.name for each in made.nodes for f in each.files} >= {"rank.py"}
    assert all(any(f.name == "rank.py" for f in each.files) for each in made.nodes)


def test_the_host_file_and_the_configuration_of_accelerate():
    mpi = {f.name: f.text for f in launched("mpi").nodes[0].files}
    assert mpi["hostfile"] == "10.20.0.11 slots=2\n10.20.0.12 slots=2\n"
    made = launched("accelerate", accelerate={"mixed_precision": "bf16"})
    found = [yaml.safe_load(each.files[0].text) for each in made.nodes]
    assert found[1] == {**found[0], "machine_rank": 1}
    assert found[0] == {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "MULTI_GPU",
        "mixed_precision": "bf16",
        "num_machines": 2,
        "num_processes": 4,
        "machine_rank": 0,
        "main_process_ip": "10.20.0.11",
        "main_process_port": 29500,
        "rdzv_backend": "static",
        "same_network": True,
    }


def test_accelerate_is_told_that_each_machine_starts_deepspeed():
    made = launched("accelerate", accelerate={"distributed_type": "DEEPSPEED"})
    config = yaml.safe_load(made.nodes[0].files[0].text)
    assert config["deepspeed_config"] == {"deepspeed_multinode_launcher": "standard"}


def test_pdsh_is_given_placeholders_and_no_variable_that_a_shell_would_read():
    made = launched(
        "deepspeed", deepspeed={"via": "pdsh"}, args=["--rank={rank}", "50%"], env={"NCCL_X": 'a"b', "A": 1}
    )
    first = made.nodes[0]
    assert first.processes[0].argv[-2:] == ("--rank={rank}", "50%")
    assert (first.processes[0].env.get("NCCL_X"), first.processes[0].env["A"]) == (None, "1")
    assert json.loads(next(f.text for f in first.files if f.name == VARIABLES_FILE))["NCCL_X"] == 'a"b'


@pytest.mark.parametrize(("chief", "servers"), [(False, 0), (True, 0), (False, 2), (True, 5)])
def test_every_task_of_tensorflow_has_the_same_cluster_and_its_own_index(chief, servers):
    made = launched("tensorflow", 3, tensorflow={"chief": chief, "parameter_servers": servers})
    every = [p for each in made.nodes for p in each.processes]
    configs = [json.loads(p.env["TF_CONFIG"]) for p in every]
    clusters = {json.dumps(c["cluster"]) for c in configs}
    assert len(clusters) == 1
    cluster = configs[0]["cluster"]
    sizes = {"chief": int(chief), "worker": 3 - chief, "ps": servers}
    assert {k: len(v) for k, v in cluster.items()} == {k: v for k, v in sizes.items() if v}
    tasks = {(c["task"]["type"], c["task"]["index"]) for c in configs}
    assert tasks == {(kind, n) for kind, own in cluster.items() for n in range(len(own))}
    assert len(configs) == len({a for own in cluster.values() for a in own})
    for each, process in ((e, p) for e in made.nodes for p in e.processes):
        task = json.loads(process.env["TF_CONFIG"])["task"]
        assert cluster[task["type"]][task["index"]].startswith(f"{each.node.address}:")
        assert (process.order, process.env.get("CUDA_VISIBLE_DEVICES")) == (
            (0, "") if task["type"] == "ps" else (1, None)
        )


def test_variables_that_differ_between_nodes_are_in_a_file_of_each():
    same, other = node(0), node(1)
    of = (same, type(other)(**{**vars(other), "rails": (type(other.rails[0])("ens256", rdma_device="mlx5_3"),)}))
    made = launched("mpi", of=of, nccl="auto", env={"A": "b"})
    own = [json.loads(next(f.text for f in each.files if f.name == "env.json")) for each in made.nodes]
    assert [o["NCCL_IB_HCA"] for o in own] == ["=rocep1s0:1", "=mlx5_3:1"]
    assert made.nodes[0].processes[0].env["A"] == "b"
    assert "-x A " in commands(made)[0][0]


FROM_HEAD = [
    ("mpi", {}),
    ("horovod", {}),
    ("horovod", {"mpi": {"via": "mpirun"}}),
    ("deepspeed", {"deepspeed": {"via": "openmpi"}}),
    ("deepspeed", {"deepspeed": {"via": "pdsh"}}),
    ("deepspeed", {"deepspeed": {"via": "pdsh"}, "script": None, "module": "pkg.train"}),
    ("deepspeed", {"deepspeed": {"via": "openmpi"}, "script": None, "command": ["/opt/run"]}),
]


@pytest.mark.parametrize(("mode", "more"), FROM_HEAD)
def test_what_starts_on_one_node_finds_all_variables_on_each(mode, more):
    made = launched(mode, env={"FOO": "bar"}, **more)
    assert f"{DIR}/rank.py" in made.nodes[0].processes[0].argv
    for each in made.nodes:
        own = json.loads(next(f.text for f in each.files if f.name == VARIABLES_FILE))
        assert "rank.py" in {f.name for f in each.files}
        assert (own["FOO"], own["MASTER_ADDR"], own[RUN_VARIABLE]) == ("bar", made.nodes[0].node.address, made.run)


def test_the_program_on_nodes_finds_processes_by_the_same_variable():
    assert RUN_VARIABLE == MARK


def test_a_key_for_one_run_lets_rank_0_log_in():
    made = launched("mpi", mpi={"ssh_mesh": True})
    words = made.nodes[0].processes[0].argv
    agent = words[words.index("plm_rsh_agent") + 1]
    assert made.needs_mesh
    assert agent == f"ssh -F {DIR}/mesh_config"
    assert not launched("mpi").needs_mesh
    assert not launched("mpi", 1, mpi={"ssh_mesh": True}).needs_mesh


REFUSED = [
    ("env", {"processes_per_node": 3}, "launch.too-many"),
    ("torchrun", {"torchrun": {"elastic": "3:4"}}, "launch.elastic"),
    ("torchrun", {"torchrun": {"legacy": True, "elastic": "2:4"}}, "launch.legacy"),
    ("deepspeed", {"deepspeed": {"via": "pdsh"}, "args": ["a b"]}, "launch.pdsh"),
    ("deepspeed", {"deepspeed": {"via": "pdsh"}, "args": ["--name=%h"]}, "launch.pdsh"),
    ("deepspeed", {"deepspeed": {"via": "pdsh"}, "mpi": {"ssh_mesh": True}}, "launch.deepspeed-ssh"),
    ("horovod", {"mpi": {"ssh_mesh": True}}, "launch.horovodrun-ssh"),
    ("lightning", {"args": ["--num_nodes", "4"]}, "launch.lightning"),
    ("lightning", {"args": ["--trainer.devices=1"]}, "launch.lightning"),
    ("tensorflow", {"tensorflow": {"workers": 3}}, "launch.workers"),
]


@pytest.mark.parametrize(("mode", "more", "rule"), REFUSED, ids=[f"{r}-{m}" for m, _, r in REFUSED])
def test_what_cannot_run_is_refused(mode, more, rule):
    with pytest.raises(Refused) as refused:
        launched(mode, **more)
    assert refused.value.rule == rule


@pytest.mark.parametrize("args", [["--num_nodes=2", "--devices", "2"], ["--devices=auto"], ["--devices={local_size}"]])
def test_lightning_with_the_numbers_that_are_launched(args):
    assert launched("lightning", args=args)


def test_nodes_without_or_with_unlike_gpus():
    with pytest.raises(Refused) as refused:
        launched("torchrun", gpus=0)
    assert refused.value.rule == "launch.no-gpu"
    assert launched("torchrun", gpus=0, processes_per_node=2)
    uneven = (node(0, gpus=2), node(1, gpus=4))
    for mode in ("mpi", "horovod", "accelerate", "lightning"):
        with pytest.raises(Refused) as refused:
            launched(mode, of=uneven)
        assert refused.value.rule == "launch.uneven"
    assert [c[0].split()[3] for c in commands(launched("torchrun", of=uneven))] == [
        "--nproc-per-node=2",
        "--nproc-per-node=4",
    ]


def test_a_host_list_takes_no_ipv6_address():
    other = type(node(0))(**{**vars(node(1)), "address": "fd00::2"})
    with pytest.raises(Refused):
        launch(job(), "horovod", (node(0), other), "run1")


def test_the_nodes_are_the_ranks_in_their_order():
    made = launched("env", 4)
    assert [each.node for each in made.nodes] == list(nodes(4))
    assert [r.rank for each in made.nodes for p in each.processes for r in p.ranks] == list(range(8))
