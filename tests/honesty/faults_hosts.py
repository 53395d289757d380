"""What can be wrong with hosts, with the way to their shells, and with vCenter."""

from __future__ import annotations

from collections.abc import Callable

from honesty import needs
from honesty.case import Case, Host
from honesty.faults import always, fault, named, one

AWAY = 600.0
"""Seconds a host that has lost its power takes to boot: longer than any case."""


def any_shell(case: Case, _about: str) -> bool:
    """Some host is sent commands."""
    return any(needs.over_ssh(case, h) for h in case.hosts)


def its_shell(case: Case, host: str) -> bool:
    """That host is sent commands."""
    return needs.over_ssh(case, case.host(host))


@fault("no ssh section", any_shell)
def _no_ssh(case, _rng):
    case.ssh = None
    return "ssh"


def _in_ssh(case: Case, **changes) -> str | None:
    if case.ssh is None:
        return None
    case.ssh = {**case.ssh, **changes}
    return "ssh"


@fault("wrong SSH password", any_shell, over_ssh=True)
def _password(case, _rng):
    return _in_ssh(case, password="file:wrong")


@fault("wrong SSH user", any_shell, over_ssh=True)
def _user(case, _rng):
    return _in_ssh(case, username="admin")


@fault("no known_hosts", any_shell)
def _known_hosts(case, _rng):
    return _in_ssh(case, known_hosts="nowhere")


@fault("unknown host key", its_shell, over_ssh=True)
def _unknown(case, rng):
    host = rng.choice(case.hosts).name
    case.keys[host] = "unknown"
    return host


@fault("another host key", its_shell, over_ssh=True)
def _other_key(case, rng):
    host = rng.choice(case.hosts).name
    case.keys[host] = "other"
    return host


@fault("SSH port closed", its_shell, over_ssh=True)
def _no_answer(case, rng):
    host = rng.choice(case.hosts).name
    if case.ssh is None:
        return None
    return host if _in_ssh(case, addresses={**case.ssh.get("addresses", {}), host: "127.0.0.1:9"}) else None


@fault("lockdown mode", its_shell)
def _lockdown(case, rng):
    host = rng.choice(case.hosts)
    host.more["lockdown"] = rng.choice(("normal", "strict"))
    return host.name


def never_reached(case: Case, _about: str) -> bool:
    """A host that is sent commands has SSH stopped, at the start or after its reboot, and nobody may start it."""
    return any(
        needs.over_ssh(case, h) and (not h.ssh or (h.ssh_policy == "off" and needs.over_ssh_after_reboot(case, h)))
        for h in case.hosts
    )


@fault("start_service: never", never_reached)
def _never(case, _rng):
    for host in case.hosts:  # SSH that runs, and that a reboot would stop for good: whether that is allowed is no fault
        if host.ssh and needs.reboots(case, host) and not needs.over_ssh_after_reboot(case, host):
            host.ssh_policy = "on"
    return _in_ssh(case, start_service="never")


def its_gpus(case: Case, host: str) -> bool:
    """The host's GPUs have to be read, or waited for after a reboot."""
    at = case.host(host)
    return at.gpus > 0 and ("mig" in case.wants(host) or needs.reboots(case, at))


@fault("nvidia-smi does not work", its_gpus, over_ssh=True)
def _smi(case, rng):
    host = one(rng, [h for h in case.hosts if h.gpus])
    if host:
        do = rng.choice(({"exit": 9}, "malformed", "truncate"))
        case.rules.append({"on": "ssh: nvidia-smi", "target": host.name, "do": do})
    return named(host)


# -- hosts


def its_play(case: Case, host: str) -> bool:
    """Something is wanted of this host, or is to be changed in a VM on it."""
    return bool(case.wants(host)) or any(needs.changes(case, v) for v in case.on(case.host(host)))


def away_spoils(case: Case, host: str) -> bool:
    """It is needed itself, or its absence uses up what may be out of service."""
    return its_play(case, host) or no_budget(case, host)


