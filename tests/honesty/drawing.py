"""Random cases that can be carried out: a farm, and plays for it that fit it by the way they are drawn."""

from __future__ import annotations

import random

from honesty import needs
from honesty.boards import BOARDS, DIVISIBLE
from honesty.case import RDMA_NIC, SLOTS, VERSIONS, Case, Host, Play, Vm

ROLLING = {"timeout": "20s", "settle": "3s"}
POWER = {"shutdown_timeout": "5s"}


def draw(rng: random.Random, *, hosts: int = 4, vms: int = 3) -> Case:
    """Return a case without faults, with at most so many hosts, and so many VMs on each."""
    case = Case(release=rng.choice(list(VERSIONS)))
    case.hot = case.release != "7.0.2" and rng.random() < 0.7
    _hosts(case, rng)
    case.hosts = case.hosts[:hosts]
    for host in case.hosts:
        _vms(case, host, vms, rng)
    regimes = {h.name: _regime(host=h, case=case, rng=rng) for h in case.hosts if h.board}
    for host in case.hosts:
        _host_play(case, host, regimes.get(host.name, ""), rng)
    _vm_plays(case, rng)
    _shared_play(case, rng)
    if not case.plays:
        case.plays.append(Play("hosts", (case.hosts[0].name,), {"nics": {"vmnic1": {"speed": 10000}}}))
    _evacuation(case, rng)
    _join(case, rng)
    rng.shuffle(case.plays)
    if rng.random() < 0.3:
        case.ssh = {"start_service": rng.choice(("apply", "always"))}
    return case


def _hosts(case: Case, rng: random.Random) -> None:
    number = 0
    for cluster in ("gpu-a", "gpu-b")[: rng.choice((1, 1, 2))]:
        case.drs[cluster] = rng.choice(("fullyAutomated", "fullyAutomated", "partiallyAutomated", "off"))
        rdma, alike = rng.random() < 0.7, rng.choice(BOARDS)
        for _ in range(rng.choice((1, 2, 2, 3))):
            number += 1
            board = alike if rng.random() < 0.8 else rng.choice((None, rng.choice(BOARDS)))
            case.hosts.append(_host(f"esx{number:02d}.lab.local", cluster, board, rdma, rng))
    if rng.random() < 0.25:
        case.hosts.append(_host("esx-alone.lab.local", "", rng.choice((None, *DIVISIBLE)), rng.random() < 0.5, rng))


def _host(name: str, cluster: str, board, rdma: bool, rng: random.Random) -> Host:
    shared_direct = rng.random() < 0.5
    return Host(
        name=name,
        cluster=cluster,
        board=board,
        gpus=rng.choice((1, 1, 2)) if board else 0,
        driver=board.driver if board else "",
        shared_direct=bool(board) and shared_direct,
        mig=bool(board and board.mig) and shared_direct and rng.random() < 0.4,
        rdma=rdma,
        ssh=rng.random() < 0.65,
        ssh_policy=rng.choice(("off", "off", "on")),
        vmknic="vmk2" if rdma and rng.random() < 0.4 else "",
    )


def _vms(case: Case, host: Host, most: int, rng: random.Random) -> None:
    """VMs, some with vGPUs of one type as long as there is room."""
    types = host.board.types(mig=host.mig) if host.board and host.shared_direct else {}
    type_ = rng.choice(sorted(types)) if types and rng.random() < 0.6 else ""
    room = types.get(type_, 0) * host.gpus
    for number in range(min(most, rng.choice((0, 1, 1, 2, 3)))):
        vm = Vm(f"{host.name.partition('.')[0]}-vm{number}", host.name, on=rng.random() < 0.7)
        vm.tools, vm.hardware = rng.choice(("unmanaged", "running")), rng.choice((17, 19))
        if type_ and room and rng.random() < 0.7:
            room -= 1
            vm.vgpu = (type_,)
        case.vms.append(vm)


