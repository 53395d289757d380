"""Adoption on the lab: VMs made by someone else become VMs of a set, with their addresses, and nothing else changes."""

from __future__ import annotations

import pytest
from pyVmomi import vim
from support.processes import killed_at
from support.seeds import few
from support.vm_sets import disowned, options, play, set_options

pytestmark = pytest.mark.lab
TWO = play("train-[01:02]", nics=2)


def seen(soap, name):
    """What of a VM an adoption leaves as it is."""
    vm = soap.vm(name)
    macs = [d.macAddress for d in vm.config.hardware.device if hasattr(d, "macAddress")]
    own = {k: v for k, v in options(soap, name).items() if not k.startswith("vsphere-ai.")}
    return vm._moId, macs, vm.config.uuid, vm.runtime.powerState, own


@pytest.fixture
def strangers(sets, new_client):
    """Two VMs of another name than the set's, with addresses of its pools, and without marks and leases."""
    sets.applied(play("train-[01:02]", name="old", nics=2))
    sets.client = new_client(sets.lab)
    for name in ("train-01", "train-02"):
        disowned(sets.client, name)
    assert sets("destroy", sets.cli.file(play("train-[01:02]", name="old", nics=2)), "--yes") == 0
    assert sets.addresses() == {}
    return sets


@pytest.fixture
def one(sets, new_client):
    """A set of which the second VM was restored from somewhere, so that it lost its mark."""
    sets.applied(TWO)
    sets.client = new_client(sets.lab)
    sets.held = sets.addresses()
    disowned(sets.client, "train-02")
    return sets


