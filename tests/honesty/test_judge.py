"""The judge finds each kind of lie: a tool that tells one is caught, and one that tells the truth is not."""

from __future__ import annotations

import json
import random

import pytest
from honesty import cases, judge
from honesty.case import Case, Host, Play, Vm
from honesty.report import Report, outcome
from reliability.harness import Ended

ESX, VM = "esx01.lab.local", "vm0"


def case(*names, agent=False, **more):
    """A host that reboots for its GPUs, with a VM on it that runs, which may be an agent; and faults."""
    from honesty.boards import BOARDS

    host = Host(ESX, board=BOARDS[0], gpus=1, driver="470.256.02", **more)
    play = Play("hosts", (ESX,), {"graphics": {"default_type": "shared_direct"},
                                  "rolling": {"evacuate": "power_off", "reboot": "ssh"}})  # fmt: skip
    made = Case(hosts=[host], vms=[Vm(VM, ESX, more={"agent": "vcls"} if agent else {})], plays=[play])
    for name in names:
        assert cases.FAULTS[name].into(made, random.Random(1))
    return made


class Farm:
    """What the judge asks of a lab, as a test wants it to be."""

    def __init__(self, directory):
        self.directory, self.entries, self.bad, self.fired = directory, [], {}, []

    def mark(self):
        return 0

    def check(self, **_):
        return {"invariants": [{"name": n, "ok": not f, "findings": f} for n, f in self.bad.items()]}

    def get(self, path):
        farm = {"vms": [{"name": VM, "host": ESX}], "hosts": []}
        return {"/lab/ledger": {"entries": self.entries}, "/lab/farm": farm, "/lab/faults": {"fired": self.fired}}[path]

    def set_faults(self, *_, **__):
        return None

    clear_faults = set_faults

    def did(self, *calls):
        self.entries += [{"object": VM if "VM" in c or "Guest" in c else ESX, "call": c} for c in calls]


@pytest.fixture
def tried(tmp_path):
    """Try a case with a tool that answers as told: `tried(case, plan=(code, text, calls), apply=..., left=...)`."""
    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "connection.yml").write_text(json.dumps({
        "vcenters": {"lab": {"address": "127.0.0.1", "port": 1}},
        "ssh": {"addresses": {ESX: "127.0.0.1:22"}},
    }))  # fmt: skip
    (lab / "known_hosts").write_text("[127.0.0.1]:22 ssh-ed25519 AAAA\n")

    def run(of, plan=(0, "", ()), apply=(0, "", ()), again=0, left=(), fired=()):
        farm = Farm(lab)
        farm.fired = fired

        def tool(command, *arguments, spec):
            if "--detailed-exitcode" in arguments:
                return Ended(again, "", 0.0)
            code, text, calls = plan if command == "plan" else apply
            assert "Traceback" not in text, text  # as the harness does
            farm.did(*calls)
            if command == "apply":
                off, kept = [f"{VM} (vm-1) was on and is off"], [f"{ESX} was left in maintenance mode"]
                farm.bad = {
                    "power": off if "power" in left else [],
                    "maintenance": kept if "maintenance" in left else [],
                }
            return Ended(code, text, 0.0)

        trial = judge.Trial(of, farm, tool, tmp_path)
        trial.run()
        return trial.verdict

    return run


RUN = ("ShutdownGuest", "EnterMaintenanceMode_Task", "reboot", "PowerOnVM_Task")


def test_a_tool_that_tells_the_truth_is_believed(tried):
    assert tried(case(), apply=(0, "", RUN)).wrong == []
    refused = tried(case("evacuate: refuse"), plan=(1, "[rolling.evacuate]", ()), apply=(1, "", ()))
    assert refused.wrong == []
    assert not refused.accepted


