"""Two port groups of one name on the lab: what a name means on a host, and how an operator names the other one."""

from __future__ import annotations

import json

import pytest
from support.vm_sets import INVENTORY, KEY

pytestmark = pytest.mark.lab
TWINS = """
name: twins
timing: {boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.05, guest_seconds: 0.1}
clusters: [{name: gpu-a}, {name: gpu-b}]
switches:
  - {name: dvs-a, uplinks: 1, mtu: 9000, port_groups: [{name: vlan-20, vlan: 20}, {name: mgmt}]}
  - {name: dvs-b, uplinks: 1, port_groups: [{name: vlan-20, vlan: 99}]}
hosts:
  - name: esx01.lab.local
    cluster: gpu-a
    nics:
      - {name: vmnic0, pci: '0000:18:00.0', switch: dvs-a, model: ConnectX-6, rdma: vmrdma0}
      - {name: vmnic1, pci: '0000:18:00.1', switch: dvs-b}
    vmkernel: [{name: vmk2, port_group: dvs-a/vlan-20}]
    pvrdma_vmknic: vmk2
    pvrdma_firewall: true
  - name: esx02.lab.local
    cluster: gpu-b
    nics: [{name: vmnic0, pci: '0000:18:00.0', switch: dvs-b}]
vms:
  - name: tpl
    host: esx01.lab.local
    folder: ai
    network: mgmt
    template: true
    extra_config: {vsphere-ai.image: cloud-init=24.1.3 renderer=netplan machine-id=clean}
  - {name: old-01, host: esx01.lab.local, folder: ai, network: '', hardware: 19}
  - {name: far-01, host: esx02.lab.local, folder: ai, network: ''}
"""
ON_A, ON_B = "/DC0/network/dvs-a/vlan-20", "/DC0/network/dvs-b/vlan-20"
BOTH = {"dvs-a/vlan-20", "dvs-b/vlan-20"}


@pytest.fixture
def twins(cli, make_lab, monkeypatch):
    lab = make_lab(TWINS)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    cli.lab, cli.inventory = lab, cli.file(INVENTORY, "inventory.yml")
    return cli


def made(port_group, cluster="gpu-a"):
    return f"""
- vms: n-01
  vm_set:
    name: n
    source: tpl
    cluster: {cluster}
    folder: ai
    nics: [{{name: mgmt, port_group: {port_group}, primary: true, addresses: mgmt}}]
    users: [{{name: ops, ssh_authorized_keys: ['{KEY}']}}]
"""


def on_vm(kind, port_group, vm="old-01"):
    return f"- vms: {vm}\n  {kind}: [{{port_group: {port_group}}}]\n"


def on_host(port_group):
    return f"- hosts: esx01.lab.local\n  vmkernel: {{{port_group}: {{address: 10.99.0.1/24, mtu: 1500}}}}\n"


def in_datacenter(port_group):
    return f"- datacenters: DC0\n  port_groups: {{{port_group}: {{vlan: 77}}}}\n"