def _regime(case: Case, host: Host, rng: random.Random) -> str:
    """How the GPUs of a host are to be used: ``mig``, ``layout``, ``sliced``, ``shared``, or "" for as they are."""
    busy = any(v.vgpu and v.on for v in case.on(host))
    choices = ["", "sliced"]
    if host.board.mig:
        choices += ["mig", "mig"]
        if not busy:
            choices.append("layout")
    if not any(v.vgpu for v in case.on(host)):
        choices.append("shared")
    return rng.choice(choices)


def _host_play(case: Case, host: Host, regime: str, rng: random.Random) -> None:
    body: dict = {}
    if regime in ("mig", "layout", "sliced"):
        body["graphics"] = {"default_type": "shared_direct"}
        if rng.random() < 0.4:
            body["graphics"]["assignment_policy"] = rng.choice(("performance", "consolidation"))
    if regime == "shared":
        body["graphics"] = {"default_type": "shared"}
    if regime == "mig":
        body["mig"] = {"mode": "enabled"}
    if regime == "layout":
        _, (profile, most) = rng.choice(sorted(host.board.mig.items()))
        body["mig"] = {"layout": [profile] * rng.randint(1, most)}
    if regime == "sliced" and host.board.mig and (host.mig or rng.random() < 0.5):
        body["mig"] = {"mode": "disabled"}
    if host.rdma and rng.random() < 0.3:
        body["pvrdma_host"] = {"vmknic": "vmk2", "firewall": True}
    if host.rdma and not host.vmknic and rng.random() < 0.15:
        body["roce"] = {"version": "rocev2", "pfc_priority": 3, "trust": "dscp", "dscp": 26}
    if host.rdma and rng.random() < 0.15:
        body["sriov"] = {RDMA_NIC: rng.choice((2, 4))}
    if host.gpus > 1 and not regime and not host.mig and not any(v.vgpu for v in case.on(host)) and rng.random() < 0.4:
        body["passthrough"] = {SLOTS[0]: True}
    if rng.random() < 0.1:
        body["kernel"] = {"ats_support": True}
    if rng.random() < 0.1:
        body["nics"] = {"vmnic1": {"speed": 10000}}
    if body and rng.random() < 0.9:
        case.plays.append(Play("hosts", (host.name,), body))


def _vm_plays(case: Case, rng: random.Random) -> None:
    for host in case.hosts:
        wanted = case.wants(host.name)
        if "passthrough" in wanted:
            _whole_gpu(case, host, rng)
            continue
        types, left = _types_then(host, wanted)
        type_ = rng.choice(sorted(types)) if types else ""
        room = types.get(type_, 0) * host.gpus
        if "layout" in wanted.get("mig", {}):
            type_, room = _in_layout(host, wanted["mig"]["layout"])
        stays = host.mig == left and (not wanted.get("graphics") or host.shared_direct)
        replaced = (
            not stays or "layout" in wanted.get("mig", {}) or rng.random() < 0.5
        )  # else VMs keep what they have, and no other gets any
        for vm in case.on(host):
            body: dict = {}
            if (replaced and vm.vgpu) or (replaced and type_ and rng.random() < 0.5):
                gets = bool(type_) and room > 0 and rng.random() < 0.8
                body["vgpu"] = [type_] if gets else []
                room -= gets
            if rng.random() < 0.3:
                body["hardware"] = {"version": 19}
            if rng.random() < 0.2:
                body["adapters"] = [{"port_group": "dvpg-lan"}, {"port_group": "dvpg-data"}]
            if _has_rdma(case, host) and vm.hardware >= 17 and rng.random() < 0.3:
                body["pvrdma"] = [{"port_group": "dvpg-rdma"}]
            if rng.random() < 0.1:
                body["tuning"] = {"cpus": 8, "cores_per_socket": 4}
            if body.get("vgpu") == list(vm.vgpu):
                del body["vgpu"]
            if body:
                case.plays.append(Play("vms", (vm.name,), body))


def _whole_gpu(case: Case, host: Host, rng: random.Random) -> None:
    """Give the GPU that is passed through to one of the VMs, which has no other wish then."""
    vm = rng.choice([*case.on(host), None])
    if vm is not None:
        case.plays.append(Play("vms", (vm.name,), {"pci_devices": [{"host_device": SLOTS[0]}]}))


