"""A set of VMs in place of what a farm was drawn for: its template, its pools, its play; and what was there before."""

from __future__ import annotations

import copy
import random
from typing import Any

from honesty.case import Case, Vm

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPrxZoZZQhnUBg3MJrEqHEH5Oe5XoD7XeUaGsB3bnbn ops@lab"
NETS = {"mgmt": "dvpg-lan", "data": "dvpg-data"}
IMAGE, STORE = "image", "set-store"
MANY = 3


def make(case: Case, rng: random.Random, *, count: int = 0, rules: bool | None = None) -> dict[str, Any] | None:
    """Let a case be about one set only, and return its play; None where the farm has no cluster.

    `rules`: whether it has rules of DRS, which the cluster is then set up for; drawn where it is None.
    """
    clusters = sorted({h.cluster for h in case.hosts} & case.drs.keys())
    if not clusters or case.faults:
        return None
    case.plays.clear()
    case.ssh = {}
    cluster = rng.choice(clusters)
    first = next(h for h in case.hosts if h.cluster == cluster)
    rules = rng.random() < 0.5 if rules is None else rules
    case.drs[cluster] = "fullyAutomated" if rules else case.drs[cluster]
    case.vms.append(Vm(IMAGE, first.name, on=False, tools="running", memory_gb=8, more={"template": True}))
    count = count or rng.choice((1, 2, MANY))
    nics = [
        {"name": net, "port_group": group, "addresses": net, **({"primary": True} if net == "mgmt" else {})}
        for net, group in list(NETS.items())[: rng.choice((1, 2))]
    ]
    body: dict[str, Any] = {"name": "trn", "source": IMAGE, "cluster": cluster, "folder": "ai", "nics": nics}
    body["users"] = [{"name": "ops", "ssh_authorized_keys": [KEY]}]
    if rules:
        body["placement"] = {"anti_affinity": "should", "drs_override": rng.choice(("until_ready", "kept"))}
    case.pools = {
        net: {"subnet": f"10.{n}.0.0/24", "ranges": [f"10.{n}.0.11-10.{n}.0.{10 + count}"], "quarantine": 0}
        for n, net in enumerate(NETS, 60)
    }
    play = {"vms": names(count), "vm_set": body}
    case.sets = [play]
    return play


def names(count: int) -> str:
    """Return the pattern of so many VMs."""
    return f"trn-[01:{count:02d}]"


def shrinking(case: Case, rng: random.Random) -> dict[str, Any] | None:
    """Let a case be about a set that has one VM less than before."""
    play = make(case, rng, count=rng.choice((2, MANY)))
    if play is not None:
        case.earlier, case.destroyed = [copy.deepcopy(play)], 1
        play["vms"] = names(int(play["vms"][-3:-1]) - 1)
    return play
