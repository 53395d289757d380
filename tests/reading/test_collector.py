"""What is read, how often, and what becomes of hosts that do not answer."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from support.raising import refused

from vsphere_ai.connect import probing
from vsphere_ai.connect.secure_shell.ssh_endpoint import ConnectionBroken, SshRefused
from vsphere_ai.connect.service import LeftRunning
from vsphere_ai.errors import Denied, StepFailed, Unparsed, Unreachable, VimFault
from vsphere_ai.model.facts import UNTYPED, About, CommandOutput, Facts, ProbeFailure
from vsphere_ai.model.steps import Probe, Query
from vsphere_ai.reading.collector import LIGHT, CollectorRequest, Depth, collect
from vsphere_ai.runs import ssh_markers

GPUS = Probe("gpus", ("nvidia-smi", "-L"))
SAME = Probe("same", ("nvidia-smi", "-L"))
MIG = Probe("mig", ("nvidia-smi", "mig", "-lgi"))


@dataclass
class FakeVCenter:
    """Holds objects; records every request."""

    objects: dict[str, dict[str, Any]]
    requests: list[tuple[str, Any]] = field(default_factory=list)
    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    about: About = field(default_factory=lambda: About("vCenter", "7.0.2", "1", "7.0.2.0", "i"))
    name: str = "vc"

    def read(self, paths):
        self.requests.append(("read", dict(paths)))
        return {
            r: Facts(r, {p: v for p, v in props.items() if p in paths.get(r.partition(":")[0], ())})
            for r, props in self.objects.items()
        }

    def read_objects(self, refs, paths):
        self.requests.append(("read_objects", (tuple(refs), dict(paths))))
        return {
            r: Facts(
                r,
                {p: v for p, v in self.objects[r].items() if p in paths.get(r.partition(":")[0], ())},
                {"secret": "no privilege"},
            )
            for r in refs
            if r in self.objects
        }

    def call(self, ref, method, args=None):
        self.requests.append((method, ref))
        answer = self.answers.get((method, ref), self.answers.get((method, "*")))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def count(self, what):
        return sum(name == what for name, _ in self.requests)


def host(number, running=True, **changed):
    return {
        "name": f"esx{number}",
        "parent": "ComputeResource:c",
        "config.lockdownMode": "lockdownDisabled",
        "runtime.connectionState": "connected",
        "configManager.serviceSystem": f"HostServiceSystem:s{number}",
        "config.service.service": ({"_typeName": "HostService", "key": "TSM-SSH", "running": running},),
        "configManager.advancedOption": f"OptionManager:o{number}",
        "config.graphicsInfo": (number,),
        "configManager.imageConfigManager": f"HostImageConfigManager:i{number}",
        **changed,
    }


def estate(vms=3, **hosts):
    made = {f"HostSystem:{k}": v for k, v in (hosts or {"h1": host(1), "h2": host(2)}).items()}
    made.update({f"VirtualMachine:v{i}": {"name": f"vm{i}", "config.hardware.device": (i,)} for i in range(vms)})
    made["DistributedVirtualPortgroup:p"] = {"name": "pg", "key": "p", "config.uplink": False}
    return made


class Shell:
    """A host's shell that answers at once."""

    def check_credential(self):
        """No host has refused it."""

    def __init__(self, farm, target):
        self.farm, self.target = farm, target
        self.endpoint = SimpleNamespace(username="root")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.farm.closed.append(self.target.name)

    def connect(self):
        self.farm.opened.append(self.target.name)
        self._raise(self.farm.open_errors)

    def run(self, argv, deadline_s, *, changes=False):
        assert not changes
        self.farm.ran.append((self.target.name, argv))
        self._raise(self.farm.run_errors.get(argv[-1], {}))
        return CommandOutput(0, f"{self.target.name} {' '.join(argv)}")

    def _raise(self, errors):
        found = errors.get(self.target.name)
        if isinstance(found, list):
            found = found.pop(0) if found else None
        if found is not None:
            raise found


