"""Addresses of sets on the lab: leased, checked, reclaimed, by host, and from a program of the site's own IPAM."""

from __future__ import annotations

import json
import sys

import pytest
from pyVmomi import vim
from support.netbox import TOKEN, served
from support.places import ROOT
from support.vm_sets import FARM, INVENTORY, play

pytestmark = pytest.mark.lab
NETBOX = ROOT / "docs" / "examples" / "netbox_addresses.py"


class Farm:
    """A farm with a template; commands with its inventory."""

    def __init__(self, cli, lab, client):
        self.cli, self.lab, self.client = cli, lab, client
        self.inventory = cli.file(INVENTORY, "inventory.yml")

    def __call__(self, *words, code=0):
        found = self.cli(*words, "-i", self.inventory)
        assert found == code, self.cli.out + self.cli.err
        return self.cli.out

    def document(self, *words, code=0):
        return json.loads(self(*words, "-o", "json", code=code))

    def apply(self, text):
        playbook = self.cli.file(text)
        self("apply", playbook, "--yes")
        self("plan", playbook, "--detailed-exitcode")

    def destroy_behind_its_back(self, name):
        vm = self.client.vm(name)
        if vm.runtime.powerState == "poweredOn":
            self.client.wait(vm.PowerOff())
        self.client.wait(vm.Destroy_Task())


