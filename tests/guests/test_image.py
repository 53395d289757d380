"""Image contract: each rule with a source that keeps it, one that breaks it, and one that does not show it."""

from __future__ import annotations

from datetime import date

import pytest

from vsphere_ai.guests.cloud_init import Guest, extra_config
from vsphere_ai.guests.image import PATHS, RENDERERS, Needs, canary, cleared_settings, image_findings, recorded
from vsphere_ai.guests.netplan import GuestNic
from vsphere_ai.guests.ready import READY
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target

SOURCE = Target("vm", "ubuntu-24.04", "VirtualMachine:vm-7")
GOOD_KEY = "cloud-init=24.1.3 renderer=netplan machine-id=clean"
ALL = Needs(policy_routing=True)


def settings(**values):
    return tuple({"_typeName": "OptionValue", "key": key, "value": value} for key, value in values.items())


GOOD = {
    "name": "ubuntu-24.04",
    "config.template": True,
    "config.guestId": "ubuntu64Guest",
    "config.tools.toolsVersion": 2147483647,
    "guest.toolsVersionStatus2": "guestToolsUnmanaged",
    "config.extraConfig": settings(**{"vsphere-ai.image": GOOD_KEY, "guestinfo.vmtools.buildNumber": "1"}),
    "config.hardware.device": (),
}


def snapshots(*names):
    """A chain of snapshots, each below the one before."""
    tree = ()
    for name in reversed(names):
        tree = ({"_typeName": "VirtualMachineSnapshotTree", "name": name, "childSnapshotList": tree},)
    return {"rootSnapshotList": tree}


def findings(needs=ALL, unreadable=None, **changes):
    properties = {k: v for k, v in {**GOOD, **changes}.items() if v is not None}
    return image_findings(SOURCE, Facts(SOURCE.ref, properties, unreadable or {}), needs)


def verdicts(*arguments, **changes):
    return {f.rule.removeprefix("image."): f.verdict for f in findings(*arguments, **changes)}


def other(*arguments, **changes):
    return {rule: verdict for rule, verdict in verdicts(*arguments, **changes).items() if verdict != "pass"}


def test_a_source_that_keeps_the_contract_passes_and_needs_no_canary():
    found = findings()
    assert {f.verdict for f in found} == {"pass"}
    assert [f.rule for f in found] == [
        f"image.{rule}" for rule in ("guest", "tools", "cloud-init", "renderer", "machine-id", "guestinfo", "vapp")
    ]
    assert canary(found) == ()


def of_image(text):
    return {"config.extraConfig": settings(**{"vsphere-ai.image": text})}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"guest.guestFamily": "windowsGuest"}, {"guest": "fail"}),
        ({"config.guestId": "windows2019srv_64Guest"}, {"guest": "fail"}),
        ({"config.guestId": "otherGuest"}, {"guest": "unknown"}),
        ({"config.guestId": None}, {"guest": "unknown"}),
        ({"config.guestId": "otherGuest", "guest.guestFamily": "linuxGuest"}, {}),
        ({"guest.toolsVersionStatus2": "guestToolsNotInstalled"}, {"tools": "fail"}),
        ({"guest.toolsVersionStatus2": None, "config.tools.toolsVersion": 0}, {"tools": "fail"}),
        ({"guest.toolsVersionStatus2": None, "config.tools.toolsVersion": None}, {"tools": "unknown"}),
        (of_image("cloud-init=21.2 renderer=netplan machine-id=clean"), {"cloud-init": "fail"}),
        (of_image("cloud-init=21.3 renderer=netplan machine-id=clean"), {"cloud-init": "warn"}),
        (of_image("cloud-init=23.4 renderer=netplan machine-id=clean"), {}),
        (of_image("cloud-init=23.4.1-0ubuntu1~22.04.1 renderer=netplan machine-id=clean"), {}),
        (of_image("renderer=netplan machine-id=clean"), {"cloud-init": "unknown"}),
        (of_image("cloud-init=new renderer=netplan machine-id=clean"), {"cloud-init": "unknown"}),
        (of_image("cloud-init=24.1 machine-id=clean"), {"renderer": "unknown"}),
        (of_image("cloud-init=24.1 renderer=wicked machine-id=clean"), {"renderer": "unknown"}),
        (of_image("cloud-init=24.1 renderer=netplan"), {"machine-id": "unknown"}),
        (of_image("cloud-init=24.1 renderer=netplan machine-id=kept"), {"machine-id": "warn"}),
        (of_image(""), {"cloud-init": "unknown", "renderer": "unknown", "machine-id": "unknown"}),
        ({"config.vAppConfig": {"_typeName": "VmConfigInfo"}}, {"vapp": "warn"}),
        ({"config.hardware.device": ({"_typeName": "VirtualTPM", "key": 11000},)}, {"tpm": "warn"}),
    ],
)
def test_what_breaks_the_contract_is_found(changes, expected):
    assert other(**changes) == expected


@pytest.mark.parametrize("name", RENDERERS)
def test_only_netplan_keeps_policy_routing(name):
    changes = of_image(f"cloud-init=24.1 renderer={name} machine-id=clean")
    assert other(**changes) == ({} if name == "netplan" else {"renderer": "fail"})
    assert other(Needs(), **changes) == {}, "without routing tables every renderer will do"


def test_failures_refuse_and_have_a_remedy_and_a_source():
    bad = {
        **of_image("cloud-init=0.7.9 renderer=sysconfig machine-id=kept"),
        "config.guestId": "windows9_64Guest",
        "guest.toolsVersionStatus2": "guestToolsNotInstalled",
        "config.vAppConfig": {"_typeName": "VmConfigInfo"},
    }
    for found in findings(Needs(policy_routing=True, linked=True, snapshot="x"), **bad):
        assert found.refuses == (found.verdict == "fail")
        assert found.source
        assert bool(found.remedy) == (found.verdict != "pass"), found


