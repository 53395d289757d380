"""CPU time of planning, and of reading back one target, as the estate grows; pure, without a vCenter.

Run it with ``python bench/growth.py``.
Absolute times depend on the machine; what counts are the ratios.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from vsphere_ai.model.facts import Estate
from vsphere_ai.planning.planner import make_plan, remaining
from vsphere_ai.resources import kinds

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from support.estates import vm  # noqa: E402 - the tests' estates, so that both measure the same
from support.growing import of_vms, upgraded  # noqa: E402

CYCLES = 200


def cpu(what) -> float:
    """Return the CPU seconds of one call."""
    began = time.process_time()
    what()
    return time.process_time() - began


def fresh(estate: Estate) -> Estate:
    """Return an estate as it is after a reading: nothing about it is known yet."""
    return Estate(estate.about, dict(estate.objects))


def main() -> None:
    """Measure and print."""
    wanted, one = upgraded(CYCLES), upgraded(1)
    print(f"{'VMs':>6}  {f'plan, {CYCLES} power cycles':>25}  {'read back one VM':>16}")
    first: tuple[float, float] | None = None
    for vms in (1_000, 10_000):
        estate = of_vms(vms)
        plan = cpu(lambda e=estate: make_plan(wanted, fresh(e), kinds()))
        back = min(cpu(lambda e=estate: remaining(one, fresh(e), kinds(), vm(1))) for _ in range(5))
        print(f"{vms:>6}  {plan:>23.2f} s  {back * 1000:>13.1f} ms")
        first = first or (plan, back)
    print(f"10 times the VMs: planning {plan / first[0]:.1f} times, reading back {back / first[1]:.1f} times")


if __name__ == "__main__":
    main()