def no_budget(case: Case, host: str) -> bool:
    """A host of the cluster that needs a window finds as many out of service as may be."""
    at = case.host(host)
    others = [h for h in case.members(at) if h is not at]
    down = {name for what, name in case.before if what in ("away", "maintenance")}
    return any(
        needs.enters_maintenance(case, h)
        and h.name not in down
        and _allowed(case, h) <= sum(m.name in down for m in case.members(h))
        for h in others
    )


def _allowed(case: Case, host: Host) -> int:
    # of the hosts that take turns; one found in maintenance mode takes none
    turns = [h for h in needs.windows(case) if ("maintenance", h.name) not in case.before and h in case.members(host)]
    said = [needs.rolling(case, h).get("max_unavailable", 1) for h in turns]
    most = len(case.members(host))
    return min(n if isinstance(n, int) else max(1, most * int(n.rstrip("%")) // 100) for n in said)


@fault("host away", away_spoils)
def _away(case, rng):
    rdma = {h.name for h in case.hosts if any("pvrdma" in case.wants(v.name) for m in case.members(h)
                                              for v in case.on(m))}  # fmt: skip
    found = [h for h in case.hosts if h.name not in rdma and _can_be_down(case, h)]
    host = one(rng, found)
    if host:
        host.more["boot_seconds"] = AWAY
        case.before.append(("away", host.name))
    return named(host)


def _can_be_down(case: Case, host: Host) -> bool:
    """Whether nothing runs there, it is not down yet, and no VM is to move to some host of its cluster."""
    quiet = not any(v.on for v in case.on(host)) and host.name not in {name for _, name in case.before}
    return quiet and not any(needs.moves(case, v) for m in case.members(host) for v in case.on(m))


@fault("host in maintenance mode", no_budget)
def _maintenance(case, rng):
    may = "Host.Config.Maintenance" not in case.denied
    host = one(rng, [h for h in case.hosts if may and _can_be_down(case, h)])
    if host:
        case.before.append(("maintenance", host.name))
    return named(host)


@fault("a red alarm from before", lambda case, host: False)
def _alarm(case, rng):
    host = rng.choice(case.hosts).name
    case.before.append(("alarm", host))
    return host


@fault("evacuate: refuse", lambda case, host: any(v.host == host and v in needs.evacuated(case) for v in case.vms))
def _refuse(case, rng):
    plays = [p for p in case.plays if p.of == "hosts"]
    play = one(rng, [p for p in plays if any(v.on for v in case.on(case.host(p.names[0])))])
    if not play:
        return None
    play.body["rolling"].pop("evacuate", None)
    return play.names[0]


def cannot_move(case: Case, host: str) -> bool:
    """A VM has to be moved, and DRS does not move it. One with a vGPU does not take DRS."""
    return any(v.host == host and needs.moves(case, v) and not v.vgpu for v in case.vms)


def not_carried(case: Case, _about: str) -> bool:
    """A VM with a vGPU has to be moved, and vCenter does not allow it or is too old for it."""
    return any(needs.moves(case, v) and v.vgpu for v in case.vms)


@fault("vMotion of vGPUs is not allowed", not_carried)
def _not_hot(case, rng):
    plays = [p for p in case.plays if p.of == "hosts" and any(v.on and v.vgpu for v in case.on(case.host(p.names[0])))]
    play = one(rng, [p for p in plays if case.drs.get(case.host(p.names[0]).cluster) == "fullyAutomated"])
    if play is None:
        return None
    host = case.host(play.names[0])
    if any(v.on and not v.vgpu for v in case.on(host)) or any(needs.moves(case, v) for v in case.vms):
        return None  # whether those find a place is another question
    case.hot = False
    play.body["rolling"]["evacuate"] = "vmotion"
    return host.name


@fault("vMotion without DRS", lambda case, host: cannot_move(case, host))
def _no_drs(case, rng):
    plays = [p for p in case.plays if p.of == "hosts" and any(v.on for v in case.on(case.host(p.names[0])))]
    play = one(rng, [p for p in plays if not any(v.on and v.vgpu for v in case.on(case.host(p.names[0])))])
    if not play:
        return None
    host = case.host(play.names[0])
    play.body["rolling"]["evacuate"] = "vmotion"
    if host.cluster:
        case.drs[host.cluster] = rng.choice(("off", "manual", "partiallyAutomated"))
        for other in case.members(host):  # one fault at a time: nobody else counts on DRS
            for p in case.plays:
                if p.of == "hosts" and p is not play and p.names[0] == other.name and "evacuate" in p.body["rolling"]:
                    p.body["rolling"]["evacuate"] = "power_off"
    return host.name


@fault("wrong vCenter password", always)
def _vcenter_password(case, _rng):
    case.vcenter["password"] = "file:wrong"
    return "vcenter"


@fault("another certificate", always)
def _certificate(case, _rng):
    case.before.append(("certificate", ""))
    return "vcenter"


@fault("vCenter's service is down", always)
def _down(case, _rng):
    case.rules.append({"on": "any", "do": 503})
    return "vcenter"


@fault("vCenter is slow", lambda case, about: False)
def _slow(case, _rng):
    case.rules.append({"on": "any", "probability": 0.05, "do": {"delay": "200ms"}})
    return "vcenter"


@fault("sessions that end", lambda case, about: False)
def _sessions(case, _rng):
    case.rules.append({"on": "any", "probability": 0.03, "times": 3, "do": "expire-session"})
    return "vcenter"


NEEDED: dict[str, list[Callable[[Case], bool]]] = {}
"""Privilege -> which cases take it; the faults of a kind add theirs."""
PRIVILEGES: dict[str, Callable[[Case], bool]] = {
    "Host.Config.Maintenance": lambda c: bool(needs.windows(c)),
    "VirtualMachine.Interact.PowerOff": lambda c: any(needs.goes_off(c, v) for v in c.vms),
    "VirtualMachine.Interact.PowerOn": lambda c: any(needs.goes_off(c, v) for v in c.vms),
    "VirtualMachine.Config.AddRemoveDevice": lambda c: any(
        {"vgpu", "pvrdma", "adapters", "pci_devices"} & c.wants(v.name).keys() for v in c.vms
    ),
    "VirtualMachine.Config.UpgradeVirtualHardware": lambda c: any(
        c.wants(v.name).get("hardware", {}).get("version", v.hardware) != v.hardware for v in c.vms
    ),
    "Host.Config.Settings": lambda c: any(
        "graphics" in c.wants(h.name) and needs.reboots_for_graphics(c, h) for h in c.hosts
    ),
    "Host.Config.PciPassthru": lambda c: any({"sriov", "passthrough"} & c.wants(h.name).keys() for h in c.hosts),
    "VirtualMachine.Config.CPUCount": lambda c: any("tuning" in c.wants(v.name) for v in c.vms),
    "Host.Config.NetService": lambda c: any(
        (needs.over_ssh(c, h) and (not h.ssh or needs.over_ssh_after_reboot(c, h)))
        # EnableRuleset takes it as well; the ruleset of a host with a tagged adapter is open
        or (c.wants(h.name).get("pvrdma_host", {}).get("firewall") and not h.vmknic)
        for h in c.hosts
    ),
}


for _name, _needed in PRIVILEGES.items():
    NEEDED.setdefault(_name, []).append(_needed)


@fault("a missing privilege", lambda case, name: any(needed(case) for needed in NEEDED[name]))
def _privilege(case, rng):
    # whoever has put a host into maintenance mode before was the same account
    taken = {"Host.Config.Maintenance"} if any(what == "maintenance" for what, _ in case.before) else set()
    name = rng.choice(sorted(NEEDED.keys() - taken))
    case.denied.append(name)
    return name