@dataclass
class Farm:
    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    ran: list[Any] = field(default_factory=list)
    open_errors: dict[str, Any] = field(default_factory=dict)
    run_errors: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __call__(self, target):
        return Shell(self, target)


def everything(seen):
    return Depth(
        frozenset(h.ref for h in seen.hosts), frozenset(v.ref for v in seen.vms), frozenset(h.ref for h in seen.hosts)
    )


PATHS = {
    "HostSystem": ("config.graphicsInfo",),
    "VirtualMachine": ("config.hardware.device",),
    "DistributedVirtualPortgroup": ("config.uplink", "key"),
}


def test_requests_do_not_grow_with_the_number_of_vms():
    counts = []
    for size in (1, 2000):
        vcenter = FakeVCenter(estate(size))
        found = collect(vcenter, Farm(), CollectorRequest(PATHS, everything, (GPUS,)))
        assert len(found.vms) == size
        counts.append(len(vcenter.requests))
    assert counts == [2, 2]


def test_only_chosen_hosts_and_vms_are_read_deeply():
    vcenter = FakeVCenter(estate())
    chosen = Depth(frozenset({"HostSystem:h1"}), frozenset({"VirtualMachine:v2"}))
    found = collect(vcenter, Farm(), CollectorRequest(PATHS, lambda _: chosen))
    assert vcenter.requests[1] == (
        "read_objects",
        (
            ("HostSystem:h1", "VirtualMachine:v2"),
            {"HostSystem": ("config.graphicsInfo",), "VirtualMachine": ("config.hardware.device",)},
        ),
    )
    assert found["HostSystem:h1"].get("config.graphicsInfo") == (1,)
    assert found["HostSystem:h1"].name == "esx1"
    assert found["HostSystem:h1"].unreadable == {"secret": "no privilege"}
    assert found["HostSystem:h2"].get("config.graphicsInfo") is None
    assert found["VirtualMachine:v2"].get("config.hardware.device") == (2,)
    assert found["VirtualMachine:v1"].get("config.hardware.device") is None
    assert found["DistributedVirtualPortgroup:p"].properties["config.uplink"] is False


def test_the_choice_is_made_on_what_was_read_lightly():
    def choose(seen):
        assert [h.name for h in seen.hosts] == ["esx1", "esx2"]
        return Depth()

    vcenter = FakeVCenter(estate())
    collect(vcenter, None, CollectorRequest(PATHS, choose))
    assert set(LIGHT) <= set(vcenter.requests[0][1])


def test_advanced_settings_are_asked_from_chosen_hosts_only():
    vcenter = FakeVCenter(estate())
    value = ({"_typeName": "OptionValue", "key": "Net.PVRDMAVmknic", "value": "vmk2"},)
    vcenter.answers = {("QueryOptions", "OptionManager:o1"): value}
    request = CollectorRequest(
        {"HostSystem": ("option:Net.PVRDMAVmknic",)}, lambda _: Depth(frozenset({"HostSystem:h1"}))
    )
    found = collect(vcenter, None, request)
    assert found["HostSystem:h1"].get("option:Net.PVRDMAVmknic") == "vmk2"
    assert vcenter.count("QueryOptions") == 1


@pytest.mark.parametrize(
    ("answer", "value", "reason"),
    [
        (VimFault("no such setting", "", {"_typeName": "InvalidName"}), None, None),
        (VimFault("gone", "", {"_typeName": "HostNotConnected"}), None, "gone"),
        (Denied("Permission was denied"), None, "Permission was denied"),
        ((), None, None),
        (({"key": "k", "value": ""},), "", None),
    ],
)
def test_a_setting_is_unset_empty_or_unreadable_never_mixed_up(answer, value, reason):
    vcenter = FakeVCenter(estate(h1=host(1)), answers={("QueryOptions", "*"): answer})
    found = collect(vcenter, None, CollectorRequest({"HostSystem": ("option:K",)}, everything))["HostSystem:h1"]
    assert found.properties.get("option:K") == value
    assert found.unreadable.get("option:K") == reason


