"""Random farms on which little is left: memory, CPU, pools, failover capacity, rules, datastores, and work on them.

Nothing here tells whether the work can be done: where a plan refuses it, `exhaustive` looks for a way on the lab.
"""

from __future__ import annotations

import random
from typing import Any

from honesty import sets
from honesty.boards import BOARDS
from honesty.case import VERSIONS, Case, Host, Play, Vm

CLUSTER = "gpu-a"
ROLLING = {"timeout": "20s", "settle": "3s"}
LEVELS = ("fullyAutomated", "fullyAutomated", "fullyAutomated", "partiallyAutomated", "manual", "off")
GENERATIONS = ("skylake", "icelake", "sapphirerapids")
GHZ = 2600
SHARED, LOCAL = "shared-01", "local-{}"
FATES = ("", "", "", "killed", "rolled back", "replaced")
"""What comes after a run, or in its middle."""


def draw(rng: random.Random) -> Case:
    """Return a case whose farm is short of something."""
    case = Case(release=rng.choice(list(VERSIONS)), fate=rng.choice(FATES), job={"windows": [], "changes": {}})
    case.killed_at, case.killed_when = rng.randint(1, 9), rng.choice(("before", "after"))
    case.drs[CLUSTER] = rng.choice(LEVELS)
    case.clusters[CLUSTER] = _cluster(rng)
    for number in range(1, rng.choice((2, 3, 3, 4)) + 1):
        case.hosts.append(_host(f"esx{number:02d}.lab.local", rng))
    _datastores(case, rng)
    for host in case.hosts:
        for number in range(rng.choice((0, 1, 2, 2, 3))):
            case.vms.append(_vm(case, host, number, rng))
    _settle(case)
    case.clusters[CLUSTER]["rules"] = _rules(case, rng)
    _failover_hosts(case, rng)
    windows = _windows(case, rng)
    if not windows or rng.random() < 0.6:
        _changes(case, rng)
    if not case.plays or rng.random() < 0.2:
        _set(case, rng)
    if case.fate == "replaced" and not case.sets:
        case.fate = ""
    rng.shuffle(case.plays)
    return case


def _cluster(rng: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"pools": [_pool("lean", rng), _pool("lean/below", rng)]}
    above, below = made["pools"]
    for name in ("memory_reservation_mb", "cpu_reservation_mhz"):
        below[name] = min(below[name], above[name])
    kind = rng.choice(("", "", "off", "percentage", "slots", "hosts"))
    if kind:
        made["ha"] = {"enabled": True, "admission_control": kind}
    if kind == "percentage":
        made["ha"] |= {"cpu_percent": rng.choice((10, 25)), "memory_percent": rng.choice((15, 25, 40))}
    if rng.random() < 0.2:
        name = rng.choice(("MaxVCPUsPerCore", "MaxVcpusPerClusterPct"))
        made["drs_options"] = {name: rng.choice(("1", "2")) if "Core" in name else rng.choice(("75", "150"))}
    if rng.random() < 0.15:
        made["swap"] = "hostLocal"
    return made


def _pool(path: str, rng: random.Random) -> dict[str, Any]:
    kept = rng.choice((0, 4096, 16384))
    return {
        "path": path,
        "memory_reservation_mb": kept,
        "memory_limit_mb": rng.choice((-1, -1, kept + 8192)),
        "memory_expandable": rng.random() < 0.6,
        "cpu_reservation_mhz": rng.choice((0, 8000)),
    }


def _host(name: str, rng: random.Random) -> Host:
    board = rng.choice(BOARDS) if rng.random() < 0.3 else None
    return Host(
        name=name,
        cluster=CLUSTER,
        board=board,
        gpus=1 if board else 0,
        driver=board.driver if board else "",
        shared_direct=bool(board),
        rdma=rng.random() < 0.7,
        ssh=True,
        ssh_policy="on",
        more={
            "memory_gb": rng.choice((48, 64, 96)),
            "cpu_cores": rng.choice((8, 12, 24)),
            "hyperthreading": rng.random() < 0.8,
            "cpu": rng.choice(GENERATIONS),
            "shows_system_resources": rng.random() < 0.8,
        },
    )


def _datastores(case: Case, rng: random.Random) -> None:
    """One that all hosts share, with little room, and one of each host alone."""
    case.datastores.append({"name": "vsan-gpu"})
    case.datastores.append({"name": SHARED, "type": "VMFS", "capacity_gb": 4000, "free_gb": rng.choice((4, 20, 200))})
    for host in case.hosts:
        name = LOCAL.format(host.name.partition(".")[0])
        free = rng.choice((4, 40, 200))
        case.datastores.append(
            {"name": name, "type": "VMFS", "hosts": [host.name], "capacity_gb": 2000, "free_gb": free}
        )
        if case.clusters[CLUSTER].get("swap") and rng.random() < 0.7:
            host.more["swap_datastore"] = name