KINDS = {
    "vm_set": (made, "vm_set.ambiguous"),
    "adapters": (lambda name: on_vm("adapters", name), "adapters.port-group"),
    "pvrdma": (lambda name: on_vm("pvrdma", name), "pvrdma.port-group"),
    "vmkernel": (on_host, "vmkernel.port-group"),
    "port_groups": (in_datacenter, "port_groups.name"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_of_two_is_refused_with_both_switches(twins, kind):
    play, rule = KINDS[kind]
    plan = twins.plan(twins.file(play("vlan-20")), "-i", twins.inventory)
    (problem,) = [p for p in plan["problems"] if p["rule"] == rule]
    assert all(name in problem["message"] for name in BOTH), problem
    assert "SWITCH/PORT GROUP" in problem["remedy"]


def switches_of(new_client, lab, name):
    client = new_client(lab)
    return [n.config.distributedVirtualSwitch.name for n in client.vm(name).network]


def applied(twins, text):
    """Apply a playbook; the plan after it is empty."""
    playbook = twins.file(text)
    assert twins("apply", playbook, "-i", twins.inventory, "--yes") == 0, twins.out + twins.err
    assert twins("plan", playbook, "-i", twins.inventory, "--detailed-exitcode") == 0, twins.out


@pytest.mark.parametrize("name", ["dvs-a/vlan-20", ON_A, "dvs-b/vlan-20", ON_B])
@pytest.mark.parametrize("kind", ["vm_set", "adapters"])
def test_a_vm_is_connected_to_the_one_that_is_named(twins, new_client, kind, name):
    applied(twins, KINDS[kind][0](name))
    vm = {"vm_set": "n-01", "adapters": "old-01"}[kind]
    assert switches_of(new_client, twins.lab, vm) == ["dvs-a" if "dvs-a" in name else "dvs-b"]


@pytest.mark.parametrize("name", ["dvs-a/vlan-20", ON_A])
def test_an_rdma_adapter_is_connected_to_the_one_that_is_named(twins, new_client, name):
    applied(twins, on_vm("pvrdma", name))
    assert switches_of(new_client, twins.lab, "old-01") == ["dvs-a"]
    assert twins("rdma", "trace", "old-01", "-i", twins.inventory, "-o", "json") in (0, 2)
    assert {t["port_group"] for t in json.loads(twins.out)["traces"]} == {"dvs-a/vlan-20"}


@pytest.mark.parametrize("name", ["dvs-b/vlan-20", ON_B])
def test_a_host_gets_an_adapter_on_the_one_that_is_named(twins, new_client, name):
    applied(twins, on_host(name))
    host = new_client(twins.lab).host("esx01")
    uuids = {s.dvsUuid: s.dvsName for s in host.config.network.proxySwitch}
    on = [uuids[v.spec.distributedVirtualPort.switchUuid] for v in host.config.network.vnic]
    assert on == ["dvs-a", "dvs-b"], "the adapter on the other one was left alone"


@pytest.mark.parametrize("name", ["dvs-b/vlan-20", ON_B])
def test_the_port_group_that_is_named_is_changed(twins, name):
    applied(twins, in_datacenter(name))
    changed = [e for e in twins.lab.get("/lab/ledger")["entries"] if e["call"] == "ReconfigureDVPortgroup_Task"]
    assert [e["detail"]["switch"] for e in changed] == ["dvs-b"]


def test_beside_the_switch_a_port_group_is_named_by_its_name(twins):
    applied(twins, "- datacenters: DC0\n  port_groups: {vlan-20: {switch: dvs-b, vlan: 77}}\n")
    (changed,) = [e for e in twins.lab.get("/lab/ledger")["entries"] if e["call"] == "ReconfigureDVPortgroup_Task"]
    assert changed["detail"]["switch"] == "dvs-b"


def test_a_new_port_group_is_made_on_the_switch_before_its_name(twins):
    applied(twins, "- datacenters: DC0\n  port_groups: {dvs-b/vlan-30: {vlan: 30}}\n")
    (new,) = [e for e in twins.lab.get("/lab/ledger")["entries"] if e["call"] == "AddDVPortgroup_Task"]
    assert (new["object"], new["detail"]["switch"]) == ("vlan-30", "dvs-b")


def test_one_port_group_under_two_names_is_refused(twins):
    two = "- datacenters: DC0\n  port_groups: {dvs-b/vlan-20: {vlan: 77}, vlan-20: {switch: dvs-b, vlan: 78}}\n"
    assert twins.problems(twins.file(two), "-i", twins.inventory) == {("DC0", "port_groups.name")}
    two = on_host("dvs-b/vlan-20").replace("}}", f"}}, {ON_B}: {{mtu: 1500}}}}")
    assert ("esx01.lab.local", "vmkernel.several") in twins.problems(twins.file(two), "-i", twins.inventory)


@pytest.mark.parametrize(
    ("text", "vm"), [(made("vlan-20", "gpu-b"), "n-01"), (on_vm("adapters", "vlan-20", "far-01"), "far-01")]
)
def test_where_a_host_reaches_one_of_them_it_is_meant(twins, new_client, text, vm):
    applied(twins, text)
    assert switches_of(new_client, twins.lab, vm) == ["dvs-b"]


def test_what_is_shown_is_a_playbook_again(twins):
    applied(twins, on_vm("adapters", "dvs-b/vlan-20"))
    assert twins("show", "old-01", "-i", twins.inventory) == 0, twins.err
    assert 'port_group: "dvs-b/vlan-20"' in twins.out
    assert twins("show", "esx01.lab.local", "-i", twins.inventory) == 0, twins.err
    assert '"dvs-a/vlan-20":' in twins.out


@pytest.mark.parametrize(
    ("affinity", "address"), [("dvs-b/vlan-20", "10.50."), (ON_B, "10.50."), ("dvs-a/vlan-20", "10.40.")]
)
def test_a_pool_is_for_the_port_group_that_it_names(twins, affinity, address):
    own = "  own: {subnet: 10.50.0.0/24, affinity: {portgroups: ['NAME']}}\n".replace("NAME", affinity)
    rest = "  rest: {subnet: 10.40.0.0/24, default: true}\n"
    twins.inventory = twins.file(INVENTORY + own + rest, "inventory.yml")
    applied(twins, made("vlan-20", "gpu-b").replace("addresses: mgmt", "addresses: auto"))
    assert twins("ipam", "show", "-i", twins.inventory, "-o", "json") == 0
    assert [lease["address"].startswith(address) for lease in json.loads(twins.out)["leases"]] == [True]