def test_installed_packages_are_read_when_somebody_wants_them():
    vcenter = FakeVCenter(estate(h1=host(1), h2=host(2)))
    vcenter.answers = {
        ("fetchSoftwarePackages", "HostImageConfigManager:i1"): ({"name": "esx-base"},),
        ("fetchSoftwarePackages", "HostImageConfigManager:i2"): Denied("Host.Config.Image is missing"),
    }
    found = collect(vcenter, None, CollectorRequest({"HostSystem": ("software",)}, everything))
    assert found["HostSystem:h1"].get("software") == ({"name": "esx-base"},)
    assert found["HostSystem:h2"].unreadable["software"] == "Host.Config.Image is missing"


def test_a_disconnected_host_makes_settings_unknown():
    gone = {"name": "esx1", "runtime.connectionState": "disconnected"}
    vcenter = FakeVCenter(estate(h1=gone))
    paths = {"HostSystem": ("software", "option:K")}
    found = collect(vcenter, Farm(), CollectorRequest(paths, everything, (GPUS,)))["HostSystem:h1"]
    assert set(found.unreadable) >= {"software", "option:K"}
    assert found.probes["gpus"].rule == "ssh.unreachable"
    assert "disconnected" in found.probes["gpus"].reason


def test_equal_commands_run_once_and_answer_everyone():
    farm = Farm()
    found = collect(FakeVCenter(estate(h1=host(1))), farm, CollectorRequest({}, everything, (GPUS, SAME, MIG)))
    assert [argv for _, argv in farm.ran] == [GPUS.argv, MIG.argv]
    probes = found["HostSystem:h1"].probes
    assert probes["gpus"] == probes["same"] == CommandOutput(0, "esx1 nvidia-smi -L")
    assert probes["mig"].stdout == "esx1 nvidia-smi mig -lgi"
    assert farm.closed == ["esx1"]


def test_hosts_are_asked_side_by_side():
    together = threading.Barrier(4)

    class Meeting(Shell):
        def run(self, argv, deadline_s, *, changes=False):
            together.wait(5)
            return super().run(argv, deadline_s)

    farm = Farm()
    hosts = {f"h{i}": host(i) for i in range(4)}
    request = CollectorRequest({}, everything, (GPUS,), parallel=4)
    found = collect(FakeVCenter(estate(**hosts)), lambda t: Meeting(farm, t), request)
    assert {h.name: found[h.ref].probes["gpus"].stdout.split()[0] for h in found.hosts} == {
        f"esx{i}": f"esx{i}" for i in range(4)
    }


@pytest.mark.parametrize(
    ("changed", "open_error", "rule"),
    [
        ({"running": False}, None, "ssh.stopped"),
        ({"config.lockdownMode": "lockdownNormal"}, None, "ssh.lockdown"),
        ({"runtime.connectionState": "notResponding"}, None, "ssh.unreachable"),
        ({}, SshRefused("nothing listens"), "ssh.stopped"),
        ({}, Unreachable("no answer"), "ssh.unreachable"),
        ({}, Denied("wrong key"), "ssh.denied"),
    ],
)
def test_every_reason_for_silence_has_its_rule(changed, open_error, rule):
    farm = Farm(open_errors={"esx1": open_error})
    vcenter = FakeVCenter(estate(h1=host(1, **changed), h2=host(2)))
    found = collect(vcenter, farm, CollectorRequest({}, everything, (GPUS, MIG)))
    failed = found["HostSystem:h1"].probes
    assert isinstance(failed["gpus"], ProbeFailure)
    assert {f.rule for f in failed.values()} == {rule}
    assert failed["gpus"].reason
    assert found["HostSystem:h2"].probes["gpus"].stdout == "esx2 nvidia-smi -L"
    assert vcenter.count("StartService") == 0
    assert ("esx1" in farm.opened) is (open_error is not None)