def _vm(case: Case, host: Host, number: int, rng: random.Random) -> Vm:
    short = host.name.partition(".")[0]
    vm = Vm(f"{short}-vm{number}", host.name, on=rng.random() < 0.8, tools="running", hardware=rng.choice((14, 17, 19)))
    vm.memory_gb, cpus = rng.choice((4, 8, 16, 24, 32)), rng.choice((2, 4, 4, 8))
    more: dict[str, Any] = {"cpus": cpus}
    reserves = rng.random()
    if reserves < 0.25:
        more["memory_reservation_locked"] = True
    elif reserves < 0.5:
        more["memory_reservation_mb"] = vm.memory_gb * rng.choice((256, 512, 1024))
    if rng.random() < 0.15:
        more["cpu_reservation_mhz"] = cpus * rng.choice((500, 1000))
    if rng.random() < 0.25:
        more["pool"] = rng.choice(("lean", "lean/below"))
    if rng.random() < 0.3:
        more["datastore"] = rng.choice((SHARED, SHARED, LOCAL.format(short)))
    if host.rdma and rng.random() < 0.15:
        more["more_networks"] = ["dvpg-rdma"]
    if rng.random() < 0.1:
        more |= {"iso": rng.choice(("client", "host", f"[{SHARED}] tools.iso")), "iso_connected": rng.random() < 0.7}
    if rng.random() < 0.1:
        more["drs"] = rng.choice(("off", "manual", "fullyAutomated"))
    if rng.random() < 0.05:
        more["swap"] = rng.choice(("vmDirectory", "hostLocal"))
    if host.board and vm.hardware > 14 and not any(v.vgpu for v in case.on(host)) and rng.random() < 0.5:
        most = max(host.board.sliced)
        vm.vgpu, more = (f"{host.board.stem}-{most}c",), {k: v for k, v in more.items() if "memory" not in k}
    vm.more = more
    return vm


def _settle(case: Case) -> None:
    """Let only those VMs run that fit in memory that is reserved: no host and no pool has more than it has.

    What a later change may have made of a farm is drawn: rules, HA, limits of DRS, and space that has gone.
    """
    left = {h.name: _for_vms(h) for h in case.hosts}
    pools = {p["path"]: p for p in case.clusters[CLUSTER]["pools"]}
    given = dict.fromkeys(pools, 0)
    root = sum(left.values()) - pools["lean"]["memory_reservation_mb"]
    for vm in case.vms:
        need = _need(vm)
        path = vm.more.get("pool", "")
        vm.on = vm.on and need <= left[vm.host] and (not path or _gives(pools, given, path, need, root))
        if vm.on:
            left[vm.host] -= need
            for each in [p for p in pools if path == p or path.startswith(f"{p}/")]:
                given[each] += need


def _for_vms(host: Host) -> int:
    """Memory of a host in MB that the lab has for VMs: all but 1 GB and a 64th."""
    size = int(host.more["memory_gb"]) * 1024
    return size - 1024 - size // 64


def _need(vm: Vm) -> int:
    """Memory in MB that a VM holds while it runs: what it reserves, and the overhead of the lab."""
    size = vm.memory_gb * 1024
    kept = size if vm.vgpu or vm.more.get("memory_reservation_locked") else vm.more.get("memory_reservation_mb", 0)
    return int(kept) + 20 + 6 * int(vm.more.get("cpus", 4)) + size // 100


