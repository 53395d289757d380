"""Outputs of sets of VMs on the lab: known in the plan, the same once applied, refused where a VM is not as it says."""

from __future__ import annotations

import json
import shlex
from itertools import product

import pytest
from support.seeds import chance
from support.vm_sets import FARM, FULL, HOSTS, INVENTORY, play

from vsphere_ai.language.playbooks.output import FIELDS, NIC_FIELDS

pytestmark = pytest.mark.lab
OUTPUTS = """
- outputs:
    master_addr: ${train[1].nics.rdma1.address}
    endpoint: ${train-01.nics.mgmt.address}:29500
    nodes: ${train[*].nics.rdma1.address}
    moid: ${train[2].moid}
    profile: ${train[1].profile}
    port: 29500
"""
AFTER_APPLY = "known after apply"


@pytest.fixture
def sets(cli, make_lab, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    return Sets(cli, lab, cli.file(INVENTORY, "inventory.yml"))


class Sets:
    def __init__(self, cli, lab, inventory):
        self.cli, self.lab, self.inventory = cli, lab, inventory
        self.code = 0
        self.found, self.rules = {}, set()

    def __call__(self, command, *more):
        return self.cli(command, *more, "-i", self.inventory)

    def values(self, command, *more):
        """The values of the outputs as JSON; `found` has all of them, `rules` what blocks which VM."""
        self.code = self(command, *more, "-o", "json")
        assert self.cli.out, self.cli.err
        self.found = json.loads(self.cli.out)["outputs"]
        self.rules = {(p["vm"], p["rule"]) for o in self.found.values() for p in o["problems"]}
        return {name: each["value"] for name, each in self.found.items()}


def test_outputs_are_planned_refused_before_apply_and_observed_after_it(sets, cli):
    playbook = cli.file(FULL + OUTPUTS)
    planned = sets.values("plan", playbook)
    assert planned["nodes"] == [f"172.16.1.{n}" for n in range(10, 14)]
    assert (planned["endpoint"], planned["port"]) == ("10.20.0.11:29500", 29500)
    assert planned["moid"] is None
    assert sets.found["moid"]["reasons"] == [AFTER_APPLY]

    assert set(sets.values("output", playbook).values()) == {None, 29500}
    assert (sets.code, sets.rules) == (1, {(f"train-0{n}", "output.no-vm") for n in range(1, 5)})
    assert sets("output", playbook, "-o", "env") == 1
    assert not cli.out

    assert sets("apply", playbook, "--yes") == 0
    assert all(address in cli.out.partition("OUTPUTS")[2] for address in planned["nodes"])
    now = sets.values("output", playbook)
    assert (sets.code, now) == (0, {**planned, "moid": now["moid"]})
    assert now["moid"].startswith("vm-")

    assert sets("output", playbook, "-o", "env") == 0
    assert dict(part.split("=") for part in shlex.split(cli.out)) == {
        "MASTER_ADDR": "172.16.1.10",
        "ENDPOINT": "10.20.0.11:29500",
        "NODES": ",".join(planned["nodes"]),
        "MOID": now["moid"],
        "PROFILE": "grid_a100-10c",
        "PORT": "29500",
    }
    assert sets("output", playbook, "-o", "hostfile") == 0
    assert cli.out.splitlines() == [f"{address} slots=1" for address in planned["nodes"]]
    assert sets("output", playbook, "port", "-o", "hostfile") == 64

    grown = cli.file(FULL.replace("[01:04]", "[01:05]") + OUTPUTS)
    sets.values("output", grown)
    assert sets.rules == {("train-05", "output.no-vm")}
    other = cli.file(FULL.replace("grid_a100-10c", "grid_a100-20c") + OUTPUTS)
    sets.values("output", other, "profile")
    assert sets.rules == {("train-01", "output.stale")}


@pytest.mark.parametrize(("name", "text"), [("nodse", FULL + OUTPUTS), ("", FULL)], ids=["unknown", "none"])
def test_an_output_that_the_playbook_does_not_have(sets, cli, name, text):
    assert sets("output", cli.file(text), *([name] if name else [])) == 64


def test_random_sets_are_as_their_plan_says(sets, cli):
    """Every field of every VM: what the plan knows is what is observed, and nothing else is unknown then."""
    random, plays, fields = chance("outputs"), HOSTS, {}
    for name in ("a", "b", "c"):
        first, count, nics = random.randint(1, 5), random.randint(1, 3), random.randint(1, 3)
        names = f"{name}-[{first:02}:{first + count - 1:02}]"
        gone = f":!{name}-{first:02}" if count > 1 and random.random() < 0.5 else ""
        more = "  vgpu: [grid_a100-10c]\n" if random.random() < 0.5 else ""
        plays += play(names + gone, name=name, nics=nics, more=more)
        listed = ("mgmt", "storage", "rdma1")[:nics]
        fields |= {
            f"{name}_{n}": f"${{{name}[*].{path}}}"
            for n, path in enumerate([*FIELDS, *(f"nics.{nic}.{field}" for nic, field in product(listed, NIC_FIELDS))])
        }
    lines = "".join(f"    {name}: {text}\n" for name, text in fields.items())
    playbook = cli.file(f"{plays}\n- outputs:\n{lines}")
    planned = sets.values("plan", playbook)
    later = {name for name, each in sets.found.items() if AFTER_APPLY in each["reasons"]}
    assert sets("apply", playbook, "--yes") == 0
    now = sets.values("output", playbook)
    assert not sets.rules
    assert {name: now[name] for name in now if name not in later} == {
        n: v for n, v in planned.items() if n not in later
    }
    assert {fields[name].partition(".")[2] for name in later} <= {"moid}", "gpu_pci}"} | {
        f"nics.{nic}.{field}}}" for nic, field in product(("mgmt", "storage", "rdma1"), ("pci", "rdma_device"))
    }
