"""Scenario files: ranges, defaults, and every mistake named with its place."""

import pytest

from vsphere_ai.errors import InputError
from vsphere_ai.lab.scenario import expand
from vsphere_ai.lab.scenario_file import load, parse

SMALL = """\
name: small
hosts:
  - name: esx[1:2]
    cluster: c
    gpus: [{pci: 0000:3B:00.0, board: a100-40gb}]
    nics: [{name: vmnic0, pci: 0000:18:00.0, switch: vds}]
clusters: [{name: c, drs: off}]
switches: [{name: vds, port_groups: [{name: pg}]}]
vms: [{name: "vm-[01:03]", host: "esx[1:2]", network: pg, power: on}]
"""


def test_ranges():
    assert list(expand("a")) == ["a"]
    assert list(expand("a[08:10].x")) == ["a08.x", "a09.x", "a10.x"]
    assert list(expand("a[2:1]")) == []


def test_values_are_what_they_look_like():
    scenario = parse(SMALL, "s.yml")
    assert scenario.hosts[0].gpus[0].pci == "0000:3B:00.0"
    assert scenario.clusters[0].drs == "off"
    assert scenario.vms[0].power == "on"
    assert load().hosts[0].gpus[1].pci == "0000:86:00.0"  # not the number 316800.0


def test_vms_are_spread_over_hosts_in_turn():
    from vsphere_ai.lab.build import build

    farm = build(parse(SMALL, "s.yml"), "x")
    placed = {
        vm["name"]: farm.host_of(vm)["name"] for vm in farm.store.objects.values() if vm.type_name == "VirtualMachine"
    }
    farm.close()
    assert placed == {"vm-01": "esx1", "vm-02": "esx2", "vm-03": "esx1"}


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("cluster: c\n", "clustre: c\n", "s.yml:4:5", "unknown field 'clustre'"),
        ("board: a100-40gb", "board: a100", "s.yml:5:39", "board cannot be 'a100'"),
        ("drs: off", "drs: maybe", "s.yml:7:27", "drs cannot be 'maybe'"),
        ("name: small\n", "", "s.yml:1:1", "a Scenario needs name"),
        ("name: small", "name: small\nname: again", "s.yml:2:1", "'name' is given twice"),
        ("name: c,", 'name: "c\\x1b[31m",', "s.yml:7:19", "name holds a character that the vSphere API cannot carry"),
        ("name: small", "name: small\nvcenter: 7", "s.yml:2:10", "expected a mapping"),
        ("name: small", "name: small\ntiming: {boot_seconds: soon}", "s.yml:2:24", "must be a number"),
        ("cluster: c\n", "cluster: c\n    iommu: perhaps\n", "s.yml:5:12", "must be true or false"),
        ("cluster: c\n", "cluster: d\n", "s.yml", "cluster 'd', which is not described"),
        ("switch: vds", "switch: vss", "s.yml", "unknown switch 'vss'"),
        ("network: pg", "network: gp", "s.yml", "unknown port group 'gp'"),
        ('host: "esx[1:2]"', "host: esx3", "s.yml", "host 'esx3', which is not described"),
        ("name: esx[1:2]", "name: esx[1:2][3:4]", "s.yml:3:11", "more than one range"),
        ("hosts:", "hosts: [", "s.yml:", "did not find expected node content"),
        ("pci: 0000:3B:00.0", "pci: 3B:00", "s.yml:5:18", "pci must be a PCI address"),
        ("board: a100-40gb", "board: a100-40gb, device_id: zz", "s.yml:5:", "device_id must be four hexadecimal"),
        ("pci: 0000:18:00.0", "pci: 0000:3b:00.0", "s.yml", "0000:3b:00.0 of 'esx[1:2]' is described twice"),
        ("name: esx[1:2]", "name: a/b", "s.yml:3:11", "name must be a host name"),
        ("cluster: c\n", "version: new\n", "s.yml:4:14", "version must be a version"),
        ("cluster: c\n", "boot_seconds: nan\n", "s.yml:4:19", "boot_seconds must be -1 to 86400"),
        ("power: on", "power: on, cpus: 0", "s.yml:9:76", "cpus must be 1 to 768, not 0"),
        (SMALL, "", "s.yml", "empty"),
        (SMALL, "[1]", "s.yml:1:1", "expected a mapping"),
    ],
)
def test_mistakes_are_named_with_their_place(old, new, place, message):
    assert old in SMALL
    with pytest.raises(InputError) as caught:
        parse(SMALL.replace(old, new, 1), "s.yml")
    assert any(str(d.mark).startswith(place) and message in d.message for d in caught.value.diagnostics), caught.value


