"""CPU time of planning, and of reading back one target, as the estate grows; pure, without a vCenter.

A playbook of 200 power cycles, or of one for each VM where there are fewer, whatever the size of the estate.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from common import TESTS, Case, Row, Size, inside
from run import alone

GROWS = True
CYCLES = 200
PLAN, BACK = "plan of them", "read back one VM"


def cpu(what: Callable[[], object]) -> float:
    """Return the CPU seconds of one call."""
    began = time.process_time()
    what()
    return time.process_time() - began


def once(vms: int) -> dict[str, float]:
    """Plan and read back in this process; return the CPU seconds of each."""
    sys.path.insert(0, TESTS)
    from support.estates import vm  # the tests' estates, so that both measure the same
    from support.growing import of_vms, upgraded

    from vsphere_ai.model.facts import Estate
    from vsphere_ai.planning.planner import make_plan, remaining
    from vsphere_ai.resources import kinds

    def fresh() -> Estate:
        """Return the estate as it is after a reading: nothing about it is known yet."""
        return Estate(estate.about, dict(estate.objects))

    estate, wanted, one = of_vms(vms), upgraded(min(CYCLES, vms)), upgraded(1)
    kinds()
    plan = cpu(lambda: make_plan(wanted, fresh(), kinds()))
    back = min(cpu(lambda: remaining(one, fresh(), kinds(), vm(1))) for _ in range(5))
    return {PLAN: plan, BACK: back}


def measure(size: Size, times: int) -> list[Row]:
    """Return the CPU time of a plan and of a reading back."""
    runs = [inside("growth.py", "--once", str(size.vms)) for _ in range(times)]
    case = Case("growth", f"{CYCLES} power cycles", size, "cpu", dict.fromkeys((PLAN, BACK), "ours"))
    return [case.row(who, [{"cpu": run[who], "mib": run["mib"]} for run in runs]) for who in (PLAN, BACK)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        print(json.dumps(once(int(sys.argv[2]))))
    else:
        alone(__doc__, measure)
