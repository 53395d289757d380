"""Launchers of frameworks without their frameworks: the same options, the same variables, the same remote commands.

`install` writes them into the folder of programs of a guest: torchrun, accelerate, deepspeed with its launcher of a
node, horovodrun, and pdsh. An option that the real one does not have ends them. What each does with variables is of:

- torchrun, and torch.distributed.launch with `--use_env`: PyTorch 2.13, torch/distributed/run.py,
  elastic/agent/server/local_elastic_agent.py (`_start_workers`) and elastic/multiprocessing/subprocess_handler (the
  agent's environment, then the rank's);
- accelerate 1.15: commands/launch.py (`multi_gpu_launcher`, `deepspeed_launcher`), utils/launch.py; DeepSpeed on
  several machines goes by the program deepspeed, and so by pdsh, unless `deepspeed_multinode_launcher` is standard;
- deepspeed 0.19.8: launcher/runner.py (the login to the first host, the variables that it exports), multinode_runner.py
  (`PDSHRunner`, `OpenMPIRunner`), launcher/launch.py (the variables of a rank);
- horovodrun 0.28.1 without MPI: runner/gloo_run.py (`env` with every variable, over ssh for another host);
- pdsh 2.34 with rcmd/ssh: one ssh for each host, `%n` in the command is the number of the host.
"""

from __future__ import annotations

from pathlib import Path

from support.training_guests import TrainingGuests

