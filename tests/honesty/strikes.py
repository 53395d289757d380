"""What happens by chance while a run is under way, and no plan can know: it has to end well, or to clean up."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from honesty import needs, sets
from honesty.case import Case


@dataclass(frozen=True)
class Strike:
    """A rule for the lab's faults, and the cases in whose run it has something to strike."""

    rule: dict[str, Any]
    met: Callable[[Case], bool]
    in_vain: bool = False
    """Whether the run waits for a host or a guest until its time is over."""
    into: Callable[[Case, random.Random], bool] | None = None
    """Makes a case anew in whose run it has something to strike; no other strike is beside it then."""


def window(case: Case) -> bool:
    """A host enters maintenance mode."""
    return bool(needs.windows(case))


def restart(case: Case) -> bool:
    """A host restarts."""
    return any(needs.reboots(case, h) for h in case.hosts)


def restart_over_ssh(case: Case) -> bool:
    """A host is restarted with a command."""
    return any(needs.reboots(case, h) and needs.rolling(case, h).get("reboot") != "api" for h in case.hosts)


def restart_with_gpus(case: Case) -> bool:
    """A host with GPUs restarts."""
    return any(needs.reboots(case, h) and h.gpus for h in case.hosts)


def graphics(case: Case) -> bool:
    """The graphics type of GPUs changes."""
    return any(needs.reboots_for_graphics(case, h) for h in case.hosts)


def mode(case: Case) -> bool:
    """MIG is switched on or off."""
    return any(needs.mig_then(case.wants(h.name), h.mig) != h.mig for h in case.hosts)


def shell(case: Case) -> bool:
    """A host is sent commands."""
    return any(needs.over_ssh(case, h) for h in case.hosts)


def reconfigured(case: Case) -> bool:
    """A device of a VM changes."""
    return any({"vgpu", "pvrdma", "adapters", "tuning"} & case.wants(v.name).keys() for v in case.vms)


def off(case: Case) -> bool:
    """A VM is powered off and on again."""
    return any(needs.goes_off(case, v) for v in case.vms)


def off_by_plays(case: Case) -> bool:
    """A VM is powered off and on again, and plays say of each such VM how long its guest is waited for."""
    named = {name for play in case.plays if play.of == "vms" for name in play.names}
    return off(case) and all(v.name in named for v in case.vms if needs.goes_off(case, v))


def two_off(case: Case) -> bool:
    """Two guests are shut down."""
    return sum(needs.goes_off(case, v) and v.tools == "running" for v in case.vms) > 1


ENTER = {"on": "EnterMaintenanceMode_Task", "nth": 1}
PATIENCE = "4s"
"""What a run waits for hosts and guests where it waits in vain."""
LEAVE = {"on": "ExitMaintenanceMode_Task", "nth": 1}
RECONFIGURE = {"on": "ReconfigVM_Task", "nth": 1}
SECOND = {"on": "any-mutation", "nth": 2}

STRIKES: dict[str, Strike] = {
    "a reply is lost": Strike({**SECOND, "do": "lost-reply"}, window),
    "replies are lost": Strike({"on": "any-mutation", "probability": 0.2, "times": 3, "do": "lost-reply"}, window),
    "a reply never comes": Strike({**SECOND, "do": "hang"}, window),
    "a reply breaks off": Strike({**SECOND, "when": "mid-body", "do": "drop"}, window),
    "half a reply": Strike({**SECOND, "when": "after", "do": "truncate"}, window),
    "a reply is no XML": Strike({"on": "any", "probability": 0.05, "times": 2, "do": "malformed"}, window),
    "connections break": Strike(
        {"on": "any", "probability": 0.05, "times": 3, "when": "before", "do": "reset"}, window
    ),
    "vCenter restarts": Strike(
        {"on": "any-mutation", "nth": 3, "do": {"restart": "500ms", "starting": "300ms"}}, window
    ),
    "the proxy answers 503": Strike({"on": "any", "probability": 0.1, "times": 4, "do": 503}, window),
    "the proxy answers 401": Strike({"on": "any", "nth": 20, "do": 401}, window),
    "sessions end": Strike({"on": "any", "probability": 0.05, "times": 2, "do": "expire-session"}, window),
    "a reconfiguration fails": Strike({**RECONFIGURE, "do": {"task-fails": "GenericVmConfigFault"}}, reconfigured),
    "a reconfiguration fails and quotes what was sent": Strike(
        {**RECONFIGURE, "do": {"task-echoes": "GenericVmConfigFault"}}, reconfigured
    ),
    "a task is gone": Strike({**RECONFIGURE, "do": "task-gone"}, reconfigured),
    "vCenter has room for one task": Strike({"on": "ReconfigVM_Task", "do": {"most-tasks": 1}}, reconfigured),
    "maintenance mode is refused": Strike({**ENTER, "do": {"task-fails": "InvalidState"}}, window),
    "maintenance mode is not reached": Strike({**ENTER, "do": {"task-stuck": 20}}, window, in_vain=True),
    "graphics are refused": Strike(
        {"on": "UpdateGraphicsConfig", "nth": 1, "do": {"fault": "HostConfigFault"}}, graphics
    ),
    "graphics are refused and quoted": Strike(
        {"on": "UpdateGraphicsConfig", "nth": 1, "do": {"fault-echoes": "HostConfigFault"}}, graphics
    ),
    "nvidia-smi refuses a mode": Strike({"on": "ssh: nvidia-smi.* -mig ", "nth": 1, "do": {"exit": 19}}, mode),
    "the order to reboot is refused": Strike({"on": "ssh: reboot", "nth": 1, "do": {"exit": 1}}, restart_over_ssh),
    "SSH breaks at the reboot": Strike(
        {"on": "ssh: reboot", "nth": 1, "when": "before", "do": "drop"}, restart_over_ssh
    ),
    "SSH connections break": Strike({"on": "ssh-connect", "do": "reset"}, shell),
    "a guest's shutdown is refused": Strike(
        {"on": "ShutdownGuest", "nth": 2, "do": {"fault": "ToolsUnavailable"}}, two_off
    ),
    "a guest does not shut down": Strike(
        {"on": "ShutdownGuest", "nth": 1, "do": "guest-stuck"}, off_by_plays, in_vain=True
    ),
    "a VM does not power on": Strike({"on": "PowerOnVM_Task", "nth": 1, "do": {"task-fails": "InvalidState"}}, off),
    "an alarm goes red": Strike({**LEAVE, "do": {"raise-alarm": "Host memory usage"}}, window),
    "a GPU is lost": Strike({**ENTER, "do": {"gpu-missing": "0000:3b:00.0"}}, restart_with_gpus, in_vain=True),
    "a host does not come back": Strike({**ENTER, "do": "host-never-returns"}, restart, in_vain=True),
    "a host loses its power": Strike({**SECOND, "when": "after", "do": "power-loss"}, window),
    "the host key changes": Strike({**ENTER, "do": "key-swap"}, restart_with_gpus),
    "slow": Strike({"on": "any", "probability": 0.1, "do": {"delay": "100ms"}}, window),
}

