"""VMware's Go library before the lab: what its finder, collector, views and objects make of the answers."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from support.gates import LONG

CENTER = "/DC0"
HOSTS = ["esx-odd.lab.local/esx-odd.lab.local", *(f"gpu-a/esx0{n}.lab.local" for n in (1, 2, 3))]
VMS = [*(f"ai/training/train-0{n}" for n in (1, 2, 3, 4)), "infra-01", "odd-01"]
NETWORKS = ["VM Network", "dvpg-lan", "dvpg-rdma", "dvs-lan", "dvs-lan-DVUplinks", "dvs-rdma", "dvs-rdma-DVUplinks"]
COUNTS = {
    "ClusterComputeResource": 1,
    "ComputeResource": 1,
    "Datacenter": 1,
    "Datastore": 1,
    "DistributedVirtualPortgroup": 4,
    "Folder": 7,
    "HostSystem": 4,
    "Network": 1,
    "ResourcePool": 2,
    "VirtualMachine": 6,
    "VmwareDistributedVirtualSwitch": 2,
}


@pytest.fixture(scope="module")
def said(go_client, session_lab):
    """Run the client once on a fresh farm; return its findings by name and the ledger after it."""
    session_lab.post("/lab/reset")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "LAB_ADDRESS": f"127.0.0.1:{session_lab.port}",
        "LAB_CA": str(session_lab.directory / "ca.pem"),
        "LAB_PASSWORD": (session_lab.directory / "password").read_text(encoding="utf-8").strip(),
        "LAB_TOKEN": session_lab.token,
    }
    done = subprocess.run([str(go_client)], env=environment, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found: dict = {"ledger": session_lab.get("/lab/ledger")["entries"]}
    for line in done.stdout.splitlines():
        finding = json.loads(line)
        found.setdefault(finding.pop("check"), []).append(finding)
    return found


def only(said, check):
    (finding,) = said[check]
    return finding


def test_the_client_came_to_its_end(said):
    assert said["done"] == [{}]


def test_tls_and_login_are_what_lets_one_in(said):
    assert only(said, "untrusted") == {"refused": True}
    assert only(said, "wrong_login") == {"fault": "InvalidLogin"}
    assert only(said, "session") == {
        "api": "7.0.2.0",
        "type": "VirtualCenter",
        "vc": True,
        "active": True,
        "user": "administrator@vsphere.local",
    }


def test_the_finder_walks_the_inventory_by_path(said):
    def below(part, names):
        return sorted(f"{CENTER}/{part}/{name}" for name in names)

    assert only(said, "inventory") == {
        "datacenters": [CENTER],
        "clusters": below("host", ["gpu-a"]),
        "computes": below("host", ["esx-odd.lab.local", "gpu-a"]),
        "hosts": below("host", HOSTS),
        "vms": below("vm", VMS),
        "networks": below("network", NETWORKS),
        "datastores": below("datastore", ["vsan-gpu"]),
        "pools": below("host", ["esx-odd.lab.local/Resources", "gpu-a/Resources"]),
        "folder": below("vm", ["ai/training"]),
        "missing": "*find.NotFoundError",
    }


def test_every_property_of_every_object_decodes_and_no_required_one_is_missing(said):
    assert {p["kind"]: p["objects"] for p in said["properties"]} == COUNTS
    for kind in said["properties"]:
        assert kind == {**kind, "fault": "", "decoded": kind["objects"], "unset": []}


def test_whole_properties_have_a_value_for_every_object(said):
    assert len(said["whole"]) > 25
    assert [w for w in said["whole"] if w["values"] != w["objects"]] == []


def test_views_filter_and_end(said):
    assert only(said, "views") == {
        "on": ["infra-01", "train-01", "train-02", "train-03"],
        "trains": 4,
        "read": 6,
        "devices": 9,
        "listed": 3,
        "destroyed": "ManagedObjectNotFound",
    }


def test_every_finder_of_the_search_index_finds_the_same_vm(said):
    found = only(said, "search")
    assert len(found) == 13
    assert [name for name, right in found.items() if right is not True] == []


def test_a_waiting_collector_sees_the_vm_go_on_and_off(said):
    power = only(said, "power")
    assert power["seen"] == ["poweredOff", "poweredOn", "poweredOff"]
    assert power["twice"] == "InvalidPowerState"
    assert power["state"] == "success"
    assert power["ip"].startswith("10.20.")
    calls = [e["call"] for e in said["ledger"] if e["object"] == "train-04"]
    assert calls[:2] == ["PowerOnVM_Task", "PowerOffVM_Task"]


def test_devices_come_and_go(said):
    devices = only(said, "devices")
    assert devices == {
        "before": 9,
        "after": 11,
        "left": 9,
        "cards": 2,
        "gpus": 1,
        "on_group": 1,
        "name": "ethernet-1",
        "mac": devices["mac"],
        "primary": devices["primary"],
        "profile": "grid_a100-20c",
        "found": True,
    }
    assert devices["mac"] != devices["primary"]
    assert devices["mac"].startswith("00:50:56:")
    done = [e["detail"]["devices"] for e in said["ledger"] if e["call"] == "ReconfigVM_Task"]
    assert [[(d["operation"], d["type"]) for d in change] for change in done] == [
        [("add", "VirtualPCIPassthrough"), ("add", "VirtualVmxnet3")],
        [("edit", "VirtualVmxnet3")],
        [("remove", "VirtualPCIPassthrough"), ("remove", "VirtualVmxnet3")],
    ]


def test_what_cannot_be_is_refused_with_the_fault_for_it(said):
    assert only(said, "refusals") == {
        "unknown_vgpu": "InvalidDeviceBacking",
        "stale": "ConcurrentAccess",
        "gone": "ManagedObjectNotFound",
        "standby": "MethodNotFound",
        "ticket": "MethodNotFound",
        "wrong_object": "MethodNotFound",
        "property": "InvalidProperty",
    }


def test_a_host_enters_and_leaves_maintenance_once(said):
    assert only(said, "maintenance") == {
        "early": "InvalidState",
        "inside": True,
        "outside": False,
        "pool": "ResourcePool",
        "ips": ["10.20.0.1"],
        "none": 0,
    }
    calls = [e["call"] for e in said["ledger"] if e["object"] == "esx-odd.lab.local"]
    assert calls == ["EnterMaintenanceMode_Task", "ExitMaintenanceMode_Task"]


def test_options_services_and_firewall(said):
    assert only(said, "options") == {
        "set": "",
        "value": "vmk2",
        "back": "",
        "wrong_type": "InvalidArgument",
        "unknown": "InvalidName",
        "storage": "",
        "vcenter": True,
        "services": True,
        "rulesets": True,
        "clock": True,
    }
    changes = [e["detail"] for e in said["ledger"] if e["call"] == "UpdateOptions"]
    assert [c["options"]["Net.PVRDMAVmknic"] for c in changes] == ["vmk2", ""]


def test_a_vm_is_made_cloned_moved_snapshotted_and_destroyed(said):
    assert only(said, "lifecycle") == {
        "disks": 1,
        "cards": 1,
        "running": "poweredOn",
        "moved": True,
        "reverted": "poweredOff",
        "left": "*find.NotFoundError",
    }
    calls = [(e["object"], e["call"]) for e in said["ledger"] if e["object"].startswith("go-")]
    assert calls == [
        ("go-made", "CreateVM_Task"),
        ("go-cloned", "CloneVM_Task"),
        ("go-cloned", "PowerOnVM_Task"),
        ("go-cloned", "CreateSnapshot_Task"),
        ("go-cloned", "MigrateVM_Task"),
        ("go-cloned", "RevertToSnapshot_Task"),
        ("go-cloned", "RevertToSnapshot_Task"),
        ("go-cloned", "RemoveSnapshot_Task"),
        ("go-cloned", "Destroy_Task"),
        ("go-made", "Destroy_Task"),
    ]


def test_managers_answer_through_govmomis_packages(said):
    assert only(said, "managers") == {
        "events": True,
        "value": "go",
        "licenses": 1,
        "assignments": True,
        "counter": True,
        "extension": True,
        "clock": True,
        "certificate": "good",
    }


def test_clusters_switches_and_the_datacenter_are_used_through_their_objects(said):
    assert only(said, "cluster") == {
        "drs": "fullyAutomated",
        "hosts": 3,
        "stores": 1,
        "pool": "ResourcePool",
        "mounted": 4,
    }
    assert only(said, "ports") == {"vms": 5, "one": 1, "uplink": "InvalidDeviceBacking", "plain": "VM Network"}
    assert only(said, "placed") == {"attempted": 1, "refused": 0, "host": "HostSystem", "tasks": True}
    calls = [e["call"] for e in said["ledger"] if e["object"] == "train-04"]
    assert calls[-2:] == ["PowerOnMultiVM_Task", "ShutdownGuest"]


def test_a_session_that_ended_says_so_and_a_new_login_heals_it(said):
    assert only(said, "expired") == {
        "fault": "NotAuthenticated",
        "active": "NotAuthenticated",
        "session": False,
        "lost": "",
    }
    assert only(said, "again") == {"vms": 6}
    assert only(said, "logged_out") == {"fault": "NotAuthenticated"}