NAMES = ("torchrun", "accelerate", "deepspeed", "horovodrun", "pdsh")
PROGRAM = r'''#!/usr/bin/env python3
import argparse, base64, json, os, shlex, socket, subprocess, sys, urllib.parse

EXPORTED = ("MLFLOW", "PYTHON", "MV2", "UCX", "DLTS_JOB_ID", "NCCL")


def wait(children):
    codes = [child.wait() for child in children]
    sys.exit(next((abs(code) for code in codes if code), 0))


def ranks(words, number, of, node, nodes, more=None, omp=True):
    """Start the processes of a node as torchrun's agent does."""
    children = []
    for local in range(of):
        own = {"RANK": node * of + local, "LOCAL_RANK": local, "GROUP_RANK": node, "LOCAL_WORLD_SIZE": of,
               "WORLD_SIZE": nodes * of, "GROUP_WORLD_SIZE": nodes, "ROLE_RANK": node * of + local}
        env = {**os.environ, **{k: str(v) for k, v in own.items()}, **(more or {})}
        if omp and of > 1:
            env.setdefault("OMP_NUM_THREADS", "1")
        children.append(subprocess.Popen(words, env=env))
    wait(children)


def of_script(options, words):
    if options.no_python:
        return words
    return [sys.executable, "-u", *(["-m"] if options.module else []), *words]


def torchrun(argv):
    parser = argparse.ArgumentParser("torchrun", allow_abbrev=False)
    for name in ("nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port", "local-addr", "max-restarts",
                 "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf"):
        parser.add_argument("--" + name, "--" + name.replace("-", "_"))
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("--use_env", action="store_true")  # of torch.distributed.launch alone
    parser.add_argument("--no-python", "--no_python", action="store_true")
    parser.add_argument("-m", "--module", action="store_true")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)
    if options.rdzv_backend == "c10d":  # agents agree on their numbers; here the one with the store is the first
        node, nodes = int("is_host=false" in options.rdzv_conf), int(options.nnodes.split(":")[0])
        address, port = options.rdzv_endpoint.rsplit(":", 1)
    else:
        node, nodes = int(options.node_rank or 0), int(options.nnodes)
        address, port = options.master_addr, options.master_port
    more = {"MASTER_ADDR": address, "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": options.rdzv_id or "none"}
    ranks(of_script(options, options.words), 0, int(options.nproc_per_node), node, nodes, more)


def accelerate(argv):
    parser = argparse.ArgumentParser("accelerate launch", allow_abbrev=False)
    parser.add_argument("--config_file")
    parser.add_argument("-m", "--module", action="store_true")
    parser.add_argument("--no_python", action="store_true")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    assert argv.pop(0) == "launch"
    options = parser.parse_args(argv)
    with open(options.config_file) as file:
        config = {k.strip(): json.loads(v) for k, v in (line.split(":", 1) for line in file if line.strip())}
    nodes, world = config["num_machines"], config["num_processes"]
    os.environ["ACCELERATE_MIXED_PRECISION"] = config["mixed_precision"]
    if config["distributed_type"] == "DEEPSPEED" and nodes > 1:
        if config.get("deepspeed_config", {}).get("deepspeed_multinode_launcher", "pdsh") != "standard":
            sys.exit("deepspeed --no_local_rank --hostfile None --launcher pdsh: no such host file")
    more = {"MASTER_ADDR": config["main_process_ip"], "MASTER_PORT": str(config["main_process_port"])}
    ranks(of_script(options, options.words), 0, world // nodes, config["machine_rank"], nodes, more)


def deepspeed_options(name):
    parser = argparse.ArgumentParser(name, allow_abbrev=False)
    for option in ("master_addr", "master_port", "node_rank"):
        parser.add_argument("--" + option)
    for option in ("no_python", "module", "no_local_rank"):
        parser.add_argument("--" + option, action="store_true")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    return parser


def deepspeed(argv):
    parser = deepspeed_options("deepspeed")
    parser.add_argument("-H", "--hostfile")
    parser.add_argument("--launcher", default="pdsh")
    parser.add_argument("--launcher_args", default="")
    parser.add_argument("--no_ssh", action="store_true")
    options = parser.parse_args(argv)
    with open(options.hostfile) as file:
        pool = {host: int(slots.removeprefix("slots=")) for host, slots in map(str.split, file)}
    world = base64.urlsafe_b64encode(json.dumps({h: list(range(n)) for h, n in pool.items()}).encode()).decode()
    flags = ["--" + name for name in ("no_python", "module", "no_local_rank") if getattr(options, name)]
    own = [sys.argv[0], "launcher.launch", "--world_info=" + world]
    at = ["--master_addr=" + options.master_addr, "--master_port=" + options.master_port, *flags]
    if options.no_ssh or len(pool) == 1:
        node = options.node_rank if options.no_ssh else "0"
        wait([subprocess.Popen([sys.executable, *own, "--node_rank=" + node, *at, *options.words])])
    check = "ssh -o PasswordAuthentication=no %s hostname" % next(iter(pool))
    subprocess.run(check.split(), check=True, stdout=subprocess.DEVNULL)
    env = {**os.environ, "PYTHONPATH": os.path.abspath(".")}
    exports = {name: value for name, value in env.items() if name.startswith(EXPORTED)}
    if options.launcher == "pdsh":
        env["PDSH_RCMD_TYPE"] = "ssh"
        text = "".join("export %s=%s; " % pair for pair in exports.items())
        words = ["pdsh", "-S", "-f", "1024", "-w", ",".join(pool), *shlex.split(options.launcher_args), text,
                 "cd %s;" % os.path.abspath("."), sys.executable, "-u", *own, "--node_rank=%n", *at, *options.words]
    else:
        assert options.launcher == "openmpi"
        extra = shlex.split(options.launcher_args)
        eth0 = [] if "btl_tcp_if_include" in extra else ["--mca", "btl_tcp_if_include", "eth0"]
        given = [word for pair in {**exports, "UCX_TLS": "tcp"}.items() for word in ("-x", "%s=%s" % pair)]
        python = [] if options.no_python else [sys.executable, "-u", *(["-m"] if options.module else [])]
        words = ["mpirun", "-n", str(sum(pool.values())), "-hostfile", options.hostfile, "--mca", "btl", "^openib",
                 *eth0, *extra, *given, *python, *options.words]
    wait([subprocess.Popen(words, env=env)])


def deepspeed_launch(argv):
    """The launcher of one node."""
    parser = deepspeed_options("deepspeed.launcher.launch")
    parser.add_argument("--world_info")
    options = parser.parse_args(argv)
    world = json.loads(base64.urlsafe_b64decode(options.world_info))
    node, sizes = int(options.node_rank), [len(own) for own in world.values()]
    children = []
    for local in range(sizes[node]):
        own = {"MASTER_ADDR": options.master_addr, "MASTER_PORT": options.master_port, "WORLD_SIZE": sum(sizes),
               "CROSS_RANK": node, "CROSS_SIZE": len(sizes), "LOCAL_SIZE": sizes[node],
               "RANK": sum(sizes[:node]) + local, "LOCAL_RANK": local,
               "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(sizes[node])))}
        script, *rest = options.words
        words = [script, *([] if options.no_local_rank else ["--local_rank=%d" % local]), *rest]
        words = words if options.no_python else [sys.executable, "-u", *(["-m"] if options.module else []), *words]
        children.append(subprocess.Popen(words, env={**os.environ, **{k: str(v) for k, v in own.items()}}))
    wait(children)


def horovodrun(argv):
    parser = argparse.ArgumentParser("horovodrun", allow_abbrev=False)
    parser.add_argument("-np", "--num-proc", type=int)
    parser.add_argument("-H", "--hosts")
    parser.add_argument("--network-interfaces", "--network-interface")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)
    hosts = [(host, int(slots)) for host, slots in (each.split(":") for each in options.hosts.split(","))]
    assert sum(slots for _, slots in hosts) == options.num_proc
    own = subprocess.run(["hostname", "-I"], stdout=subprocess.PIPE, text=True).stdout.split()
    env = {name: text for name, text in os.environ.items() if name not in ("OLDPWD", "CUDA_VISIBLE_DEVICES")}
    first = hosts[0][0]
    run = {"HOROVOD_GLOO_RENDEZVOUS_ADDR": first, "HOROVOD_CONTROLLER": "gloo",
           "NCCL_SOCKET_IFNAME": options.network_interfaces or "eth0"}
    command = " ".join([*("%s=%s" % pair for pair in run.items()), *map(shlex.quote, options.words)])
    children, rank = [], 0
    for node, (host, slots) in enumerate(hosts):
        for local in range(slots):
            slot = {"HOSTNAME": host, "RANK": rank, "SIZE": options.num_proc, "LOCAL_RANK": local, "LOCAL_SIZE": slots,
                    "CROSS_RANK": node, "CROSS_SIZE": len(hosts)}
            given = ["HOROVOD_%s=%s" % pair for pair in slot.items()]
            given += ["%s=%s" % (name, shlex.quote(text)) for name, text in env.items()]
            text = "env %s %s" % (" ".join(given), command)
            if host not in own:
                remote = shlex.quote("cd %s > /dev/null 2>&1 ; %s" % (os.getcwd(), text))
                text = "ssh -o PasswordAuthentication=no -o StrictHostKeyChecking=no %s %s" % (host, remote)
            children.append(subprocess.Popen(["/bin/sh", "-c", text]))
            rank += 1
    wait(children)


def pdsh(argv):
    parser = argparse.ArgumentParser("pdsh", allow_abbrev=False)
    parser.add_argument("-S", action="store_true")
    parser.add_argument("-f")
    parser.add_argument("-w")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)
    assert os.environ["PDSH_RCMD_TYPE"] == "ssh"
    text = " ".join(options.words)
    hosts = enumerate(options.w.split(","))
    wait([subprocess.Popen(["ssh", "-2", "-a", "-x", "-l", "root", host, text.replace("%n", str(number))],
                           stdin=subprocess.DEVNULL) for number, host in hosts])


name = "torchrun" if __name__ == "torch.distributed.launch" else os.path.basename(sys.argv[0])
if sys.argv[1:2] == ["launcher.launch"]:
    deepspeed_launch(sys.argv[2:])
else:
    globals()[name](sys.argv[1:])
'''
MODULES = "modules"
"""Folder of Python modules beside those of guests: torch.distributed.launch."""
SSH = '#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n'


def install(guests: TrainingGuests, vm: str, *, real: frozenset[str] = frozenset()) -> None:
    """Give a guest the launchers, but for those that are `real`, and an account that may log in to the other guests."""
    folder = guests.folder / vm / "bin"
    for name in NAMES:
        if name not in real:
            _program(folder / name, PROGRAM)
    legacy = guests.folder / MODULES / "torch" / "distributed"
    legacy.mkdir(parents=True, exist_ok=True)
    (legacy / "launch.py").write_text(f'__name__ = "torch.distributed.launch"\n{PROGRAM}')
    config = guests.folder / "ssh_config"
    config.write_text(
        f"Host *\n  Port 2222\n  IdentityFile {guests.folder / 'id'}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {guests.folder / 'known_hosts'}\n  GlobalKnownHostsFile none\n  BatchMode yes\n"
    )
    _program(folder / "ssh", SSH.format(config=config))


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