def test_vms_of_others_become_vms_of_the_set(strangers, cli):
    playbook = cli.file(TWO)
    assert strangers.refused(TWO) == {"vm_set.name-taken", "addresses.conflict"}
    strangers("plan", playbook)
    assert "vsphere-ai adopt PLAYBOOK train-01" in " ".join(cli.out.split())
    before = {name: seen(strangers.client, name) for name in ("train-01", "train-02")}
    calls = len(strangers.ledger())
    assert strangers("adopt", playbook, "train-02", "train-01", "--dry-run") == 0
    assert len(strangers.ledger()) == calls
    assert strangers("adopt", playbook, "train-02", "train-01", "--yes") == 0, cli.out + cli.err
    made = [(e["call"], e["object"]) for e in strangers.ledger()[calls:]]
    assert sorted(made[-2:]) == [("ReconfigVM_Task", "train-01"), ("ReconfigVM_Task", "train-02")]
    assert all(call in ("AddCustomFieldDef", "SetField") for call, _ in made[:-2]), "the leases"
    assert {name: seen(strangers.client, name) for name in before} == before
    assert strangers.addresses() == {
        ("train", 1, "mgmt"): "10.20.0.11", ("train", 1, "storage"): "10.30.0.11",
        ("train", 2, "mgmt"): "10.20.0.12", ("train", 2, "storage"): "10.30.0.12",
    }  # fmt: skip
    assert strangers("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert strangers("adopt", playbook, "train-02", "--yes") == 0, "which it is already"
    assert strangers("destroy", "train", "--yes", "--destroy", 2) == 0, cli.out
    assert strangers.addresses() == {}


def test_an_address_further_up_in_the_pool_is_taken_with_those_before_it(strangers, cli):
    """Numbers 1 and 2 are not there yet: their addresses are others than those of the adopted VM."""
    soap = strangers.client
    soap.wait(soap.vm("train-01").Rename_Task("train-03"))
    playbook = cli.file(play("train-[01:03]", nics=1))
    assert strangers("adopt", playbook, "train-03", "--yes") == 0, cli.out + cli.err
    held = strangers.addresses()
    assert held["train", 3, "mgmt"] == "10.20.0.11"
    assert len(set(held.values())) == 3
    soap.wait(soap.vm("train-02").Rename_Task("a-stranger"))
    assert strangers.refused(play("train-[01:03]", nics=1)) == {"addresses.conflict"}, "which has the next address"


def test_what_differs_is_shown_by_the_next_plan(one, cli):
    text = play("train-[01:02]", nics=2, cpus=12)
    before = seen(one.client, "train-02")
    assert one("adopt", cli.file(text), "train-02", "--yes") == 0, cli.out + cli.err
    assert seen(one.client, "train-02") == before
    assert one.addresses() == one.held
    assert one("plan", cli.file(text), "--limit", "train-02", "--detailed-exitcode") == 2
    assert "cpus" in cli.out
    assert one("apply", cli.file(text), "--yes") == 0, cli.out + cli.err
    assert one.client.vm("train-02").config.hardware.numCPU == 12
    one.client.wait(one.client.vm("train-02").PowerOffVM_Task())
    assert one("apply", cli.file(text), "--yes") == 0, cli.out + cli.err
    assert one.vms()["train-02"]["power"] == "poweredOn"


def off_its_host(soap, name):
    """Make a mandatory rule that keeps a VM off the host on which it runs; the running VM stays there."""
    vm, change = soap.vm(name), vim.cluster.ConfigSpecEx()
    vms, hosts = vim.cluster.VmGroup(name="v", vm=[vm]), vim.cluster.HostGroup(name="h", host=[vm.runtime.host])
    change.groupSpec = [vim.cluster.GroupSpec(operation="add", info=group) for group in (vms, hosts)]
    off = vim.cluster.VmHostRuleInfo(name="off", enabled=True, mandatory=True)
    off.vmGroupName, off.antiAffineHostGroupName = "v", "h"
    change.rulesSpec = [vim.cluster.RuleSpec(operation="add", info=off)]
    soap.wait(vm.runtime.host.parent.ReconfigureComputeResource_Task(change, modify=True))


@pytest.mark.parametrize("ruled", [False, True])
def test_a_vm_that_its_host_would_not_power_on_is_adopted_with_a_remark(one, cli, ruled):
    if ruled:
        off_its_host(one.client, "train-02")
    before = seen(one.client, "train-02")
    assert one("adopt", cli.file(TWO), "train-02", "--yes") == 0, cli.out + cli.err
    assert ("admission.host-rule" in cli.out) is ruled, cli.out
    assert ("it could not power on again on esx0" in cli.out) is ruled
    assert seen(one.client, "train-02") == before


def test_a_vm_that_lost_its_mark_gets_it_again(sets, cli, new_client):
    """Its instance UUID is still that of its number, which no other VM can have."""
    sets.applied(TWO)
    soap, held = new_client(sets.lab), sets.addresses()
    set_options(soap, "train-02", options={k: "" for k in options(soap, "train-02") if k.startswith("vsphere-ai.")})
    before = seen(soap, "train-02")
    assert "vm_set.mark-lost" in sets.refused(TWO)
    assert sets("adopt", cli.file(TWO), "train-02", "--yes") == 0, cli.out + cli.err
    assert seen(soap, "train-02") == before
    assert sets.addresses() == held
    assert sets("plan", cli.file(TWO), "--detailed-exitcode") == 0, cli.out
    assert sets("destroy", "train", "--yes", "--destroy", 2) == 0


def refused(sets, cli, *names, text=TWO):
    """The rules for which an adoption is refused; nothing was changed."""
    before = len(sets.ledger())
    assert sets("adopt", cli.file(text), *names, "--yes", "-o", "json") == 1, cli.out + cli.err
    assert len(sets.ledger()) == before
    assert sets("adopt", cli.file(text), *names, "--dry-run") == 1
    return {word.strip("[]") for word in cli.out.split() if word.startswith("[vm_set.")}


def test_a_clone_with_a_copied_mark_is_refused_until_it_is_removed(one, cli):
    soap = one.client
    soap.wait(soap.vm("train-02").Destroy_Task() if soap.vm("train-02").runtime.powerState == "poweredOff" else
              soap.vm("train-02").PowerOffVM_Task())  # fmt: skip
    if "train-02" in one.names:
        soap.wait(soap.vm("train-02").Destroy_Task())
    source = soap.vm("train-01")
    place = soap.vim.vm.CloneSpec(location=soap.vim.vm.RelocateSpec(), powerOn=False, template=False)
    soap.wait(source.CloneVM_Task(source.parent, "train-02", place))
    assert "vm_set.adopt-copied" in refused(one, cli, "train-02")
    marks = {key: "" for key in options(soap, "train-02") if key.startswith("vsphere-ai.")}
    set_options(soap, "train-02", options=marks)
    assert refused(one, cli, "train-02") == {"vm_set.adopt-no-address"}, "it is off"


def test_what_cannot_be_adopted(one, cli):
    soap = one.client
    assert one("adopt", cli.file(TWO), "train-07", "--yes") == 64
    assert cli.error == "usage.no-member"
    assert refused(one, cli, "train-03", text=play("train-[01:03]", nics=1)) == {"vm_set.not-found"}
    assert refused(one, cli, "other-01", text=play("other-01", name="mine", nics=1)) == {"vm_set.adopt-no-address"}
    assert refused(one, cli, "train-01", text=play("train-01", name="mine", nics=1)) == {"vm_set.adopt-marked"}
    assert refused(one, cli, "other-01", text=play("other-01", name="mine", nics=2)) >= {"vm_set.adopt-nic"}
    assert one("adopt", cli.file(play("ubuntu-22.04", name="mine", nics=1)), "ubuntu-22.04", "--yes") == 65, (
        "a template"
    )
    soap.wait(soap.vm("train-01").Rename_Task("renamed"))
    soap.wait(soap.vm("train-02").Rename_Task("train-01"))
    assert refused(one, cli, "train-01") == {"vm_set.adopt-taken"}


def test_an_address_that_is_not_that_of_its_number_is_refused(one, cli):
    soap = one.client
    soap.wait(soap.vm("train-02").Rename_Task("train-03"))
    three = play("train-[01:03]", nics=2)
    assert one("ipam", "reserve", "mgmt", "10.20.0.12") in (0, 64)
    assert refused(one, cli, "train-03", text=three) == {"vm_set.adopt-address"}


POINTS = [
    r"DC0 +\[\d+/\d+\] take the leases",
    r"DC0 +\[\d+/\d+\] take the leases.* done",
    r"train-02 +\[\d+/\d+\] reconfigure",
    r"train-02 +\[\d+/\d+\] reconfigure.* done",
]


@pytest.mark.parametrize("point", few(POINTS, 3))
@pytest.mark.parametrize("how", ["resume", "again"])
def test_an_adoption_that_is_killed_is_brought_to_its_end(strangers, cli, monkeypatch, tmp_path, point, how):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    playbook, before = cli.file(TWO), seen(strangers.client, "train-02")
    calls = len(strangers.ledger("train-02", "ReconfigVM_Task"))
    killed_at(strangers.lab, point, playbook, "train-01", "train-02", inventory=strangers.inventory, command="adopt")
    if how == "resume":
        assert cli("resume") == 0, cli.out + cli.err
    else:
        assert strangers("adopt", playbook, "train-01", "train-02", "--yes") in (0, 1), cli.out + cli.err
    assert seen(strangers.client, "train-02") == before
    assert len(strangers.ledger("train-02", "ReconfigVM_Task")) == calls + 1
    assert len(strangers.addresses()) == 4
    assert strangers("plan", playbook, "--detailed-exitcode") == 0, cli.out


def test_a_rollback_names_the_vms_that_stay_adopted(one, cli):
    assert one("adopt", cli.file(TWO), "train-02", "--yes") == 0
    cli("run", "list")
    run = next(line.split()[0] for line in cli.out.splitlines() if "adopt" in line)
    assert one("rollback", run, "--yes") == 0, cli.out + cli.err
    assert "vsphere-ai." in cli.text("rollback.stays")
    assert "destroy" not in cli.text("rollback.stays")
    assert one("plan", cli.file(TWO), "--detailed-exitcode") == 0


def test_an_adopted_vm_is_replaced_by_one_that_was_made_for_the_set(one, cli):
    assert one("adopt", cli.file(TWO), "train-02", "--yes") == 0
    assert one("replace", cli.file(TWO), "train-02", "--yes", "--destroy", 1) == 0, cli.out + cli.err
    assert one.addresses() == one.held
    assert "vsphere-ai.adopted" not in options(one.client, "train-02")
    assert one("plan", cli.file(TWO), "--detailed-exitcode") == 0
