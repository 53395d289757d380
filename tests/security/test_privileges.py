"""Least privilege: computed from pyVmomi's metadata, asked of vCenter, and written into the documentation."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyVmomi import VmomiSupport, vim
from support.acting import lifecycle
from support.places import PLAYBOOKS

from tools.docgen import role
from vsphere_ai.connect.wire.plain import privilege_of
from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Invoke, Reconfigure, Shell
from vsphere_ai.planning import privileges
from vsphere_ai.planning.privileges import PrivilegeNeed, missing_privileges, of_spec, of_step
from vsphere_ai.resources import kinds
from vsphere_ai.resources.mixins import probes_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
VM, HOST = Target("vm", "train-01", "VirtualMachine:vm-1"), Target("host", "esx01", "HostSystem:host-1")
CONFIG = "VirtualMachine.Config."


@pytest.mark.parametrize(
    ("step", "privileges"),
    [
        (Invoke(target=HOST, summary="", method="UpdateGraphicsConfig"), {"Host.Config.Settings"}),
        (Invoke(target=HOST, summary="", method="UpdateOptions"), {"Host.Config.AdvancedConfig"}),
        (Invoke(target=VM, summary="", method="UpgradeVM_Task"), {CONFIG + "UpgradeVirtualHardware"}),
        (lifecycle("enter-maintenance", HOST), {"Host.Config.Maintenance"}),
        (lifecycle("reboot", HOST, via="api"), {"Host.Config.Maintenance"}),
        (lifecycle("reboot", HOST, via="ssh"), set()),
        (lifecycle("stop-ssh", HOST), {"Host.Config.NetService"}),
        (lifecycle("power-off", VM), {"VirtualMachine.Interact.PowerOff"}),
        (Shell(target=HOST, summary="", argv=("nvidia-smi",)), set()),
        (
            Reconfigure(
                target=VM,
                summary="",
                spec={"firmware": "efi", "memoryReservationLockedToMax": True},
                device_changes=({"operation": "add", "device": {}}, {"operation": "edit", "device": {}}),
                extra_config=(("a", "b"),),
            ),
            {CONFIG + f for f in ("Settings", "Resource", "AddRemoveDevice", "EditDevice", "AdvancedConfig")},
        ),
        (Reconfigure(target=VM, summary="", device_changes=({"operation": "remove", "device": {}},)),
         {CONFIG + "AddRemoveDevice"}),
    ],
)  # fmt: skip
def test_what_a_step_takes(step, privileges):
    assert set(of_step(step, privilege_of)) == privileges


def test_a_field_nobody_listed_is_a_setting():
    assert of_spec(["bootOptions"]) == (CONFIG + "Settings",)


def test_the_fields_are_those_of_a_config_spec():
    known = {p.name for p in vim.vm.ConfigSpec()._GetPropertyList()}
    assert set(privileges.FIELDS) <= known


def test_a_method_without_a_stated_privilege_is_not_taken_for_free():
    with pytest.raises(ValueError, match="ReconfigVM_Task"):
        privileges.of_methods(["ReconfigVM_Task"], privilege_of)


def test_equal_questions_are_asked_together():
    needs = [PrivilegeNeed(n, f"HostSystem:{n}", p, "") for n in ("a", "b") for p in ("X.Y", "Z")] + [
        PrivilegeNeed("v", "VM:v", "Q", "")
    ]
    asked = []

    def ask(refs, privileges):
        asked.append((refs, privileges))
        return {r: ("Z",) for r in refs if r.endswith(":b")}

    assert missing_privileges(needs, ask) == {PrivilegeNeed("b", "HostSystem:b", "Z", "")}
    assert asked == [(("HostSystem:a", "HostSystem:b"), ("X.Y", "Z")), (("VM:v",), ("Q",))]


# -- the role on the page


def sent_methods():
    """Every method of the API that is named in the code that changes or reads something, by its WSDL name."""
    found = {}
    for name in ("execution", "reading", "planning/scheduling", "resources", "connect"):
        path = ROOT / "vsphere_ai" / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and node.value.isalnum() | ("_Task" in node.value)
                ):
                    found.setdefault(node.value, file.name)
    methods = {}
    for word, where in found.items():
        try:
            info = VmomiSupport.GetWsdlMethod("urn:vim25", word).info
        except KeyError:
            continue
        methods[word] = (where, info.privId)
    return methods


def test_every_method_that_is_sent_is_in_the_role():
    methods = sent_methods()
    assert {"UpdateGraphicsConfig", "PowerOnVM_Task", "StartService", "UpgradeVM_Task"} <= set(methods)
    granted = {p for duty in privileges.ROLE for p in privileges.privileges(duty, privilege_of)}
    free = {"System.Anonymous", "System.View", "System.Read", None}
    missing = {m: p for m, (_, p) in methods.items() if p not in free and p not in granted}
    assert not missing
    unstated = {m for m, (_, p) in methods.items() if p is None}
    free |= {"CancelTask", "ModifyListView"}  # of one's own task, of a view of one's own session
    assert unstated <= {*privileges.UNSTATED, *free, "ReconfigVM_Task", "ReconfigureComputeResource_Task"}


def test_a_kind_adds_its_own_row_to_the_role():
    stated = [duty for cls in kinds().values() for duty in cls.traits.duties]
    assert stated
    assert set(stated) <= set(privileges.ROLE)
    duty = Duty("x", "hosts", ("Destroy_Task",), ("deviceGroups",), ("add",), also=("A.B",))
    found = privileges.privileges(duty, privilege_of)
    assert found == ("A.B", "Folder.Delete", CONFIG + "AddRemoveDevice", CONFIG + "Settings")


def test_the_page_has_the_role_as_it_is():
    written = PAGE.read_text("utf-8")
    assert written == role.with_role(written, privilege_of), "run: make docs"


def test_the_role_is_written_into_the_page(tmp_path):
    text = PAGE.read_text("utf-8")
    begin, end = text.index(role.BEGIN), text.index(role.END)
    page = tmp_path / "page.md"
    page.write_text(text[:begin] + role.BEGIN + "\nold\n" + text[end:], "utf-8")
    assert role.main([str(page)]) == 0
    assert page.read_text("utf-8") == text
    with pytest.raises(ValueError, match="0 blocks"):
        role.with_role("# a page", privilege_of)


# -- against the lab


@pytest.fixture
def scenario():
    from importlib import resources

    return resources.files("vsphere_ai.lab").joinpath("scenarios", "default.yml").read_text(encoding="utf-8")


@pytest.mark.lab
def test_an_account_with_everything_lacks_nothing(lab, tool, inventory_of):
    inventory = inventory_of(lab)
    assert tool("doctor", "--permissions", PLAYBOOKS / "ai-ready-cluster.yml", "-i", inventory) == 0
    assert "lacks" not in tool.out
    assert "  has    Host.Config.Settings  (set graphics" in tool.out
    assert lab.get("/lab/ledger")["entries"] == []


@pytest.mark.lab
def test_what_is_missing_is_named_per_object(make_lab, scenario, tool, inventory_of):
    lab = make_lab(scenario + "\nprivileges_denied: [Host.Config.Maintenance, Network.Assign]\n")
    inventory = inventory_of(lab)
    playbook = PLAYBOOKS / "ai-ready-cluster.yml"
    assert tool("doctor", "--permissions", playbook, "-i", inventory) == 4
    lines = tool.out.splitlines()
    assert [each.split()[1] for each in lines if each.startswith("  lacks")] == [
        "Network.Assign",
        "Host.Config.Maintenance",
        "Host.Config.Maintenance",
    ]
    assert lines[-1] == "administrator@vsphere.local lacks 3 privileges on 3 objects"

    assert tool("doctor", "--permissions", playbook, "-i", inventory, "-o", "json") == 4
    found = json.loads(tool.out)["privileges"]
    missing = {(p["name"], p["privilege"]) for p in found if not p["granted"]}
    assert missing == {
        ("dvpg-rdma", "Network.Assign"),
        ("esx01.lab.local", "Host.Config.Maintenance"),
        ("esx02.lab.local", "Host.Config.Maintenance"),
    }
    assert lab.get("/lab/ledger")["entries"] == []


@pytest.mark.lab
def test_what_is_out_of_service_is_only_taken_out_where_that_can_be_written_down(
    make_lab, scenario, tool, inventory_of
):
    lab = make_lab(
        scenario + "\nprivileges_denied: [Folder.Delete, Global.SetCustomField, Global.ManageCustomFields]\n"
    )
    inventory, playbook = inventory_of(lab), PLAYBOOKS / "ai-ready-cluster.yml"
    assert tool("doctor", "--permissions", playbook, "-i", inventory) == 4
    lines = tool.out.splitlines()
    at = lines.index("the root folder")
    assert lines[at + 1 : at + 5] == [
        "  has    Folder.Create  (write down what is out of service)",
        "  lacks  Folder.Delete  (write down what is out of service)",
        "  lacks  Global.ManageCustomFields  (define the custom attribute in which that is written)",
        "  lacks  Global.SetCustomField  (write down what is out of service)",
    ]
    assert tool("apply", playbook, "--yes", "-i", inventory) == 4
    assert "account.privileges" in tool.out
    tool("doctor", "-i", inventory)
    assert "lacks Folder.Delete on the root folder; Global.ManageCustomFields on the root folder" in tool.out
    assert lab.get("/lab/ledger")["entries"] == []


def test_the_lock_in_vcenter_takes_more_only_where_it_is_wanted(make_lab, scenario, tool, inventory_of, tmp_path):
    lab = make_lab(scenario + "\nprivileges_denied: [Folder.Delete]\n")
    inventory, playbook = inventory_of(lab), tmp_path / "off.yml"
    playbook.write_text("- vms: train-04\n  tuning: {extra_config: {a.key: '1'}}\n", encoding="utf-8")
    assert tool("doctor", "--permissions", playbook, "-i", inventory) == 0
    assert "Folder." not in tool.out

    document = json.loads(inventory.read_text("utf-8"))
    document["vcenters"]["lab"]["lock"] = "vcenter"
    inventory.write_text(json.dumps(document), encoding="utf-8")
    assert tool("doctor", "--permissions", playbook, "-i", inventory) == 4
    lines = tool.out.splitlines()
    at = lines.index("the root folder")
    assert lines[at + 1 : at + 5] == [
        "  has    Folder.Create  (hold the lock in vCenter)",
        "  lacks  Folder.Delete  (hold the lock in vCenter)",
        "  has    System.Read  (hold the lock in vCenter)",
        "  has    System.View  (hold the lock in vCenter)",
    ]
    assert lab.get("/lab/ledger")["entries"] == []


def test_every_kind_is_in_the_role():
    rows = [d.purpose for d in privileges.ROLE]
    for kind, cls in kinds().items():
        if kind not in ("kernel", "mig"):  # all they take is SSH
            assert any(row.startswith(f"`{kind}`") for row in rows), kind
        if probes_of(cls):
            assert f"`{kind}`" in privileges.OVER_SSH.purpose


@pytest.mark.parametrize(("method", "nic"), [("AddVirtualNic", {"distributedVirtualPort": {"portgroupKey": "g1"}}),
                                             ("UpdateVirtualNic", {"mtu": 9000})])  # fmt: skip
def test_a_vmkernel_adapter_takes_its_port_group(method, nic):
    port = {"distributedVirtualPort": {"portgroupKey": "g1"}}
    host = Facts(HOST.ref, {"name": HOST.name, "config.network.vnic": ({"device": "vmk2", "spec": port},)})
    group = Facts("DistributedVirtualPortgroup:g1", {"name": "dvpg-rdma"})
    estate = Estate(About("", "", "", "", ""), {f.ref: f for f in (host, group)})
    args = {"portgroup": "", "nic": nic} if method == "AddVirtualNic" else {"device": "vmk2", "nic": nic}
    step = Invoke(target=HOST, summary="an adapter", method=method, path="configManager.networkSystem", args=args)
    assert list(privileges._port_groups(step, estate)) == [group.ref]
    assert list(privileges._port_groups(replace(step, method="UpdateOptions"), estate)) == []
