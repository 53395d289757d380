"""The recorded cases once more: without a network, with other credentials, and with a look at what comes out."""

from __future__ import annotations

import json

import pytest
from recorded import leaks
from recorded.cases import CASES, PROFILE, Case, login, train_01, vgpu_pvrdma
from recorded.scrub import Scrubber
from recorded.soapvcr import CASSETTES, LARGEST, call_of, cassette
from vcr.errors import CannotOverwriteExistingCassetteException

from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.errors import Conflict, Denied, VimFault, VsphereAiError
from vsphere_ai.model.steps import Invoke, Reconfigure
from vsphere_ai.planning.planner import make_plan, observe
from vsphere_ai.resources import kinds

FILES = sorted(CASSETTES.glob("*.yaml"))


@pytest.fixture
def replay(no_network, elsewhere):
    """Run a case from its cassette; returns what it returned and the calls it made, all of those on the cassette."""

    def run(name):
        case = next(c for c in CASES if c.name == name)
        with cassette(case.name) as tape:
            result = case.run(elsewhere)
        assert tape.play_count == len(tape), "the recording goes on after the replay has ended"
        return result, [call_of(request.body) for request in tape.requests]

    return run


def methods(calls):
    return [call[0] for call in calls if call]


def only(calls, method):
    (found,) = (call for call in calls if call and call[0] == method)
    return found


def values(call, name):
    """Return the texts of all elements of a name, anywhere in a call."""
    own = [call[1]] if call[0] == name else []
    return own + [value for below in call[3] for value in values(below, name)]


def test_every_case_has_its_cassette_and_every_cassette_its_case():
    assert {file.stem for file in FILES} == {case.name for case in CASES}


def test_without_a_cassette_the_network_would_be_used(elsewhere, no_network):
    with pytest.raises(AssertionError, match="no network in this test"):
        VCenter.connect(elsewhere)
    assert len(no_network) == 1
    no_network.clear()


def test_login_and_version(replay):
    found, calls = replay("login")
    assert calls[0] is None, "the first request asks for the versions"
    assert methods(calls) == ["RetrieveServiceContent", "Login", "CurrentTime", "Logout"]
    assert values(only(calls, "Login"), "password") == ["REDACTED"]
    assert (found["about"].version, found["about"].api, found["about"].api_type) == (
        "7.0.2",
        "7.0.2.0",
        "VirtualCenter",
    )
    assert found["supports"] == {
        "HostSystem:config.sharedPassthruGpuTypes": True,
        "HostSystem:hardware.dpuInfo": False,  # vSphere 8.0
    }
    assert found["checker"].startswith("VirtualMachineCompatibilityChecker:")
    assert found["now"].tzinfo is not None


def test_tags_are_read_in_a_session_of_their_own(replay):
    found, calls = replay("tags")
    assert found.categories == ("Stage", "Team")
    on = {name: len(objects) for name, objects in found.objects.items()}
    assert on == {"Stage/frozen": 1, "Team/empty": 0, "Team/ml": 4}
    assert {ref.partition(":")[0] for ref in found.objects["Team/ml"]} == {"HostSystem", "VirtualMachine"}
    asked = [json.loads(call[1]) for call in calls if call and call[0] == "JSON"]
    assert [sorted(each) for each in asked] == [["category_id"], ["category_id"], ["tag_ids"]]
    text = (CASSETTES / "tags.yaml").read_text("utf-8")
    assert text.index("/api/session") < text.index("/api/cis/tagging") < text.rindex("method: DELETE")
    assert "/api/cis/tagging/tag-association?action=list-attached-objects-on-tags" in text


def test_a_wrong_password_is_tried_once(replay, elsewhere):
    error, calls = replay("wrong_password")
    assert isinstance(error, Denied)
    assert "does not accept the user name or the password" in error.message
    assert elsewhere.password not in error.message
    assert methods(calls) == ["RetrieveServiceContent", "Login"]


def test_bulk_read(replay):
    estate, calls = replay("bulk_read")
    assert [h.name for h in estate.hosts] == ["esx-odd.lab.local", *(f"esx0{i}.lab.local" for i in (1, 2, 3))]
    assert [v.name for v in estate.vms] == ["infra-01", "odd-01", *(f"train-0{i}" for i in (1, 2, 3, 4))]
    train = next(v for v in estate.vms if v.name == "train-01")
    assert estate.path_of(train.ref) == "/DC0/vm/ai/training/train-01"
    states = observe(estate, kinds())
    assert states[train.ref, "hardware"].version == 17
    assert states[train.ref, "vgpu"].profiles == ()
    first = next(h for h in estate.hosts if h.name == "esx01.lab.local")
    assert states[first.ref, "graphics"].gpus == {"0000:3b:00.0": "shared", "0000:86:00.0": "shared"}
    assert states[first.ref, "pvrdma_host"].vmknic == ""
    assert any("NVIDIA" in p["name"] for p in estate[first.ref].get("software"))
    assert not any(p for facts in estate.objects.values() for p in facts.unreadable.values() if "not known" in p)
    # one view and two readings, however many objects there are; what managers of a host are asked: packages, options
    asked, paths = methods(calls), {p for k in kinds().values() for p in k.traits.properties.get("HostSystem", ())}
    options = sum(path.startswith("option:") for path in paths)
    assert (asked.count("CreateContainerView"), asked.count("RetrievePropertiesEx")) == (1, 2)
    assert (asked.count("QueryOptions"), asked.count("fetchSoftwarePackages")) == (4 * options, 4)