def test_answers_before_a_failure_are_kept():
    farm = Farm(run_errors={"-lgi": {"esx1": Unreachable("cut")}})
    probes = collect(FakeVCenter(estate(h1=host(1))), farm, CollectorRequest({}, everything, (GPUS, MIG)))[
        "HostSystem:h1"
    ].probes
    assert probes["gpus"].stdout
    assert probes["mig"] == ProbeFailure("ssh.unreachable", "cut", "")


@pytest.mark.parametrize(("cuts", "answered"), [(1, True), (2, True), (3, False)])
def test_a_command_whose_connection_breaks_is_asked_again(cuts, answered, monkeypatch):
    monkeypatch.setattr(probing, "_PAUSES", (0.0, 0.0))
    farm, left = Farm(), [cuts]

    class Breaking(Shell):
        def run(self, argv, deadline_s, *, changes=False):
            if "-lgi" in argv and left[0]:
                left[0] -= 1
                raise ConnectionBroken("the connection broke")
            return super().run(argv, deadline_s)

    request = CollectorRequest({}, everything, (GPUS, MIG))
    found = collect(FakeVCenter(estate(h1=host(1))), lambda t: Breaking(farm, t), request)["HostSystem:h1"].probes
    assert found["gpus"].stdout
    assert isinstance(found["mig"], ProbeFailure) is not answered


def test_a_command_that_does_not_end_is_not_asked_again(monkeypatch):
    asked = []

    class Hanging(Shell):
        def run(self, argv, deadline_s, *, changes=False):
            asked.append(argv)
            raise Unreachable("it did not end in time")

    farm = Farm()
    collect(FakeVCenter(estate(h1=host(1))), lambda t: Hanging(farm, t), CollectorRequest({}, everything, (GPUS,)))
    assert len(asked) == 1


def test_a_stopped_service_is_started_if_allowed_and_stopped_again():
    vcenter, farm = FakeVCenter(estate(h1=host(1, running=False), h2=host(2))), Farm()
    found = collect(vcenter, farm, CollectorRequest({}, everything, (GPUS,), start_ssh=True))
    assert found["HostSystem:h1"].probes["gpus"].stdout
    services = [(name, ref) for name, ref in vcenter.requests if name.endswith("Service")]
    assert services == [("StartService", "HostServiceSystem:s1"), ("StopService", "HostServiceSystem:s1")]


@pytest.mark.parametrize("may_start", [True, False])
def test_ssh_that_another_command_reads_over_is_not_counted_on(may_start, monkeypatch, tmp_path):
    """It is about to be stopped: whoever may start it waits for its turn, anybody else sees it stopped."""
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    vcenter, reading, read = FakeVCenter(estate(h1=host(1))), threading.Event(), threading.Event()

    def other():
        with ssh_markers.noted("i", "HostSystem:h1"):
            reading.set()
            read.wait(5)
            vcenter.requests.append(("the other has stopped it", ""))

    first = threading.Thread(target=other)
    first.start()
    reading.wait(5)
    threading.Timer(0.3, read.set).start()
    found = collect(vcenter, Farm(), CollectorRequest({}, everything, (GPUS,), start_ssh=may_start))
    read.set()
    first.join()
    told = [name for name, _ in vcenter.requests if name.endswith(("Service", "it"))]
    if may_start:
        assert told == ["the other has stopped it", "StartService", "StopService"]
        assert found["HostSystem:h1"].probes["gpus"].stdout
    else:
        assert found["HostSystem:h1"].probes["gpus"].rule == "ssh.stopped"


@pytest.mark.parametrize("error", [Denied("no"), Unreachable("no")])
def test_it_is_stopped_again_when_the_probe_fails(error):
    vcenter = FakeVCenter(estate(h1=host(1, running=False)))
    collect(vcenter, Farm(open_errors={"esx1": error}), CollectorRequest({}, everything, (GPUS,), start_ssh=True))
    assert vcenter.count("StopService") == 1