def _gives(pools: dict[str, dict[str, Any]], given: dict[str, int], path: str, need: int, root: int) -> bool:
    """Whether a pool has that much left by itself; of what it would take of the pool above it half is thought gone."""
    pool, inner = pools[path], pools["lean/below"]["memory_reservation_mb"] if path == "lean" else 0
    used = given[path] + need
    over = used + inner - pool["memory_reservation_mb"]
    limited = pool["memory_limit_mb"] >= 0 and used + inner > pool["memory_limit_mb"]
    return not limited and (over <= 0 or (pool["memory_expandable"] and path == "lean" and over < root // 2))


def _rules(case: Case, rng: random.Random) -> list[dict[str, Any]]:
    made = []
    for number in range(rng.choice((0, 0, 1, 1, 2))):
        kind = rng.choice(("affinity", "anti-affinity", "anti-affinity", "host-affinity", "host-anti-affinity"))
        least = 1 if kind.startswith("host") else 2
        if len(case.vms) < least:
            continue
        names = [v.name for v in case.vms]
        if kind == "affinity" and rng.random() < 0.6:  # as they are where DRS keeps to the rule
            at = rng.choice(case.vms).host
            here = [v.name for v in case.vms if v.host == at]
            names = here if len(here) >= least else names
        vms = rng.sample(names, rng.randint(least, min(3, len(names))))
        rule = {"name": f"rule-{number}", "kind": kind, "vms": vms, "mandatory": rng.random() < 0.6}
        if kind.startswith("host"):
            rule["hosts"] = rng.sample([h.name for h in case.hosts], rng.randint(1, len(case.hosts) - 1))
        made.append(rule | {"enabled": rng.random() < 0.9})
    return made


def _failover_hosts(case: Case, rng: random.Random) -> None:
    ha = case.clusters[CLUSTER].get("ha", {})
    if ha.get("admission_control") == "hosts":
        ha["failover_hosts"] = [rng.choice(case.hosts).name]


def _windows(case: Case, rng: random.Random) -> list[Host]:
    """Hosts that enter maintenance mode, with or without a reboot."""
    chosen = rng.sample(case.hosts, rng.choice((0, 1, 1, 2)))
    most = rng.choice((1, 1, 1, 2))
    for host in chosen:
        body: dict[str, Any] = rng.choice(({"nics": {"vmnic1": {"speed": 10000}}}, {"kernel": {"ats_support": True}}))
        way = rng.choice(("power_off", "vmotion", "vmotion"))
        if way == "vmotion" and any(v.vgpu and v.on for v in case.on(host)):
            way = "power_off"
        rolling = {**ROLLING, "evacuate": way, "max_unavailable": most, "reboot": rng.choice(("ssh", "api"))}
        case.plays.append(Play("hosts", (host.name,), {**body, "rolling": rolling}))
        case.job["windows"].append({"host": host.name, "way": way})
    return chosen


def _changes(case: Case, rng: random.Random) -> None:
    """Changes of VMs that take a power cycle."""
    for vm in rng.sample(case.vms, min(len(case.vms), rng.choice((1, 1, 2, 3)))):
        body: dict[str, Any] = {}
        if rng.random() < 0.6 and not vm.vgpu:
            now = vm.more.get("memory_reservation_mb", 0)
            choices = [n for n in (0, vm.memory_gb * 512) if n != now or vm.more.get("memory_reservation_locked")]
            full = [] if vm.more.get("memory_reservation_locked") else ["full"]
            body["hardware"] = {"memory_reservation": rng.choice([*choices, *full, *full])}
        if rng.random() < 0.4 or not body:
            body["tuning"] = {"cpus": rng.choice([n for n in (2, 4, 8, 16, 24) if n != vm.more["cpus"]])}
        if rng.random() < 0.15 and vm.hardware < 17:
            body.setdefault("hardware", {})["version"] = 17
        case.plays.append(Play("vms", (vm.name,), body))
        told = {**body.get("hardware", {}), **body.get("tuning", {})}
        case.job["changes"][vm.name] = told


def _set(case: Case, rng: random.Random) -> None:
    """A set that is made; of other plays nothing is taken away."""
    plays, ssh = list(case.plays), case.ssh
    play = sets.make(case, rng, count=rng.choice((1, 2, 3)), rules=False)
    assert play is not None
    case.plays, case.ssh = plays, ssh
    image, body = case.vm(sets.IMAGE), play["vm_set"]
    image.more["cpus"] = 4
    body |= {"cpus": rng.choice((2, 4, 8, 16)), "memory_gb": rng.choice((4, 8, 16, 32))}
    job: dict[str, Any] = {"names": play["vms"], "cpus": body["cpus"], "memory_gb": body["memory_gb"], "hosts": []}
    if rng.random() < 0.5:
        play["hardware"], job["locked"] = {"memory_reservation": "full"}, True
    if rng.random() < 0.3:
        del body["cluster"]
        body["resource_pool"] = "below"
        job["pool"] = "lean/below"
    if rng.random() < 0.3:
        body["datastore"] = job["datastore"] = SHARED
    placement: dict[str, Any] = {}
    if case.drs[CLUSTER] != "off" and rng.random() < 0.5:
        placement["anti_affinity"] = "must"
        job["apart"] = True
    if case.drs[CLUSTER] != "off" and rng.random() < 0.3:
        allowed = [h.name for h in rng.sample(case.hosts, rng.randint(1, len(case.hosts)))]
        placement |= {"hosts": allowed, "vm_host_rule": "must"}
        job["hosts"] = allowed
    if placement:
        body["placement"] = placement
    case.job["set"] = job