def test_a_recorded_estate_can_be_planned_with(replay):
    estate, _ = replay("bulk_read")
    train = next(v for v in estate.vms if v.name == "train-01")
    problems = {p.rule: p for p in make_plan({train: train_01()}, estate, kinds(), "p.yml").problems}
    assert problems["vgpu.profile"].message == f"esx01.lab.local does not support vGPU profile {PROFILE}"


def test_vgpu_and_pvrdma_in_one_reconfigure(replay):
    work, calls = replay("vgpu_pvrdma")
    assert work.plan.problems == ()
    assert work.left == ()
    asked = methods(calls)
    for once in ("ShutdownGuest", "UpgradeVM_Task", "ReconfigVM_Task", "PowerOnVM_Task"):
        assert asked.count(once) == 1
    assert asked.index("ShutdownGuest") < asked.index("ReconfigVM_Task") < asked.index("PowerOnVM_Task")
    (step,) = (s.step for s in work.plan.steps if isinstance(s.step, Reconfigure))
    assert step.kinds == ("vgpu", "pvrdma")
    sent = only(calls, "ReconfigVM_Task")
    assert values(sent, "operation") == ["add", "add"]
    assert values(sent, "vgpu") == [PROFILE]
    assert values(sent, "deviceProtocol") == ["rocev2"]
    assert len(values(sent, "changeVersion")) == 1

    before, after = (
        {d["key"]: d for d in facts["config.hardware.device"]} for facts in (work.before, work.after)
    )  # fmt: skip
    assert before.items() <= after.items(), "the devices that were there are as they were"
    added = {d["_typeName"]: d for key, d in after.items() if key not in before}
    assert added["VirtualPCIPassthrough"]["backing"]["vgpu"] == PROFILE
    assert added["VirtualVmxnet3Vrdma"]["deviceProtocol"] == "rocev2"
    assert work.after["config.memoryReservationLockedToMax"] is True
    assert work.after["config.version"] == "vmx-19"
    assert work.after["runtime.powerState"] == work.before["runtime.powerState"] == "poweredOn"


def test_graphics_are_configured_as_a_whole_and_not_active_yet(replay):
    work, calls = replay("graphics")
    sent = only(calls, "UpdateGraphicsConfig")
    assert values(sent, "deviceId") == ["0000:3b:00.0", "0000:86:00.0"]
    assert values(sent, "graphicsType") == ["sharedDirect", "sharedDirect"]
    assert values(sent, "hostDefaultGraphicsType") == ["sharedDirect"]
    assert values(sent, "sharedPassthruAssignmentPolicy") == ["performance"]
    assert next(s.step.method for s in work.plan.steps if isinstance(s.step, Invoke)) == "UpdateGraphicsConfig"
    assert {d["graphicsType"] for d in work.after["config.graphicsConfig"]["deviceType"]} == {"sharedDirect"}
    gpus = [g for g in work.after["config.graphicsInfo"] if "NVIDIA" in g["vendorName"]]
    assert [g["graphicsType"] for g in gpus] == ["shared", "shared"]
    assert work.after["summary.rebootRequired"] is True
    (item,) = work.left
    assert {f.before for f in item.fields} == {"shared (configured: shared_direct)"}


def test_refusals_are_told_apart(replay):
    errors, calls = replay("refused")
    assert set(errors) == {"stale", "running"}, "the first of the two for train-04 was accepted"
    assert isinstance(errors["stale"], Conflict)
    assert errors["stale"].exit_code == 3
    assert isinstance(errors["running"], VimFault)
    assert errors["running"].fault == "InvalidPowerState"
    assert errors["running"].detail["existingState"] == "poweredOn"
    first, second, third = (c for c in calls if c and c[0] == "ReconfigVM_Task")
    assert values(first, "changeVersion") == values(second, "changeVersion")
    assert values(third, "vgpu") == [PROFILE]


def test_another_profile_is_another_request(no_network, elsewhere, monkeypatch):
    # a request that is not on the tape is a lost answer to the tool, which then looks what happened
    monkeypatch.setattr("vsphere_ai.execution.actions.executor.LOST_CALL", 0.0)
    with cassette("vgpu_pvrdma") as tape, pytest.raises(VsphereAiError, match=r"ReconfigVM_Task|matches 1 recorded"):
        vgpu_pvrdma(elsewhere, "grid_a100-2-10c")
    played = [call_of(tape.requests[i].body) for i in tape.play_counts]
    assert "UpgradeVM_Task" in methods(played)
    assert "ReconfigVM_Task" not in methods(played)


def test_a_cassette_is_played_once(no_network, elsewhere):
    with cassette("login"):
        login(elsewhere)
        with pytest.raises(CannotOverwriteExistingCassetteException):
            login(elsewhere)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_cassette_holds_no_secret(file):
    text = file.read_text(encoding="utf-8")
    assert list(leaks.find(text, ("administrator", "127.0.0.1", "no-password-of-this-vcenter"))) == []
    assert len(text.encode()) <= LARGEST


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_loaded_is_not_changed_again(case: Case):
    """vcrpy scrubs a cassette anew when it loads it; if that changed anything, no request would match."""
    scrubber = Scrubber({"unlikely-secret": "REDACTED"})
    with cassette(case.name) as tape:
        pass
    assert len(tape) > 0
    for request, response in tape.data:
        body = response["body"]["string"]
        assert scrubber.body(request.body) == request.body
        assert scrubber.body(body) == body