CLONE = {"on": "CloneVM_Task", "nth": 1}
RULES = {"on": "ReconfigureComputeResource_Task", "nth": 1}
DESTROY = {"on": "Destroy_Task", "target": "trn-*", "nth": 1}


def grows(case: Case, rng: random.Random) -> bool:
    """Let the case be a set that is made, with rules."""
    return sets.make(case, rng, rules=True) is not None


def shrinks(case: Case, rng: random.Random) -> bool:
    """Let the case be a set that has one VM less than before."""
    return sets.shrinking(case, rng) is not None


def of_set(rule: dict[str, Any], into: Callable[[Case, random.Random], bool] = grows) -> Strike:
    """Return a strike in the run of a set."""
    return Strike(rule, lambda case: bool(case.sets), into=into)


STRIKES |= {
    "a clone fails": of_set({**CLONE, "do": {"task-fails": "NoDiskSpace"}}),
    "a clone's reply is lost": of_set({**CLONE, "do": "lost-reply"}),
    "a clone's task is gone": of_set({**CLONE, "do": "task-gone"}),
    "a clone lands elsewhere": of_set({**CLONE, "do": "clone-elsewhere"}),
    "leases are refused": of_set({"on": "SetField", "nth": 1, "do": {"fault": "InvalidState"}}),
    "leases are lost": of_set({"on": "SetField", "nth": 2, "do": "lost-reply"}),
    "rules are refused": of_set({**RULES, "do": {"task-fails": "InvalidState"}}),
    "rules are gone": of_set({**RULES, "do": "task-gone"}),
    "a new VM does not power on": of_set({"on": "PowerOnVM_Task", "nth": 1, "do": {"task-fails": "InvalidState"}}),
    "an address is taken": of_set({"on": "PowerOnVM_Task", "nth": 1, "do": "address-taken"}),
    "a gateway is silent": of_set({"on": "PowerOnVM_Task", "nth": 1, "do": "gateway-silent"}),
    "a destruction fails": of_set({**DESTROY, "do": {"task-fails": "InvalidState"}}, shrinks),
    "a destruction's reply is lost": of_set({**DESTROY, "do": "lost-reply"}, shrinks),
    "what is out of service is written without a reply": Strike(
        {"on": "SetField", "times": 3, "do": "lost-reply"}, window
    ),
}


def into(case: Case, names: tuple[str, ...]) -> Case:
    """Let these things happen during the run of a case."""
    case.strikes += [dict(STRIKES[name].rule) for name in names]
    if any(STRIKES[name].in_vain for name in names):
        for play in case.plays:
            if play.of == "hosts":
                play.body["rolling"]["timeout"] = PATIENCE
            if play.of == "vms":
                play.body["power"] = {"shutdown_timeout": PATIENCE}
    return case


def drawn(rng: random.Random) -> tuple[str, ...]:
    """One or two things that may happen."""
    return tuple(rng.sample(sorted(n for n, s in STRIKES.items() if s.into is None), rng.choice((1, 1, 2))))