PLACES = """\
name: places
clusters:
  - name: c
    pools: [research/llm]
    rules: [{name: r, kind: host-affinity, vms: ["vm-[1:2]"], hosts: [esx1]}]
datastores: [{name: big, capacity_gb: 100, free_gb: 50, hosts: ["esx[1:2]"], cluster: pod}]
datastore_clusters: [{name: pod}]
hosts: [{name: "esx[1:2]", cluster: c}, {name: esx3}]
vms: [{name: "vm-[1:2]", host: esx1, datastore: big, pool: research/llm, network: "VM Network"}]
"""


def test_pools_rules_and_datastores_are_described():
    found = parse(PLACES, "s.yml")
    assert [each.name for each in found.all_datastores] == ["vsan-gpu", "big"]
    assert (
        parse(PLACES.replace("name: places", "name: places\ndatastore: big"), "s.yml").all_datastores[0].name == "big"
    )


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("free_gb: 50", "free_gb: 500", "s.yml:6", "more free space than capacity"),
        ('["esx[1:2]"], cluster', "[esx9], cluster", "s.yml:6", "on host 'esx9', which is not described"),
        ('["esx[1:2]"], cluster', "[esx2], cluster", "s.yml:9", "runs on 'esx1', which has not mounted its datastore"),
        ("cluster: pod", "cluster: pool", "s.yml:6", "'pool', which is not described"),
        ("datastore: big", "datastore: small", "s.yml:9", "datastore 'small', which is not described"),
        ("pool: research/llm", "pool: llm", "s.yml:9", "pool 'llm', which its cluster does not have"),
        ("[research/llm]", "[/]", "s.yml:4", "path must be a path of names"),
        ("kind: host-affinity", "kind: affinity", "s.yml:5", "of kind affinity has hosts"),
        (", hosts: [esx1]}", "}", "s.yml:5", "of kind host-affinity has no hosts"),
        ("hosts: [esx1]}", "hosts: [esx3]}", "s.yml:5", "names host 'esx3', which is not of the cluster"),
        ("vm-[1:2]", "vm-[1:3]", "s.yml:5", "names VM 'vm-3', which is not of the cluster"),
        ("name: big", "name: '[big]'", "s.yml:6", "a name without brackets"),
        ("network: ", "image: {cloud_init: new}, network: ", "s.yml:9", "cloud_init must be a version"),
    ],
)
def test_mistakes_in_places_are_named(old, new, place, message):
    assert old in PLACES
    with pytest.raises(InputError) as caught:
        parse(PLACES.replace(old, new, 1), "s.yml")
    assert any(str(d.mark).startswith(place) and message in d.message for d in caught.value.diagnostics), caught.value


def test_all_mistakes_come_at_once():
    text = (
        SMALL.replace("board: a100-40gb", "board: x")
        .replace("drs: off", "drs: y")
        .replace("pci: 0000:18", "pce: 0000:18")
    )
    with pytest.raises(InputError) as caught:
        parse(text, "s.yml")
    assert len(caught.value.diagnostics) >= 3


def test_a_missing_file_is_a_clear_error(tmp_path):
    with pytest.raises(InputError, match=r"no\.yml: the file cannot be read"):
        load(tmp_path / "no.yml")


def test_a_large_farm_is_one_line_and_is_read_in_pages(make_lab, new_client):
    from pyVmomi import vim

    text = SMALL.replace("vm-[01:03]", "vm-[0001:1000]").replace("power: on", "power: off")
    client = new_client(make_lab(text))
    view = client.content.viewManager.CreateContainerView(client.content.rootFolder, [vim.VirtualMachine], True)
    assert len(view.view) == 1000
