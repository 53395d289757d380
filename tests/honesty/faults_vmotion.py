"""What keeps running VMs from moving to another host.

Sources: vCenter Server and Host Management 8.0, host configuration for vMotion.
"""

from __future__ import annotations

from honesty import needs
from honesty.case import Case, Host
from honesty.faults import fault, named, one


def movers(case: Case, host: Host) -> bool:
    """Some VM leaves the host while it runs."""
    return any(needs.moves(case, vm) for vm in case.on(host))


@fault("no VMkernel adapter for vMotion", lambda case, host: movers(case, case.host(host)))
def _no_adapter(case, rng):
    """A host that VMs leave, or one of a cluster in which none moves: as a target another host may do."""
    quiet = [h for h in case.hosts if not any(movers(case, m) for m in case.members(h))]
    host = one(rng, [h for h in case.hosts if movers(case, h)] or quiet)
    if host:
        adapters = [{"name": "vmk0", "port_group": "dvpg-lan", "services": ["management"]}]
        adapters += [{"name": "vmk2", "port_group": "dvpg-rdma"}] if host.rdma else []
        host.more["vmkernel"] = adapters
    return named(host)
