"""T-64: any playbooks, faults, kills and resumes in any order; the farm's own judge finds nothing wrong at the end."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from reliability.harness import FULL, SEED, cases

EXAMPLES, STEPS = (25, 30) if FULL else (2, 10)
ROLLING = {"max_unavailable": 1, "evacuate": "power_off", "timeout": "1m"}
SHARED = {"default_type": "shared_direct"}
HOSTS = {
    "nothing": None,
    "rdma": {"hosts": "esx[01:03].lab.local", "pvrdma_host": {"vmknic": "vmk2", "firewall": True}},
    "no firewall": {"hosts": "esx[01:03].lab.local", "pvrdma_host": {"vmknic": "vmk2", "firewall": False}},
    "slices": {"hosts": "esx01.lab.local", "graphics": SHARED, "mig": {"mode": "enabled"}, "rolling": ROLLING},
    "layout": {"hosts": "esx03.lab.local", "graphics": SHARED, "mig": {"layout": ["3g.20gb", "2g.10gb"]},
               "rolling": ROLLING},
    "other layout": {"hosts": "esx03.lab.local", "graphics": SHARED, "mig": {"layout": ["1g.5gb", "1g.5gb"]},
                     "rolling": ROLLING},
}  # fmt: skip
ADAPTER = {"port_group": "dvpg-rdma", "protocol": "rocev2"}
VMS = {
    "adapter": {"pvrdma": [ADAPTER]},
    "two adapters": {"pvrdma": [ADAPTER, ADAPTER]},
    "no adapter": {"pvrdma": []},
    "version": {"hardware": {"version": 19}},
    "memory": {"hardware": {"memory_reservation": "full"}},
    "slice": {"vgpu": ["grid_a100-3-20c"]},
    "no slice": {"vgpu": []},
}
NAMES = tuple(f"train-0{n}" for n in range(1, 7))
FAULTS = (
    {"on": "any-mutation", "probability": 0.1, "times": 2, "do": "lost-reply"},
    {"on": "any", "probability": 0.01, "times": 1, "do": "expire-session"},
    {"on": "RetrievePropertiesEx", "probability": 0.2, "times": 3, "do": 503},
    {"on": "any-mutation", "probability": 0.1, "times": 1, "do": {"delay": "300ms"}},
    {"on": "any", "probability": 0.02, "times": 2, "when": "before", "do": "reset"},
)
REPORTED = {0, 1, 5, 6, 9}  # done; refused or a step failed; unreachable; a host's health unknown; outcome unknown


class Operator(RuleBasedStateMachine):
    """Somebody who edits playbooks, applies them, loses the tool in the middle, and goes on."""

    mission = None  # what they work with, set for each test
    folder = None

    def __init__(self):
        super().__init__()
        self.hosts, self.vms = "rdma", {}
        self.killed = self.half = False
        self.playbook = self.folder / "any.yml"

    @initialize()
    def fresh(self):
        self.mission.lab.post("/lab/reset")
        for journal in self.folder.glob("state/runs/*"):
            journal.unlink()

    @rule(hosts=st.sampled_from(sorted(HOSTS)))
    def write_hosts(self, hosts):
        self.hosts = hosts

    @rule(name=st.sampled_from(NAMES), what=st.sampled_from(sorted(VMS)))
    def write_vm(self, name, what):
        self.vms = {**self.vms, name: {**self.vms.get(name, {}), **VMS[what]}}

    @rule(name=st.sampled_from(NAMES))
    def leave_vm_out(self, name):
        self.vms = {n: v for n, v in self.vms.items() if n != name}

    @rule(fault=st.sampled_from(FAULTS), number=st.integers(0, 1 << 20))
    def fault(self, fault, number):
        self.mission.lab.set_faults([fault], seed=number)

    @precondition(lambda self: not self.half and (self.vms or self.hosts != "nothing"))
    @rule(kill=st.none() | st.integers(50, 1500))
    def apply(self, kill):
        self.mission.lab.mark()
        self.killed = False
        plays = [HOSTS[self.hosts]] if HOSTS[self.hosts] else []
        plays += [{"vms": n, **v} for n, v in sorted(self.vms.items())]
        self.playbook.write_text(json.dumps(plays), encoding="utf-8")
        self._end(self.mission.tool.start("apply", "-i", self.mission.inventory, self.playbook, "--yes"), kill)

    @precondition(lambda self: self.half)
    @rule(kill=st.none() | st.integers(50, 1500))
    def resume(self, kill):
        self._end(self.mission.tool.start("resume"), kill)

    def _end(self, going, kill):
        ended = going.wait() if kill is None else going.kill_after(kill / 1000)
        self.mission.lab.clear_faults()
        self.killed = self.killed or ended.code < 0
        self.half = bool(self.mission.unfinished())
        assert ended.code in REPORTED or ended.code < 0, ended.text
        self._never(ended)
        if not ended.code:
            self._wanted(ended)

    def _never(self, ended):
        """What may not happen, however it ended."""
        bad = {v["name"]: v["findings"] for v in self.mission.lab.check()["invariants"] if not v["ok"]}
        for name in ("maintenance", "services", "power", *(("sessions",) if self.killed else ())):
            bad.pop(name, None)
        assert not bad, f"{bad}\n{ended.text}"

    def _wanted(self, ended):
        """What has to be so when a command says that all is well."""
        bad = {v["name"]: v["findings"] for v in self.mission.lab.check()["invariants"] if not v["ok"]}
        if self.killed:
            bad.pop("sessions", None)
        assert not bad, f"{bad}\n{ended.text}"
        assert not self.half, ended.text
        left = self.mission.tool(
            "plan", "-i", self.mission.inventory, self.playbook, "--detailed-exitcode", "--start-ssh"
        )
        assert left.code == 0, f"{left.text}\n{ended.text}"

    def teardown(self):
        self.mission.lab.clear_faults()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", cases(2, 8))
def test_any_order_of_things(mission, tmp_path, monkeypatch, number):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    run_state_machine_as_test(
        seed(SEED * 1000 + number)(type("Operator", (Operator,), {"mission": mission, "folder": tmp_path})),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=[Phase.generate],  # to make a failing case smaller it would have to fail every time
            suppress_health_check=list(HealthCheck),
        ),
    )
