"""Sets of VMs before VMware's own simulator, whose clones keep the CPUs of their source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import ignore
from vsphere_ai.app.runs.locking import held
from vsphere_ai.app.runs.plan_playbook import make_plan
from vsphere_ai.app.runs.run_plan import Origin, PlannedRun, carry_out
from vsphere_ai.connect import address_ledger
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.model.vm_sets import mark_of

pytestmark = pytest.mark.vcsim
RULES_OF_HOSTS = {"esxi.version", "vcenter.version"}
"""The simulator is vSphere 6.5."""
SOURCE, PATHS = "DC0_C0_RP0_VM0", ("name", "config.instanceUuid", "config.extraConfig", "config.hardware.device")
PLAY = """
- vms: {names}
  vm_set:
    name: sim
    source: {source}
    cluster: DC0_C0
    cpus: {cpus}
    power_state: off
    nics: [{{name: mgmt, port_group: DC0_DVPG0, primary: true, addresses: mgmt}}]
"""


@pytest.fixture
def farm(vcsim, limits, tmp_path, monkeypatch):
    """The simulator with a VM that is off, and an inventory of it."""
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("SIM_PASSWORD", "pass")
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(
        f"""
vcenters:
  sim: {{address: 127.0.0.1, port: {vcsim.port}, username: user, password: "env:SIM_PASSWORD",
         tls: {{ca_file: {vcsim.ca_file}}}}}
pools:
  mgmt: {{subnet: 10.20.0.0/24, gateway: 10.20.0.1, quarantine: 0}}
""",
        "utf-8",
    )
    with VCenter.connect(vcsim.endpoint(), limits=limits) as vcenter:
        found = vcenter.read({"VirtualMachine": ("name",), "Datastore": ("name", "host")})
        source = next(r for r, f in found.items() if f.name == SOURCE)
        # the simulator makes clones on the host of their source, whichever is asked for; one host reaches the datastore
        reached = next(m["key"] for f in found.values() for m in f.get("host") or ())
        spec = {"_typeName": "VirtualMachineRelocateSpec", "host": reached}
        vcenter.run_task(source, "RelocateVM_Task", {"spec": spec}, timeout=20)
        vcenter.run_task(source, "PowerOffVM_Task", timeout=20)
        # the simulator sets a property where a key begins with SET.
        tools = {"_typeName": "OptionValue", "key": "SET.guest.toolsVersionStatus2", "value": "guestToolsCurrent"}
        spec = {"_typeName": "VirtualMachineConfigSpec", "extraConfig": (tools,)}
        vcenter.run_task(source, "ReconfigVM_Task", {"spec": spec}, timeout=20)
        yield Farm(vcenter, inventory, tmp_path)


class Farm:
    def __init__(self, vcenter, inventory, folder):
        self.vcenter, self.folder = vcenter, folder
        self.estate = EstateRequest(inventory)

    def play(self, names, cpus=1, more=""):
        path = self.folder / "play.yml"
        path.write_text(PLAY.format(names=names, source=SOURCE, cpus=cpus) + more, "utf-8")
        return path

    def applied(self, *given, **more):
        """Carry a plan out as `apply` does, but for what the rules say of the simulator's old hosts."""
        playbook = load(self.play(*given, **more), self.estate)
        with (
            open_session(self.estate, playbook) as session,
            held(session.scope, session.connection, "test", None) as locks,
        ):
            plan, estate = make_plan(session, playbook)
            assert {p.rule for p in plan.problems} <= RULES_OF_HOSTS, [p.message for p in plan.problems]
            origin = Origin("test", locks)
            done = carry_out(session, PlannedRun(playbook, replace(plan, problems=()), estate), origin, ignore)
            assert done.exit_code == 0, [str(o.error) for o in done.run.outcomes if o.error]
        with open_session(self.estate, playbook) as session:
            assert not make_plan(session, playbook)[0].steps
        return done

    def cluster(self):
        found = self.vcenter.read({"ClusterComputeResource": ("name", "configurationEx")})
        return next(f for f in found.values() if f.name == "DC0_C0")

    def drs_on(self):
        config = {"_typeName": "ClusterDrsConfigInfo", "enabled": True, "defaultVmBehavior": "fullyAutomated"}
        args = {"spec": {"_typeName": "ClusterConfigSpecEx", "drsConfig": config}, "modify": True}
        self.vcenter.run_task(self.cluster().ref, "ReconfigureComputeResource_Task", args, timeout=20)

    def rules(self):
        return self.cluster().get("configurationEx").get("rule") or ()

    def vms(self):
        return {f.name: f for f in self.vcenter.read({"VirtualMachine": PATHS}).values()}


def test_a_set_is_made_changed_and_shrunk(farm):
    before = set(farm.vms())
    farm.applied("sim-[1:3]")
    made = {name: facts for name, facts in farm.vms().items() if name.startswith("sim-")}
    assert set(farm.vms()) == before | {"sim-1", "sim-2", "sim-3"}
    marks = {name: mark_of(facts) for name, facts in made.items()}
    assert all(marks.values())
    assert [marks[f"sim-{i}"].nics[0].addresses for i in (1, 2, 3)] == [(f"10.20.0.{i}/24",) for i in (2, 3, 4)]
    assert "10.20.0" in address_ledger.read_text(farm.vcenter).text
    farm.applied("sim-[1:3]", cpus=4)
    farm.applied("sim-1", cpus=4)
    assert set(farm.vms()) == before | {"sim-1"}


def test_rules_of_a_set_are_kept_by_the_cluster(farm):
    farm.drs_on()
    farm.applied("sim-[1:2]", more="    placement: {anti_affinity: should}\n")
    (rule,) = farm.rules()
    assert (rule["_typeName"], len(rule["vm"])) == ("ClusterAntiAffinityRuleSpec", 2)
    farm.applied("sim-1", more="    placement: {anti_affinity: should}\n")
    assert [len(r["vm"]) for r in farm.rules()] in ([], [1])