def test_a_service_that_is_slow_to_listen_is_waited_for():
    farm = Farm(open_errors={"esx1": [SshRefused("not yet"), None]})
    vcenter = FakeVCenter(estate(h1=host(1, running=False)))
    found = collect(vcenter, farm, CollectorRequest({}, everything, (GPUS,), start_ssh=True))
    assert found["HostSystem:h1"].probes["gpus"].stdout
    assert farm.opened == ["esx1", "esx1"]


def test_a_service_that_may_not_be_started_or_stopped_is_said():
    vcenter = FakeVCenter(estate(h1=host(1, running=False)), answers={("StartService", "*"): Denied("no right")})
    found = collect(vcenter, Farm(), CollectorRequest({}, everything, (GPUS,), start_ssh=True))
    assert found["HostSystem:h1"].probes["gpus"].rule == "ssh.denied"
    assert vcenter.count("StopService") == 0
    vcenter.answers = {("StopService", "*"): StepFailed("busy")}
    with refused(LeftRunning, "step.failed", "esx1", "busy"):
        collect(vcenter, Farm(), CollectorRequest({}, everything, (GPUS,), start_ssh=True))


def test_progress_is_told():
    lines = []
    collect(FakeVCenter(estate()), Farm(), CollectorRequest(PATHS, everything, (GPUS,), progress=lines.append))
    assert len(lines) == 3
    assert "2 hosts" in lines[1]


# -- questions that depend on what was read


def first(_seen):
    return Depth(frozenset({"HostSystem:h1"}))


def options(*refs, keep=len):
    return lambda seen: tuple(
        Query(f"{r}-{key}", "environmentBrowser", "QueryConfigOptionEx", {"spec": key}, on=r, keep=keep)
        for r in refs
        for key in seen["HostSystem:h1"].get("config.graphicsInfo")  # what was read deeply is known by then
    )


def test_other_objects_are_asked_too_and_only_what_is_wanted_is_kept():
    objects = {**estate(), "ComputeResource:c": {"name": "gpu-a", "environmentBrowser": "EnvironmentBrowser:e"}}
    vcenter = FakeVCenter(objects, answers={("QueryConfigOptionEx", "EnvironmentBrowser:e"): "a huge answer"})
    asked = CollectorRequest(PATHS, first, ask=options("ComputeResource:c", "ComputeResource:gone"))
    seen = collect(vcenter, None, asked)
    assert seen["ComputeResource:c"].get("query:ComputeResource:c-1") == len("a huge answer")
    assert seen["ComputeResource:c"].name == "gpu-a"
    assert vcenter.count("QueryConfigOptionEx") == 1


@pytest.mark.parametrize("said", [StepFailed("refused"), Unparsed("pyVmomi does not know 'NewKind'")])
@pytest.mark.parametrize("browser", [{}, {"environmentBrowser": "EnvironmentBrowser:e"}])
def test_an_object_that_does_not_answer_says_why(browser, said):
    objects = {**estate(), "ComputeResource:c": {"name": "gpu-a", **browser}}
    vcenter = FakeVCenter(objects, answers={("QueryConfigOptionEx", "*"): said})
    seen = collect(vcenter, None, CollectorRequest(PATHS, first, ask=options("ComputeResource:c")))
    why = seen["ComputeResource:c"].unreadable["query:ComputeResource:c-1"]
    untyped = f"{UNTYPED}: " if isinstance(said, Unparsed) else ""
    assert why == (untyped + said.message if browser else "gpu-a has no environmentBrowser; it may be disconnected")


def test_a_vcenter_that_cannot_be_reached_is_no_answer():
    objects = {**estate(), "ComputeResource:c": {"name": "gpu-a", "environmentBrowser": "EnvironmentBrowser:e"}}
    vcenter = FakeVCenter(objects, answers={("QueryConfigOptionEx", "*"): Unreachable("gone")})
    with pytest.raises(Unreachable):
        collect(vcenter, None, CollectorRequest(PATHS, first, ask=options("ComputeResource:c")))