def test_linuxprep_wants_cloud_init_no_older_than_its_own_way_of_customization():
    old = of_image("cloud-init=22.4 renderer=sysconfig machine-id=clean")
    assert other(Needs(method="linux-prep"), **old) == {"cloud-init": "warn"}
    assert other(Needs(method="linux-prep"), **of_image("cloud-init=23.1 machine-id=clean")) == {}


def test_a_tpm_of_its_own_since_8_0():
    tpm = {"config.hardware.device": ({"_typeName": "VirtualTPM", "key": 11000},)}
    assert verdicts(Needs(api=(8, 0, 0, 1)), **tpm)["tpm"] == "pass"


@pytest.mark.parametrize(
    ("needs", "changes", "verdict"),
    [
        (Needs(linked=True), {}, None),
        (Needs(linked=True, snapshot="base"), {}, "fail"),
        (Needs(linked=True), {"config.template": False, "snapshot": snapshots("base")}, "fail"),
        (Needs(linked=True, snapshot="base"), {"config.template": False}, "fail"),
        (
            Needs(linked=True, snapshot="base"),
            {"config.template": False, "snapshot": snapshots("base", "base")},
            "fail",
        ),
        (Needs(linked=True, snapshot="two"), {"config.template": False, "snapshot": snapshots("one", "two")}, "pass"),
        (Needs(), {"config.template": False}, None),
    ],
)
def test_a_linked_clone_of_a_vm_has_one_snapshot_of_that_name(needs, changes, verdict):
    assert verdicts(needs, **changes).get("snapshot") == verdict


def test_settings_of_another_machine_are_found_and_emptied_in_the_clone():
    given = extra_config(
        Guest("trn-01", "id", (GuestNic("mgmt", "00:50:56:00:00:01", ("10.0.0.5/24",), primary=True),))
    )
    stale = {
        "guestinfo.metadata": "x",
        "guestinfo.vendordata": "y",
        "guestinfo.vendordata.encoding": "base64",
        "guestinfo.userdata": "---",
        READY: "{}",
        "vsphere-ai.set": "trn",
        "vsphere-ai.image": GOOD_KEY,
        "guestinfo.vmtools.buildNumber": "1",
        "numa.nodeAffinity": "0",
        "guestinfo.ovfEnv": "",
    }
    assert other(**{"config.extraConfig": settings(**stale)}) == {"guestinfo": "warn", "mark": "warn"}
    assert cleared_settings(stale, given) == dict.fromkeys(
        ["guestinfo.vendordata", "guestinfo.vendordata.encoding", READY, "vsphere-ai.set", "vsphere-ai.image"], ""
    )
    assert cleared_settings({"vsphere-ai.set": "trn"}, {"vsphere-ai.set": "other"}) == {}


def test_settings_that_cannot_be_read_are_a_reason_for_a_canary():
    found = findings(unreadable={"config.extraConfig": "no privilege"}, **{"config.extraConfig": None})
    reasons = canary(found)
    assert len(reasons) == 4
    assert all("no privilege" in reason for reason in reasons)
    assert not any(f.refuses for f in found)


@pytest.mark.parametrize(
    ("path", "rule"), [("config.vAppConfig", "vapp"), ("config.hardware.device", "tpm"), ("snapshot", "snapshot")]
)
def test_what_cannot_be_read_is_unknown(path, rule):
    assert (
        other(Needs(linked=True, snapshot="a"), {path: "no privilege"}, **{"config.template": True})[rule] == "unknown"
    )


def test_what_is_in_the_notes_counts_where_the_setting_does_not_say_it():
    notes = {"config.annotation": f"Ubuntu 24.04\nvsphere-ai.image: {GOOD_KEY}\n", "config.extraConfig": ()}
    assert other(**notes) == {}
    both = {**notes, "config.extraConfig": settings(**{"vsphere-ai.image": "renderer=eni"})}
    assert recorded(Facts("x", both)).renderer == "eni"


def test_nothing_is_looked_at_that_is_not_asked_for():
    asked = []

    class Log(dict):
        def get(self, path, default=None):
            asked.append(path)
            return super().get(path, default)

    needs = Needs(policy_routing=True, linked=True, snapshot="a", most_days=30)
    image_findings(SOURCE, Facts(SOURCE.ref, Log(GOOD)), needs)
    assert set(asked) == set(PATHS)


AGED = Needs(most_days=30, today=date(2026, 3, 1))


@pytest.mark.parametrize(
    ("built", "created", "verdict"),
    [
        ("2026-01-30", None, "pass"),
        ("2026-01-29", None, "fail"),
        ("2026-02-27", "2020-01-01T08:00:00Z", "pass"),
        (None, "2026-02-01T08:00:00+00:00", "pass"),
        (None, "2026-01-01T08:00:00+00:00", "fail"),
        ("yesterday", None, "unknown"),
        (None, None, "unknown"),
    ],
)
def test_an_image_is_no_older_than_the_set_allows(built, created, verdict):
    key = {"vsphere-ai.image": f"{GOOD_KEY} built={built}" if built else GOOD_KEY}
    changes = {"config.extraConfig": settings(**key), "config.createDate": created}
    assert verdicts(AGED, **changes)["age"] == verdict
    assert "age" not in verdicts(ALL, **changes), "without a limit its age does not matter"
    assert canary(findings(AGED, **changes)) == (), "no VM that is made first shows it"
