"""Sets whose guests vCenter customizes (LinuxPrep): one clone carries it, and what Tools report makes them ready."""

from __future__ import annotations

import pytest
from support.vm_sets import FARM, play

from vsphere_ai.execution.actions import vm_life

pytestmark = pytest.mark.lab
BARE = "extra_config: {vsphere-ai.image: cloud-init=none machine-id=clean}, image: {cloud_init: none"
CARDS = (
    "{name: mgmt, port_group: dvpg-lan, primary: true, addresses: mgmt, nameservers: 10.20.0.53, search: lab.example}",
    "{name: storage, port_group: dvpg-storage, addresses: storage}",
    "{name: dhcp, port_group: dvpg-dhcp}",
)


def farm(image="", farm=FARM):
    return farm.replace("template: true", f"template: true, {BARE}{image}}}")


def prepared(names="train-[01:03]", cards=CARDS, **more):
    """The play of a set without users, which LinuxPrep cannot give."""
    text = play(names, customize="linux_prep", cards=cards, **more)
    return "".join(line for line in text.splitlines(keepends=True) if "ssh_authorized_keys" not in line)


@pytest.mark.parametrize("version", ["7.0.3", "8.0.3"])
def test_vcenter_customizes_what_the_clone_brings(make_sets, new_client, version):
    sets = make_sets(farm().replace("timing:", f"vcenter: {{version: {version}}}\ntiming:", 1))
    text = prepared()
    sets.applied(text)
    calls = ("CloneVM_Task", "ReconfigVM_Task", "CustomizeVM_Task", "PowerOnVM_Task")
    assert [len(sets.ledger("train-01", call)) for call in calls] == [1, 0, 0, 1]
    client = new_client(sets.lab)
    for index in (1, 2, 3):
        vm = client.vm(f"train-{index:02d}")
        shown = {a for n in vm.guest.net for a in n.ipAddress if not a.startswith("10.40.0.")}
        assert shown == {f"10.20.0.{10 + index}", f"10.30.0.{10 + index}"}
        assert len(vm.guest.net) == 3
        assert vm.guest.hostName == f"train-{index:02d}"
        assert vm.guest.customizationInfo.customizationStatus == "TOOLSDEPLOYPKG_SUCCEEDED"
        assert not [o for o in vm.config.extraConfig if o.key.startswith("guestinfo.") and o.value]
    client.wait(client.vm("train-01").PowerOffVM_Task())
    client.wait(client.vm("train-01").PowerOnVM_Task())
    client.until(lambda: any("10.20.0.11" in n.ipAddress for n in client.vm("train-01").guest.net))
    assert sets("plan", sets.cli.file(text), "--detailed-exitcode") == 0, "a later boot is no first one"


@pytest.mark.parametrize(
    ("image", "fields", "rules"),
    [
        (
            "",
            {"cards": ("{name: a, port_group: dvpg-rdma, type: pvrdma, addresses: rail1}",)},
            {"customization.nics", "pvrdma.vmknic", "pvrdma.firewall"},
        ),
        ("", {"cards": ("{name: a, port_group: dvpg-rdma, mtu: 9000, addresses: rail1}",)}, {"customization.mtu"}),
        (
            "",
            {"cards": (*CARDS[:1], "{name: b, port_group: dvpg-rdma, addresses: rail1}")},
            {"customization.policy-routing"},
        ),
        (", customization: false", {}, {"vcenter.check"}),
        (", tools: 9.4.0", {}, {"vcenter.check"}),
    ],
    ids=["pvrdma", "mtu", "a second gateway", "not supported", "tools too old"],
)
def test_what_vcenter_cannot_customize_is_refused_before(make_sets, image, fields, rules):
    sets = make_sets(farm(image))
    found = sets.refused(prepared("train-01", **fields))
    assert found == rules


def test_users_are_refused_and_an_image_without_cloud_init_names_the_way(make_sets, cli):
    sets = make_sets(farm())
    assert sets.refused(play("train-01", nics=1, customize="linux_prep")) == {"customization.users"}
    assert sets.refused(play("train-01", nics=1)) == {"image.cloud-init"}
    assert "customize: linux_prep" in cli.out


def test_a_customization_that_fails_is_named_and_is_not_waited_out(make_sets, cli):
    sets = make_sets(farm())
    sets.lab.set_faults([{"on": "PowerOnVM_Task", "nth": 1, "do": "customization-fails"}])
    playbook = cli.file(prepared("train-01"))
    for _ in range(2):  # no later boot tries it again
        assert sets("apply", playbook, "--yes", "-o", "json") == 1
        assert cli.failed == {("train-01", "guest.customization-failed")}
    assert sets("replace", playbook, "train-01", "--yes", "--destroy", "1") == 0, cli.out + cli.err
    assert sets("plan", playbook, "--detailed-exitcode") == 0


def test_another_way_of_customization_needs_another_vm(make_sets):
    sets = make_sets(FARM)
    sets.applied(prepared("train-01"))
    cloud_init = prepared("train-01").replace("customize: linux_prep", "customize: cloud_init")
    assert sets.refused(cloud_init) == {"vm_set.rebuild"}


def test_tools_that_report_another_address_are_not_waited_for_to_the_end(make_sets, cli, monkeypatch):
    monkeypatch.setattr(vm_life, "REPORTED", 3.0)
    sets = make_sets(farm())
    sets.lab.set_faults([{"on": "PowerOnVM_Task", "nth": 1, "do": {"guest-address": "10.9.9.9"}}])
    playbook = cli.file(prepared("train-01"))
    assert sets("apply", playbook, "--yes", "-o", "json") == 1
    assert cli.failed == {("train-01", "guest.not-ready")}
    assert "does not report 10.20.0.11" in cli.out
    waits = [line for line in cli.out.splitlines() if "does not report" in line and " of " in line]
    assert waits
    assert all(" of 3 s" in line for line in waits), "each names the limit by which it ends"
