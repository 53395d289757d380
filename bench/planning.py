"""CPU time of planning as hosts, VMs and steps grow, and of writing and showing the plan; pure, without a vCenter.

What is read is in memory already: 20 VMs to a host, 50 hosts to a cluster; hosts whose VMs with vGPUs move are in one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from common import TESTS, Case, Row, Size, inside
from growth import cpu
from run import alone

GROWS = True
PER_HOST, PER_CLUSTER, FEWEST_MOVING = 20, 50, 16
PLAN, REFUSED = "plan that switches each VM off and on", "each VM is refused"
REBOOTS, MOVES = "plan of the reboots of all hosts", "plan of hosts in maintenance mode, whose VMs with vGPUs move"
WRITTEN = ("its document", "its text", "its text in full")
WHO = (PLAN, *WRITTEN, REFUSED, REBOOTS, MOVES)


def once(vms: int) -> dict[str, float]:
    """Plan in this process; return the CPU seconds of each, with how many steps there are."""
    sys.path.insert(0, TESTS)
    from support.estates import vm, wants  # the tests' estates, so that both measure the same
    from support.gpu_growing import HALF, gpu_estate
    from support.growing import esx, of_vms, upgraded

    from vsphere_ai.language.playbooks.play import Rolling, TargetPlan
    from vsphere_ai.model.facts import Estate
    from vsphere_ai.model.state import Target
    from vsphere_ai.planning.document import digest, dumps, plan_document
    from vsphere_ai.planning.planner import make_plan
    from vsphere_ai.report.plans.plan_text import Beside, plan_text
    from vsphere_ai.resources import kinds
    from vsphere_ai.resources.host_graphics import HostGraphics
    from vsphere_ai.resources.vm_hardware import VmHardware

    found: dict[str, float] = {}
    plan = None

    def planned(who: str, estate: Estate, wanted: Mapping[Target, TargetPlan]) -> None:
        """Plan on an estate of which nothing is known yet."""
        nonlocal plan
        fresh = Estate(estate.about, dict(estate.objects))

        def work() -> None:
            nonlocal plan
            plan = make_plan(wanted, fresh, kinds(), "bench.yml")

        found[who] = cpu(work)
        found[f"{who}: steps"] = len(plan.steps)

    kinds()
    hosts, moving = vms // PER_HOST, max(FEWEST_MOVING, vms // 32)
    estate = of_vms(vms, PER_CLUSTER, even=True)
    planned(PLAN, estate, upgraded(vms))
    texts = (
        lambda: dumps(plan_document(plan)),
        lambda: plan_text(plan, digest(plan)),
        lambda: plan_text(plan, digest(plan), beside=Beside(full=True)),
    )
    found |= {who: cpu(write) for who, write in zip(WRITTEN, texts, strict=True)}
    planned(REFUSED, estate, {vm(k): wants(VmHardware(version=11)) for k in range(1, vms + 1)})
    graphics = HostGraphics(default_type="shared_direct")
    planned(REBOOTS, estate, {esx(k): wants(graphics) for k in range(1, hosts + 1)})
    moved = wants(HostGraphics(default_type="shared"), rolling=Rolling(evacuate="vmotion"))
    moves = gpu_estate(moving, vms=1, profile=HALF, cluster_of=moving)
    planned(MOVES, moves, {esx(k): moved for k in range(1, moving + 1)})
    return found


def measure(size: Size, times: int) -> list[Row]:
    """Return the CPU time of plans, and of their texts; the memory is that of all of them together."""
    runs = [inside("planning.py", "--once", str(size.vms)) for _ in range(times)]
    case = Case("planning", "targets of a playbook", size, "cpu", dict.fromkeys(WHO, "ours"))
    steps = {who: f"{runs[0][f'{who}: steps']:,.0f} steps" for who in WHO if f"{who}: steps" in runs[0]}
    return [case.row(who, [{"cpu": run[who], "mib": run["mib"]} for run in runs], steps.get(who, "")) for who in WHO]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        print(json.dumps(once(int(sys.argv[2]))))
    else:
        alone(__doc__, measure)