@pytest.mark.parametrize(
    ("of", "told", "found"),
    [
        (case(), {"apply": (1, "", ())}, "not foreseen"),
        (case(), {"apply": (1, "Traceback", ())}, "apply crashed"),
        (case(), {"plan": (1, "Traceback", ()), "apply": (1, "", ())}, "plan crashed"),
        (case("no ssh section"), {"apply": (4, "", ())}, "not foreseen"),
        (case(), {"plan": (1, "[x.y]", ()), "apply": (1, "", ())}, "plan refuses with 1 what can be done"),
        (case(), {"plan": (1, "[x.y]", ()), "apply": (0, "", RUN)}, "and apply does it"),
        (case("no ssh section"), {"apply": (0, "", RUN)}, "what cannot be done was done"),
        (case("no ssh section"), {"plan": (1, "", ("StartService",)), "apply": (1, "", ())}, "plan changed the farm"),
        (case(), {"apply": (0, "", RUN), "again": 2}, "the plan is not empty"),
        (case(), {"apply": (0, "", RUN), "left": ("power",)}, "lab judge finds"),
        (case(), {"apply": (1, "", RUN[:2]), "left": ("maintenance",)}, "left behind: esx01"),
        (case(), {"apply": (1, "", RUN[:2]), "left": ("power",)}, "left behind: vm0"),
        (case("start_service: never", ssh=True, ssh_policy="on"),
         {"apply": (0, "", (*RUN, "StartService"))}, "start_service is never"),
        (case(agent=True), {"apply": (0, "", RUN)}, "agent VMs are vCenter's"),
    ],
)  # fmt: skip
def test_every_lie_is_found(tried, of, told, found):
    assert any(found in wrong for wrong in tried(of, **told).wrong)


def test_a_host_that_has_to_stay_so_after_its_reboot_may(tried):
    wrong = tried(case(), apply=(6, "", RUN[:3]), left=("maintenance", "power")).wrong
    assert wrong == ["not foreseen: plan accepts, apply ends with 6"]


@pytest.mark.parametrize(("ssh", "calls", "wrong"), [(False, ("StartService", "StopService"), False),
                                                     (False, RUN[:1], True), (True, (), True)])  # fmt: skip
def test_a_login_that_planning_may_not_try_is_foreseen_before_the_first_disruption(tried, ssh, calls, wrong):
    of = case("wrong SSH password", ssh=ssh)
    assert bool(tried(of, apply=(4, "", calls)).wrong) is wrong


def test_what_strikes_by_chance_need_not_be_foreseen_but_cleaned_up(tried):
    of = case()
    of.strikes = [{"on": "UpdateGraphicsConfig", "nth": 1, "do": {"fault": "HostConfigFault"}}]
    assert tried(of, apply=(1, "", RUN[:2])).wrong == []
    assert "left behind" in tried(of, apply=(1, "", RUN[:2]), left=("power",)).wrong[0]


def test_a_strike_that_struck_nothing_is_counted_apart(tried):
    of = case()
    of.strikes = [{"on": "UpdateGraphicsConfig", "nth": 1, "do": {"fault": "HostConfigFault"}}]
    assert tried(of, apply=(0, "", RUN)).kind == "missed"
    verdict = tried(of, apply=(0, "", RUN), fired=[{"event": "UpdateGraphicsConfig", "do": "fault", "object": ESX}])
    assert (verdict.kind, verdict.wrong) == ("struck", [])


def test_what_is_wrong_lowers_the_rate_it_belongs_to(tried):
    """The report counts what the judge found, each answer of `plan` for itself."""
    report = Report(1)
    for number, of in enumerate((
        tried(case(), apply=(0, "", RUN)),
        tried(case(), apply=(1, "", ())),
        tried(case("no ssh section"), plan=(1, "[x.y]", ()), apply=(1, "", ())),
        tried(case(), plan=(1, "[x.y]", ()), apply=(1, "", ())),
        tried(case("no ssh section"), plan=(1, "[x.y]", ("StartService",)), apply=(1, "", ())),
    )):  # fmt: skip
        report.add(number, outcome(of, 1, number))
    assert sorted(report.wrong) == [1, 3, 4]
    assert [line.rpartition(": ")[2] for line in report.text().splitlines()[:2]] == ["1 of 2 (50.0 %)",
                                                                                   "1 of 3 (33.3 %)"]  # fmt: skip