@pytest.fixture
def farm(cli, make_lab, new_client, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    return Farm(cli, lab, new_client(lab))


def held(farm):
    return {e["index"]: e["address"] for e in farm.document("ipam", "show")["leases"]}


def test_what_was_leased_is_in_use_and_a_vm_that_someone_deleted_is_reclaimed(farm):
    farm.apply(play("train-[01:03]", nics=1))
    found = farm.document("ipam", "verify")
    assert [e["state"] for e in found["leases"]] == ["in use"] * 3
    assert held(farm) == {1: "10.20.0.11", 2: "10.20.0.12", 3: "10.20.0.13"}
    assert farm.document("ipam", "reclaim", "--yes")["reclaimed"] == []

    farm.destroy_behind_its_back("train-03")
    leaked = [e["index"] for e in farm.document("ipam", "verify", code=2)["leases"] if e["state"] == "leaked"]
    assert leaked == [3]
    assert farm.document("ipam", "reclaim", "--grace", "0", "--yes")["changed"]
    assert held(farm) == {1: "10.20.0.11", 2: "10.20.0.12"}
    farm.apply(play("train-[01:03]", nics=1))
    assert held(farm)[3] == "10.20.0.13"


def test_leases_that_were_lost_are_noticed_and_not_given_again(farm):
    farm.apply(play("train-[01:02]", nics=1))
    soap = farm.client
    head = next(f for f in soap.content.customFieldsManager.field if f.name == "vsphere-ai addresses")
    soap.content.customFieldsManager.SetField(entity=soap.content.rootFolder, key=head.key, value="")
    vm = soap.vm("train-02")
    soap.wait(vm.PowerOff())
    lost = [f["target"] for f in farm.document("ipam", "verify", code=2)["findings"] if f["verdict"] == "fail"]
    assert [(e["name"], e["part"]) for e in lost] == [("train/1", "10.20.0.11"), ("train/2", "10.20.0.12")]
    problems = farm.document("plan", farm.cli.file(play("new-[01:02]", name="new", nics=1)), code=1)["problems"]
    assert {problem["rule"] for problem in problems} == {"addresses.conflict"}


def test_an_account_that_sees_fewer_vms_than_before_reclaims_nothing(farm):
    farm.apply(play("train-[01:02]", nics=1))
    for name in ("train-02", "train-01", "other-01"):
        farm.destroy_behind_its_back(name)  # one more than the set has: as if some were out of sight
    farm("ipam", "reclaim", "--grace", "0", "--yes", code=1)
    assert len(held(farm)) == 2
    summary = farm.document("ipam", "release", "--set", "train", "--keep", "1", "--yes")["summary"]
    assert "1 lease of the set train" in summary
    assert "this account sees 1 VMs" in summary  # it stands in the question
    assert list(held(farm)) == [1]
    assert farm.document("ipam", "reclaim", "--grace", "0", "--vms", "1", "--yes")["changed"]


def test_a_vm_that_reports_an_address_refuses_the_plan_that_would_give_it(farm):
    farm.apply(play("first-[01:02]", name="first", nics=1))
    pools = INVENTORY.replace("[10.20.0.11-10.20.0.20]", "[10.20.0.12-10.20.0.20]").replace("mgmt:", "other:")
    farm.inventory = farm.cli.file(pools, "edited.yml")
    text = play("train-[01:02]", nics=1).replace("addresses: mgmt", "addresses: other")
    problems = farm.document("plan", farm.cli.file(text), code=1)["problems"]
    assert {problem["rule"] for problem in problems} == {"addresses.conflict"}
    assert "first-02" in problems[0]["message"]


def test_an_ip_pool_of_vcenter_refuses_the_plan_that_would_give_its_addresses(farm):
    soap = farm.client
    config = vim.vApp.IpPool.IpPoolConfigInfo(subnetAddress="10.20.0.0", ipPoolEnabled=True, range="10.20.0.12#4")
    center = soap.content.rootFolder.childEntity[0]
    soap.content.ipPoolManager.CreateIpPool(dc=center, pool=vim.vApp.IpPool(name="vapps", ipv4Config=config))
    problems = farm.document("plan", farm.cli.file(play("train-[01:02]", nics=1)), code=1)["problems"]
    assert [(p["rule"], "vapps" in p["message"]) for p in problems] == [("addresses.conflict", True)]


def test_each_vm_has_an_address_of_the_pool_of_its_host(farm):
    rack = "  rack{0}: {{subnet: 10.5{0}.0.0/24, affinity: {{hosts: [esx0{0}.lab.local]}}, quarantine: 0}}\n"
    farm.inventory = farm.cli.file(f"lab: true\npools:\n{rack.format(1)}{rack.format(2)}", "racks.yml")
    farm.apply(play("train-[01:04]", nics=1).replace("addresses: mgmt", "addresses: [rack1, rack2]"))
    for index, address in held(farm).items():
        host = farm.client.vm(f"train-{index:02d}").runtime.host.name
        assert address.startswith({"esx01.lab.local": "10.51.", "esx02.lab.local": "10.52."}[host])
    assert {address[:6] for address in held(farm).values()} == {"10.51.", "10.52."}


def test_auto_takes_the_pools_that_fit_in_both_families(farm):
    pools = """lab: true
pools:
  four: {subnet: 10.60.0.0/24, default: true}
  six: {subnet: "fd60::/120", ranges: ["fd60::10-fd60::1f"], affinity: {portgroups: [dvpg-lan]}}
  lan: {subnet: 10.61.0.0/24, affinity: {vms: [train], portgroups: [dvpg-lan]}}
"""
    farm.inventory = farm.cli.file(pools, "auto.yml")
    farm.apply(play("train-[01:02]", nics=1).replace("addresses: mgmt", "addresses: auto"))
    found = [(e["index"], e["pool"], e["address"]) for e in farm.document("ipam", "show")["leases"]]
    assert found == [(1, "lan", "10.61.0.1"), (2, "lan", "10.61.0.2"), (1, "six", "fd60::10"), (2, "six", "fd60::11")]


def test_a_program_gives_addresses_and_gets_them_back(farm, monkeypatch):
    with served("10.60.0.0/24") as netbox:
        monkeypatch.setenv("NETBOX_URL", netbox.url)
        monkeypatch.setenv("NETBOX_TOKEN", TOKEN)
        env = '{NETBOX_URL: "env:NETBOX_URL", NETBOX_TOKEN: "env:NETBOX_TOKEN"}'
        backend = f"{{exec: ['{sys.executable}', '{NETBOX}'], env: {env}}}"
        pool = f"{{subnet: 10.60.0.0/24, gateway: 10.60.0.254, quarantine: 0, backend: {backend}}}"
        farm.inventory = farm.cli.file(f"lab: true\npools:\n  mgmt: {pool}\n", "netbox.yml")
        playbook = farm.cli.file(play("train-[01:03]", nics=1))

        problems = farm.document("plan", playbook, code=1)["problems"]
        assert {problem["rule"] for problem in problems} == {"addresses.backend-pending"}
        assert netbox.addresses == {}

        leased = farm.document("ipam", "lease", playbook, "--yes")
        assert [e["address"] for e in leased["leases"]] == ["10.60.0.1", "10.60.0.2", "10.60.0.3"]
        assert not farm.document("ipam", "lease", playbook, "--yes")["changed"]
        farm("apply", playbook, "--yes")
        farm("plan", playbook, "--detailed-exitcode")
        assert len(netbox.keys()) == 3

        farm("apply", farm.cli.file(play("train-[01:02]", nics=1)), "--yes", "--destroy", "1")
        assert sorted(netbox.keys().values()) == ["10.60.0.1/24", "10.60.0.2/24"]
        assert list(netbox.keys("deprecated").values()) == ["10.60.0.3/24"]
        farm("ipam", "lease", farm.cli.file(play("train-[01:03]", nics=1)), "--yes")
        assert held(farm) == {1: "10.60.0.1", 2: "10.60.0.2", 3: "10.60.0.3"}
        assert "secret" not in farm.cli.out
        assert TOKEN not in farm.cli.out + farm.cli.err


def test_a_program_that_fails_leaves_no_lease(farm):
    backend = f"{{exec: ['{sys.executable}', '-c', 'raise SystemExit(3)']}}"
    farm.inventory = farm.cli.file(
        f"lab: true\npools:\n  mgmt: {{subnet: 10.20.0.0/24, backend: {backend}}}\n", "failing.yml"
    )
    farm("ipam", "lease", farm.cli.file(play("train-[01:03]", nics=1)), "--yes", code=1)
    assert held(farm) == {}


def test_an_address_of_a_program_that_is_in_use_is_not_leased(farm):
    taken = farm.client.host("esx01").config.network.vnic[0].spec.ip.ipAddress
    answer = "import json, sys; r = json.load(sys.stdin)"
    answer += f"; json.dump(dict(version=1, addresses=dict.fromkeys(r['keys'], '{taken}')), sys.stdout)"
    backend = f'{{exec: ["{sys.executable}", "-c", "{answer}"]}}'
    subnet = taken.rpartition(".")[0] + ".0/24"
    farm.inventory = farm.cli.file(f"lab: true\npools:\n  mgmt: {{subnet: {subnet}, backend: {backend}}}\n", "used.yml")
    farm("ipam", "lease", farm.cli.file(play("train-01", nics=1)), "--yes", code=1)
    assert "esx01" in farm.cli.err
    assert held(farm) == {}


def test_spare_addresses_are_held_for_growth_and_kept_when_the_set_shrinks(farm):
    card = "{name: mgmt, port_group: dvpg-lan, addresses: mgmt, spare: 2}"
    farm.apply(play("train-[01:02]", cards=(card,)))
    farm.apply(play("other-a", name="others", nics=1))
    assert [e["address"] for e in farm.document("ipam", "show")["leases"] if e["set"] == "others"] == ["10.20.0.15"]
    farm.apply(play("train-[01:03]", cards=(card,)))
    states = [e["state"] for e in farm.document("ipam", "verify")["leases"] if e["set"] == "train"]
    assert states == ["in use"] * 3 + ["spare"] * 2
    found = {e["index"]: e["address"] for e in farm.document("ipam", "show")["leases"] if e["set"] == "train"}
    assert [found[n] for n in (1, 2, 3, 4)] == ["10.20.0.11", "10.20.0.12", "10.20.0.13", "10.20.0.14"]
    playbook = farm.cli.file(play("train-[01:01]", cards=(card,)))
    farm("apply", playbook, "--yes", "--destroy", "2")
    states = [e["state"] for e in farm.document("ipam", "verify")["leases"] if e["set"] == "train"]
    assert states == ["in use", "spare", "spare"]


GROUPS = """
vms:
  rank_zero: {folder: ai, names: ["train-01"]}
hosts:
  row_one: [esx02.lab.local]
"""


def test_pools_have_affinities_to_groups_of_vms_before_groups_of_hosts_before_folders(farm):
    more = """
  zero: {subnet: 10.71.0.0/24, affinity: {vms: [rank_zero]}, quarantine: 0}
  row: {subnet: 10.72.0.0/24, affinity: {hosts: [row_one]}, quarantine: 0}
  inside: {subnet: 10.73.0.0/24, affinity: {folders: [ai]}, quarantine: 0}
  net: {subnet: 10.74.0.0/24, affinity: {portgroups: [dvpg-lan]}, quarantine: 0}
"""
    farm.inventory = farm.cli.file(INVENTORY + more + GROUPS, "groups.yml")
    card = "{name: mgmt, port_group: dvpg-lan, addresses: auto}"
    farm.apply(play("train-[01:04]", cards=(card,), placement="{anti_affinity: should}"))
    hosts = {vm["name"]: vm["host"] for vm in farm.lab.get("/lab/farm")["vms"]}
    by_index = held(farm)
    assert by_index[1].startswith("10.71.")
    for index in (2, 3, 4):
        row = hosts[f"train-0{index}"] == "esx02.lab.local"
        assert by_index[index].startswith("10.72." if row else "10.73.")
    assert {a[:6] for a in by_index.values()} == {"10.71.", "10.72.", "10.73."}


def test_more_vms_than_blocks_of_rails_are_refused(farm):
    rail = "  rail9: {subnet: 172.16.9.0/25, per_node: 27, node_gateway: 1, routes: [{to: 172.16.0.0/16}]}\n"
    farm.inventory = farm.cli.file(INVENTORY + rail, "rails.yml")
    card = "{name: rdma1, port_group: dvpg-rdma, rail: 1, addresses: rail9}"
    found = farm.document("plan", farm.cli.file(play("train-[01:05]", cards=(card,))), code=1)
    assert {p["rule"] for p in found["problems"]} == {"addresses.no-room"}
    farm.apply(play("train-[01:04]", cards=(card,)))
    assert set(held(farm).values()) == {f"172.16.9.{n}" for n in (2, 34, 66, 98)}


def test_mac_addresses_begin_as_the_play_says_and_stay(farm):
    text = play("train-[01:02]", nics=2, mac_prefix='"00:50:56:1A"')
    planned = farm("plan", farm.cli.file(text))
    for own in ("00:50:56:1a:00:00", "00:50:56:1a:00:01", "00:50:56:1a:00:10"):
        assert own in planned
    farm.apply(text)
    vm = farm.client.vm("train-02")
    cards = {d.macAddress for d in vm.config.hardware.device if isinstance(d, vim.vm.device.VirtualEthernetCard)}
    assert {f"00:50:56:1a:00:1{n}" for n in range(len(cards))} == cards
    # those that are there keep theirs
    farm("plan", farm.cli.file(play("train-[01:02]", nics=2, mac_prefix='"00:50:56:2B"')), "--detailed-exitcode")
    farm.cli("plan", farm.cli.file(play("train-[01:02]", nics=2, mac_prefix='"00:50:56:40"')), "-i", farm.inventory)
    assert "mac_prefix" in farm.cli.err
