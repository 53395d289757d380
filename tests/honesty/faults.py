"""What a fault is: something wrong with a farm, an inventory or a playbook, and whether it makes the job impossible."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from honesty import needs
from honesty.case import Case, Host, Play, Vm
from honesty.drawing import ROLLING


@dataclass
class Fault:
    """Something wrong. `about` is the host, VM or value it is about.

    `put` brings it into a case and returns what it is about, None where the case has no place for it. `spoils` tells,
    of the whole case with everything that is wrong with it, whether this makes the job impossible. `over_ssh`: only a
    login shows it.
    """

    name: str
    put: Callable[[Case, random.Random], str | None]
    spoils: Callable[[Case, str], bool]
    over_ssh: bool = False
    about: str = ""

    of_sets: bool = False
    """It is about VMs that a play makes: it makes the case anew, and there is no other fault beside it."""

    def into(self, case: Case, rng: random.Random) -> bool:
        """Bring it into a case; whether there was a place for it."""
        if case.sets or (self.of_sets and case.faults):
            return False
        about = self.put(case, rng)
        if about is None:
            return False
        case.faults.append(replace(self, about=about))
        return True

    def hidden(self, case: Case) -> bool:
        """Whether planning may not look: it is seen over SSH only, and SSH is stopped on every host it is about."""
        if not self.over_ssh or (case.ssh or {}).get("start_service") == "always":
            return False
        return not any(h.ssh for h in case.hosts if needs.over_ssh(case, h) and self.about in (h.name, "ssh"))


FAULTS: dict[str, Fault] = {}


def fault(name: str, spoils: Callable[[Case, str], bool], *, over_ssh: bool = False, of_sets: bool = False):
    """Make a fault of the function that brings it into a case."""

    def made(put):
        FAULTS[name] = Fault(name, put, spoils, over_ssh, of_sets=of_sets)
        return put

    return made


def one(rng: random.Random, found: list) -> object | None:
    """One of them, None of none."""
    return rng.choice(found) if found else None


def named(found) -> str | None:
    """The name of what was found."""
    return found.name if found else None


def want_of_host(case: Case, host: Host, body: dict) -> str:
    """Add a play of a host, with the rolling of the one there is."""
    rolling = needs.rolling(case, host) or {**ROLLING, "evacuate": "power_off"}
    case.plays = [p for p in case.plays if p.body]
    case.plays.append(Play("hosts", (host.name,), {**body, "rolling": dict(rolling)}))
    return host.name


def want_of_vm(case: Case, rng: random.Random, fits: Callable[[Vm], bool], body: dict) -> str | None:
    """Want something of one VM in place of what was wanted of it."""
    vm = one(rng, [v for v in case.vms if fits(v)])
    if vm is None:
        return None
    for play in case.plays:
        play.names = tuple(n for n in play.names if n != vm.name)
    case.plays = [p for p in case.plays if p.names] + [Play("vms", (vm.name,), dict(body))]
    return vm.name


def always(_case: Case, _about: str) -> bool:
    """Nothing helps."""
    return True