def _types_then(host: Host, wanted: dict) -> tuple[dict[str, int], bool]:
    """The vGPU types a host offers after its play, and whether MIG is on then."""
    if host.board is None:
        return {}, False
    said = wanted.get("mig")
    mig = host.mig if said is None else said.get("mode", "enabled") == "enabled"
    type_ = wanted.get("graphics", {}).get("default_type")
    direct = {"shared_direct": True, "shared": False}.get(type_, host.shared_direct)
    return (host.board.types(mig=mig) if direct else {}), mig


def _in_layout(host: Host, layout: list[str]) -> tuple[str, int]:
    name = next(n for n, (profile, _) in host.board.mig.items() if profile == layout[0])
    return f"{host.board.stem}-{name}", len(layout) * host.gpus


def _has_rdma(case: Case, host: Host) -> bool:
    """Whether PVRDMA works on every host of the cluster, now or after the plays."""
    return all(h.rdma and (h.vmknic or "pvrdma_host" in case.wants(h.name)) for h in case.members(host))


def _shared_play(case: Case, rng: random.Random) -> None:
    if rng.random() < 0.15:
        body: dict = {"switches": {"dvs-lan": {"mtu": 9000}}}
        if rng.random() < 0.5:
            body = {"port_groups": {"dvpg-new": {"switch": "dvs-lan", "vlan": rng.randint(2, 99)}}}
        case.plays.append(Play("datacenters", ("DC0",), body))


def _evacuation(case: Case, rng: random.Random) -> None:
    """Say how hosts are emptied: what the VMs on them allow."""
    for play in case.plays:
        if play.of == "vms" and rng.random() < 0.5:
            play.body["power"] = dict(POWER)
        if play.of != "hosts":
            continue
        host = case.host(play.names[0])
        ways = ["power_off"]
        if needs.enters_maintenance(case, host) and _can_move(case, host):
            ways += ["vmotion", "vmotion"]
        if not any(v.on for v in case.on(host)):
            ways.append("")
        way = rng.choice(ways)
        play.body["rolling"] = {**ROLLING, **({"evacuate": way} if way else {}), "reboot": rng.choice(("ssh", "api"))}
        if rng.random() < 0.3:
            play.body["rolling"]["max_unavailable"] = rng.choice((1, 2, "50%"))


def _join(case: Case, rng: random.Random) -> None:
    """Say of several VMs at once what is said of each of them."""
    if rng.random() < 0.5:
        return
    joined: list[Play] = []
    for play in case.plays:
        same = next((p for p in joined if p.of == play.of == "vms" and p.body == play.body), None)
        if same is None:
            joined.append(play)
        else:
            same.names += play.names
    case.plays = joined


def _can_move(case: Case, host: Host) -> bool:
    """Whether every VM that runs there finds a place: by DRS, which is fully automated; those with vGPUs by the run.

    For these there is another host alike without vGPUs and without plays; none of its cluster has MIG on.
    """
    away = [h for h in case.members(host) if h is not host]
    staying = [v for v in case.on(host) if v.on and not needs.goes_off_itself(case, v)]
    at_once = [h for h in away if needs.enters_maintenance(case, h)]
    carried = [v for v in staying if v.vgpu]
    if carried and (not case.hot or any(h.mig or h.board != host.board for h in case.members(host))):
        return False
    free = [h for h in away if h.shared_direct and h.gpus >= host.gpus and _is_left_alone(case, h)]
    taken = any(needs.moves(case, v) for m in away for v in case.on(m))
    return (
        len(at_once) < len(away)
        and (not carried or (bool(free) and not taken))
        and (case.drs.get(host.cluster) == "fullyAutomated" or len(carried) == len(staying))
    )


def _is_left_alone(case: Case, host: Host) -> bool:
    """Whether nothing is wanted of a host or its VMs, and none of these has a vGPU."""
    return not case.wants(host.name) and not any(v.vgpu or case.wants(v.name) for v in case.on(host))
