"""A run dies, and with it everything that its machine knew: another machine puts back what it had out of service.

The state folder is removed, the lock is broken, and the same command is given once more. It may not say that all is
well, or do anything beside, while something is out of service; what it names brings everything back. The farm's own
ledger and state decide.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from reliability.crash import DIED
from reliability.harness import Spec
from support.seeds import ALL, SEED, cases, chance

pytestmark = pytest.mark.timeout(240)
POSITIONS = ("before begin", "after begin", "after call", "after reply", "after end")
LARGEST = 480
OUT = ("maintenance", "services", "power")
"""Invariants of the farm: what a run takes out of service is back."""
WAY = re.compile(r"vsphere-ai resume (?:--from-vcenter )?\d{8}-\d{6}-[0-9a-f]{4}")
REFUSED, MOST_ROUNDS = 1, 4


def drawn(points, number):
    """The point of one case: with RELIABILITY=all each in order, else by chance, also of those that come twice."""
    if ALL:
        return points[number] if number < len(points) else None
    own = [p for p in points if p.startswith(POSITIONS)]
    return chance("lost-state", number).choice(own)


def out_of_service(lab):
    """What the farm itself finds out of service, in words."""
    return {v["name"]: v["findings"] for v in lab.check(since=0)["invariants"] if v["name"] in OUT and not v["ok"]}


def lose_state():
    """Do what the loss of a machine does: nothing is known of any run any more."""
    shutil.rmtree(Path(os.environ["VSPHERE_AI_STATE_DIR"]))


@pytest.mark.parametrize("lock", ["vcenter", "local"])
@pytest.mark.parametrize("number", cases(3, 50, LARGEST))
def test_what_a_lost_run_had_out_of_service_is_put_back(mission, number, lock):
    point = drawn(mission.points, number if lock == "vcenter" else number + LARGEST * (not ALL))
    if point is None:
        pytest.skip(f"the plan has {len(mission.points)} points")
    tool, lab, place = mission.tool, mission.lab, ("-i", mission.inventory)
    same = ("apply", *place, mission.playbook, "--yes", "--lock", lock)
    ended = tool(*same, spec=Spec(at=point))
    assert ended.code == DIED, f"{point} was not reached\n{ended.text}"
    lose_state()
    print(f"{point}, seed {SEED}: {out_of_service(lab)}")

    unlocked = tool("run", "unlock", *place, "--yes")
    assert unlocked.code == 0, unlocked.text
    again = tool(*same)
    left = out_of_service(lab)
    said = f"{point}\n{unlocked.text}\nexit {again.code}\n{again.text}"
    if not left:
        assert again.code == 0 or "run.out-of-service" in again.text, said
    else:
        assert again.code == REFUSED, f"{left}\n{said}"
        assert WAY.search(again.text), said
        assert WAY.search(unlocked.text), said
    brought_back(mission, again, said, place)


def brought_back(mission, ended, said, place):
    """Follow what the commands name until the same command ends well, then judge the farm."""
    for _ in range(MOST_ROUNDS):
        if ended.code == 0:
            break
        named = WAY.search(ended.text)
        assert named, said
        way = mission.tool(*named[0].split()[1:], *place, "--yes")
        ended = mission.apply()
        said = f"{said}\n$ {named[0]}\nexit {way.code}\n{way.text}\nexit {ended.code}\n{ended.text}"
    assert ended.code == 0, said
    assert not out_of_service(mission.lab), said
    free = mission.tool("run", "unlock", *place)
    assert not WAY.search(free.text), f"{free.text}\n{said}"
