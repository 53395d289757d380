"""Notes, custom attributes and CD drives of sets: set with a new VM, changed in place, put right after drift."""

from __future__ import annotations

import json
from datetime import date

import pytest
from support.vm_sets import FARM, INVENTORY, Sets, play

pytestmark = pytest.mark.lab
ATTRIBUTES = "{Owner: ml, Cost centre: '4711'}"
DETAILS = {"notes": '"first line\\nsecond line"', "custom_attributes": ATTRIBUTES, "cdrom": "none"}


TEMPLATE = "template: true, iso: '[datastore1] iso/install.iso', attributes: {Owner: images}"
SCENARIO = FARM.replace("template: true", TEMPLATE) + "datastores: [{name: datastore1}]\n"


@pytest.fixture
def farm(cli, make_lab, monkeypatch, new_client):
    """Start a farm whose template has an ISO image in its drive, and whose vCenter has custom attributes."""

    def begun(more=""):
        lab = make_lab(SCENARIO + more)
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
        found = Sets(cli, lab, cli.file(INVENTORY, "inventory.yml"))
        found.soap = new_client(lab)
        return found

    return begun


@pytest.fixture
def described(farm):
    """Such a farm with an attribute for VMs only, and one for hosts only."""
    found = farm()
    manager, vim = found.soap.content.customFieldsManager, found.soap.vim
    manager.AddCustomFieldDef("Cost centre", vim.VirtualMachine)
    manager.AddCustomFieldDef("Rack", vim.HostSystem)
    return found


def details(soap, name):
    """Return what vCenter shows of a VM: notes, custom attributes by name, and its CD drives."""
    vm = soap.vm(name)
    names = {field.key: field.name for field in vm.availableField}
    drives = [d for d in vm.config.hardware.device if isinstance(d, soap.vim.vm.device.VirtualCdrom)]
    loaded = [d for d in drives if getattr(d.backing, "fileName", "") or d.connectable.startConnected]
    return vm.config.annotation, {names[v.key]: v.value for v in vm.customValue}, len(loaded)


def test_a_new_vm_gets_them_with_its_clone(described):
    described.applied(play("train-01", nics=1, **DETAILS))
    expected = ("first line\nsecond line", {"Owner": "ml", "Cost centre": "4711"}, 0)
    assert details(described.soap, "train-01") == expected
    calls = [e["call"] for e in described.ledger("train-01")]
    assert calls.count("ReconfigVM_Task") == 0, "notes and drives come with the clone"
    assert details(described.soap, "ubuntu-22.04")[2] == 1, "the template keeps its image"


def test_they_change_in_place_and_an_empty_text_removes(described, cli):
    described.applied(play("train-01", nics=1, custom_attributes="{Owner: ml}"))
    assert details(described.soap, "train-01")[2] == 1
    on = len(described.ledger("train-01", "PowerOnVM_Task"))
    text = play("train-01", nics=1, notes="of the vision team", custom_attributes="{Owner: ''}", cdrom="none")
    assert described("plan", cli.file(text), "-o", "json") == 0
    plan = json.loads(cli.out)
    changes = {c["field"]: c["effect"] for i in plan["items"] if i["kind"] == "vm_set" for c in i["changes"]}
    assert changes == dict.fromkeys(("notes", "attribute Owner", "cdrom"), "in place")
    described.applied(text)
    assert details(described.soap, "train-01") == ("of the vision team", {}, 0)
    assert len(described.ledger("train-01", "PowerOnVM_Task")) == on, "no power cycle"
    described.applied(play("train-01", nics=1, notes="''"))
    assert not details(described.soap, "train-01")[0]


def test_a_lost_reply_about_an_attribute_changes_nothing_for_the_operator(described):
    described.lab.set_faults([{"on": "setCustomValue", "nth": 1, "do": "lost-reply"}])
    described.applied(play("train-01", nics=1, custom_attributes=ATTRIBUTES))
    assert described.lab.get("/lab/faults")["fired"]
    assert details(described.soap, "train-01")[1] == {"Owner": "ml", "Cost centre": "4711"}


def test_what_someone_else_changes_is_drift(described, cli):
    text = cli.file(play("train-01", nics=1, **DETAILS))
    assert described("apply", text, "--yes") == 0, cli.out + cli.err
    assert described("verify", text) == 0, cli.out
    soap = described.soap
    soap.vm("train-01").setCustomValue("Owner", "someone")
    soap.wait(soap.vm("train-01").ReconfigVM_Task(soap.vim.vm.ConfigSpec(annotation="mine")))
    assert described("verify", text) == 2
    assert "attribute Owner" in cli.out
    assert "notes" in cli.out
    assert described("apply", text, "--yes") == 0
    assert details(soap, "train-01")[1]["Owner"] == "ml"


@pytest.mark.parametrize(
    ("attributes", "rule", "words"),
    [
        ("{Ownr: ml}", "vm_set.no-attribute", "did you mean 'Owner'?"),
        ("{Rack: a7}", "vm_set.no-attribute", "for virtual machines"),
        ("{vsphere-ai addresses: x}", "vm_set.attribute-owned", "choose another name"),
    ],
)
def test_an_attribute_that_vms_do_not_have_is_refused(described, cli, attributes, rule, words):
    text = play("train-01", nics=1, custom_attributes=attributes)
    assert described.refused(text) == {rule}
    described("plan", cli.file(text))
    assert words in cli.out


@pytest.mark.parametrize(
    ("privilege", "fields"),
    [
        ("VirtualMachine.Config.Annotation", {"notes": "x"}),
        ("VirtualMachine.Config.EditDevice", {"cdrom": "none"}),
        ("Global.SetCustomField", {"custom_attributes": "{Owner: ml}"}),
    ],
)
def test_a_missing_privilege_is_told_before(farm, cli, privilege, fields):
    denied = farm(f"privileges_denied: [{privilege}]\n")
    book = cli.file(play("train-01", cards=("{name: mgmt, port_group: dvpg-dhcp}",), **fields))
    assert denied("doctor", "--permissions", book, "-o", "json") == 4, cli.out
    lacking = {need["privilege"] for need in json.loads(cli.out)["privileges"] if not need["granted"]}
    assert privilege in lacking


@pytest.mark.parametrize(
    ("record", "code", "words"),
    [
        ("built=2020-01-31", 1, "the image was built on 2020-01-31"),
        (f"built={date.today().isoformat()}", 0, "clone ubuntu-22.04"),
        ("", 0, "it is not known when the image was built"),
    ],
)
def test_a_source_that_is_too_old_is_refused(cli, make_lab, monkeypatch, record, code, words):
    said = f"template: true, extra_config: {{vsphere-ai.image: 'cloud-init=24.1.3 renderer=netplan {record}'}}"
    lab = make_lab(FARM.replace("template: true", said))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    aged = Sets(cli, lab, cli.file(INVENTORY, "inventory.yml"))
    assert aged("plan", cli.file(play("train-01", nics=1, image_max_days=30))) == code, cli.out
    assert words in cli.out
    assert ("[image.age]" in cli.out) == (code == 1)
