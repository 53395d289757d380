"""pyVmomi objects to plain values and back: nothing lost, nothing dropped, nothing guessed."""

from __future__ import annotations

import contextlib
import re
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyVmomi import SoapAdapter, VmomiSupport, vim
from support.raising import refused

from vsphere_ai.connect.wire.plain import NotExpressible, supports, to_object, to_plain, to_ref, to_vim
from vsphere_ai.errors import Refused

U2 = "vim.version.v7_0_2_0"
NEWEST = VmomiSupport.newestVersions.GetName("vim")
VGPU = {
    "_typeName": "VirtualPCIPassthrough",
    "key": -1,
    "backing": {"_typeName": "VirtualPCIPassthroughVmiopBackingInfo", "vgpu": "grid_a100-3-20c"},
}
RDMA = {
    "_typeName": "VirtualVmxnet3Vrdma",
    "key": -2,
    "deviceProtocol": "rocev2",
    "macAddress": "00:50:56:aa:bb:cc",
    "backing": {
        "_typeName": "VirtualEthernetCardDistributedVirtualPortBackingInfo",
        "port": {
            "_typeName": "DistributedVirtualSwitchPortConnection",
            "switchUuid": "50 2d",
            "portgroupKey": "dvportgroup-7",
        },
    },
}
SPEC = {
    "_typeName": "VirtualMachineConfigSpec",
    "changeVersion": "2026-01-01T00:00:00Z",
    "memoryReservationLockedToMax": True,
    "cpuHotAddEnabled": False,
    "npivPortWorldWideName": (2**60, 5),
    "deviceChange": (
        {"_typeName": "VirtualDeviceConfigSpec", "operation": "add", "device": VGPU},
        {"_typeName": "VirtualDeviceConfigSpec", "operation": "remove", "device": RDMA},
    ),
    "extraConfig": ({"_typeName": "OptionValue", "key": "pciPassthru.use64bitMMIO", "value": "TRUE"},),
}


def wire(value, version=U2):
    """What pyVmomi would send for a value, without its version marks."""
    text = SoapAdapter.SerializeToStr(value, version=version)
    return re.sub(r' versionId="[^"]*"', "", text)


def test_a_reconfigure_goes_there_and_back():
    made = to_vim(SPEC, vim.vm.ConfigSpec, U2)
    assert isinstance(made.deviceChange[1].device, vim.vm.device.VirtualVmxnet3Vrdma)
    assert to_plain(made) == SPEC
    sent = wire(made)
    for part in (
        "<vgpu>grid_a100-3-20c</vgpu>",
        'xsi:type="VirtualVmxnet3Vrdma"',
        "<deviceProtocol>rocev2</deviceProtocol>",
        "<cpuHotAddEnabled>false</cpuHotAddEnabled>",
    ):
        assert part in sent


def test_what_was_read_can_be_sent_back_unchanged():
    read = SoapAdapter.Deserialize(
        '<val xmlns="urn:vim25" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="VirtualVmxnet3">'
        "<key>4000</key><deviceInfo><label>Network adapter 1</label><summary>lan</summary></deviceInfo>"
        '<backing xsi:type="VirtualEthernetCardNetworkBackingInfo"><deviceName>VM Network</deviceName>'
        '<network type="Network">network-7</network></backing><connectable><startConnected>true</startConnected>'
        "<allowGuestControl>true</allowGuestControl><connected>false</connected></connectable><controllerKey>100"
        "</controllerKey><unitNumber>7</unitNumber><addressType>manual</addressType>"
        "<macAddress>00:50:56:01:02:03</macAddress><wakeOnLanEnabled>true</wakeOnLanEnabled></val>",
        vim.vm.device.VirtualDevice,
    )
    plain = to_plain(read)
    assert plain["backing"]["network"] == "Network:network-7"
    assert plain["connectable"]["connected"] is False
    assert wire(to_vim(plain, vim.vm.device.VirtualDevice, U2)) == wire(read)


def test_scalars_become_plain_python():
    moment = datetime(2026, 5, 1, 12, 0, tzinfo=timezone(timedelta(hours=2)))
    assert to_plain(moment) == "2026-05-01T10:00:00Z"
    assert to_plain(datetime(2026, 5, 1, 10, 0)) == "2026-05-01T10:00:00Z"
    # near the ends of what a datetime can be, UTC would be a year that it cannot have
    early, late = (
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2))),
    )
    assert to_plain(early) == "0001-01-01T00:00:00+02:00"
    assert to_plain(late) == "9999-12-31T23:00:00-02:00"
    assert to_plain(VmomiSupport.binary(b"\x00\xff")) == "AP8="
    assert to_plain(vim.VirtualMachine) == "VirtualMachine"
    for value, kind in (
        (VmomiSupport.long(5), int),
        (vim.VirtualMachine.PowerState.poweredOn, str),
        (VmomiSupport.short(-1), int),
        (True, bool),
        (VmomiSupport.double(0.5), float),
    ):
        assert type(to_plain(value)) is kind
    assert to_plain(VmomiSupport.GetVmodlType("long[]")([1, 2])) == (1, 2)
    assert to_plain(None) is None
    with pytest.raises(NotExpressible):
        to_plain(object())


def test_faults_keep_their_text():
    plain = to_plain(vim.fault.InvalidPowerState(msg="no", requestedState="poweredOn", existingState="poweredOff"))
    assert plain == {
        "_typeName": "InvalidPowerState",
        "msg": "no",
        "requestedState": "poweredOn",
        "existingState": "poweredOff",
    }


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        (5, "xsd:int"),
        (2**40, "xsd:long"),
        ({"_typeName": "xsd:long", "value": 5}, "xsd:long"),
        (True, "xsd:boolean"),
        ("5", "xsd:string"),
        ({"_typeName": "xsd:short", "value": 5}, "xsd:short"),
        (0.5, "xsd:double"),
        ({"_typeName": "ArrayOfString", "value": ("a",)}, "ArrayOfString"),
        ({"_typeName": "xsd:string", "value": "x"}, "xsd:string"),
    ],
)
def test_an_option_value_says_its_own_type(value, tag):
    option = to_vim({"key": "k", "value": value}, vim.option.OptionValue, U2)
    found = re.search(r'<value[^>]*type="(?:\w+:)?(\w+)"', wire(option))
    assert found[1] == tag.removeprefix("xsd:")


@pytest.mark.parametrize(
    ("plain", "declared", "says"),
    [
        ({"extraConfigg": ()}, vim.vm.ConfigSpec, "VirtualMachineConfigSpec has no field extraConfigg"),
        ({"numCPUs": "4"}, vim.vm.ConfigSpec, "value.numCPUs: expected int"),
        ({"numCPUs": True}, vim.vm.ConfigSpec, "expected int"),
        ({"numCPUs": 2**31}, vim.vm.ConfigSpec, "expected int"),
        ({"cpuHotAddEnabled": "true"}, vim.vm.ConfigSpec, "expected bool"),
        ({"deviceChange": {"operation": "add"}}, vim.vm.ConfigSpec, "expected a list"),
        ({"deviceChange": "add"}, vim.vm.ConfigSpec, "expected a list"),
        (
            {"deviceChange": ({"operation": "bogus", "device": VGPU},)},
            vim.vm.ConfigSpec,
            r"deviceChange\[0\].operation: 'bogus' is not one of add, edit, remove",
        ),
        ({"deviceChange": ({"operation": "add"},)}, vim.vm.ConfigSpec, "needs a value for device"),
        (
            {"deviceChange": ({"operation": "add", "device": {"_typeName": "VirtualGpu"}},)},
            vim.vm.ConfigSpec,
            "VirtualGpu is not a type",
        ),
        (
            {"deviceChange": ({"operation": "add", "device": {"_typeName": "OptionValue"}},)},
            vim.vm.ConfigSpec,
            "OptionValue is not a VirtualDevice",
        ),
        ({"createDate": "yesterday"}, vim.vm.ConfigSpec, "'yesterday' is not a"),
        ({"extraConfig": ({"key": "a", "value": {"x": 1}},)}, vim.vm.ConfigSpec, "needs a _typeName"),
        ({"extraConfig": ({"key": "a", "value": [1]},)}, vim.vm.ConfigSpec, "needs a _typeName"),
        (
            {"extraConfig": ({"key": "a", "value": {"_typeName": "xsd:long", "value": "5"}},)},
            vim.vm.ConfigSpec,
            "expected long",
        ),
        ("host-1", vim.HostSystem, "not a reference"),
        ("VirtualMachine:vm-1", vim.HostSystem, "expected a reference to a HostSystem"),
        (5, vim.HostSystem, "expected a reference"),
        (5, vim.vm.ConfigSpec, "expected a VirtualMachineConfigSpec"),
        (
            {"hostDefaultGraphicsType": "shared"},
            vim.host.GraphicsConfig,
            "needs a value for sharedPassthruAssignmentPolicy",
        ),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_place(plain, declared, says):
    with pytest.raises(NotExpressible, match=says):
        to_vim(plain, declared, U2)


def test_a_mistyped_field_gets_a_hint():
    with pytest.raises(NotExpressible) as caught:
        to_vim({"extraConfigg": ()}, vim.vm.ConfigSpec, U2)
    assert caught.value.remedy == "Did you mean extraConfig?"


@pytest.mark.parametrize(
    ("plain", "declared", "version"),
    [
        (RDMA, vim.vm.device.VirtualDevice, "vim.version.version11"),
        (RDMA, vim.vm.device.VirtualDevice, "vim.version.version10"),
        ({"virtualNuma": {"_typeName": "VirtualMachineVirtualNuma"}}, vim.vm.ConfigSpec, U2),
        (
            {"deviceId": "0000:3b:00.0", "graphicsType": "sharedDirect", "vgpuMode": "sameSize"},
            vim.host.GraphicsConfig.DeviceType,
            U2,
        ),
    ],
)
def test_what_is_newer_than_the_server_is_refused_where_pyvmomi_would_leave_it_out(plain, declared, version):
    with refused(Refused, "vcenter.too-old"):
        to_vim(plain, declared, version)
    assert to_vim(plain, declared, NEWEST) is not None


def test_references():
    managed = to_object("HostSystem:host-12")
    assert isinstance(managed, vim.HostSystem)
    assert to_ref(managed) == to_plain(managed) == "HostSystem:host-12"
    assert to_object("ContainerView:session[52a]a:b")._GetMoId() == "session[52a]a:b"
    for bad in ("host-12", "HostSystem:", ":x", ""):
        with pytest.raises(NotExpressible):
            to_object(bad)


@pytest.mark.parametrize(
    ("kind", "path", "there"),
    [
        ("HostSystem", "config.graphicsInfo", True),
        ("HostSystem", "configManager.graphicsManager", True),
        ("HostSystem", "config.graphicsConfiguration", False),
        ("HostSystem", "parent.name", False),
        ("HostSystem", "name.x", False),
        ("VirtualMachine", 'config.extraConfig["svga.present"]', True),
        ("VirtualMachine", "config.fixedPassthruHotPlugEnabled", False),
        ("VmwareDistributedVirtualSwitch", "config.maxMtu", True),
        ("DistributedVirtualPortgroup", "config.uplink", True),
        ("ClusterComputeResource", "configurationEx.drsConfig.enabled", True),
    ],
)
def test_paths_are_known_by_version(kind, path, there):
    assert supports(kind, path, U2) is there
    if "fixedPassthru" in path:
        assert supports(kind, path, NEWEST)


names = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=20)
options = st.builds(
    lambda k, v: {"_typeName": "OptionValue", "key": k, "value": v},
    names,
    st.one_of(names, st.integers(-(2**31), 2**31 - 1), st.booleans()),
)
numbers32 = st.integers(-(2**31), 2**31 - 1)
device = st.fixed_dictionaries(
    {"_typeName": st.just("VirtualPCIPassthrough"), "key": numbers32},
    optional={
        "backing": st.builds(lambda v: {"_typeName": "VirtualPCIPassthroughVmiopBackingInfo", "vgpu": v}, names),
        "unitNumber": numbers32,
    },
)
change = st.fixed_dictionaries(
    {"_typeName": st.just("VirtualDeviceConfigSpec"), "device": device},
    optional={"operation": st.sampled_from(["add", "edit", "remove"])},
)
specs = st.fixed_dictionaries(
    {"_typeName": st.just("VirtualMachineConfigSpec")},
    optional={
        "name": names,
        "numCPUs": numbers32,
        "memoryMB": st.integers(-(2**63), 2**63 - 1),
        "memoryReservationLockedToMax": st.booleans(),
        "extraConfig": st.lists(options, min_size=1, max_size=4).map(tuple),
        "deviceChange": st.lists(change, min_size=1, max_size=3).map(tuple),
        "createDate": st.datetimes(datetime(1990, 1, 1)).map(lambda d: f"{d.isoformat()}Z"),
    },
)


@given(specs)
def test_plain_to_vim_to_plain_is_the_same(spec):
    assert to_plain(to_vim(spec, vim.vm.ConfigSpec, U2)) == spec


@given(specs)
def test_everything_that_is_made_reaches_the_wire(spec):
    made = to_vim(spec, vim.vm.ConfigSpec, U2)
    back = SoapAdapter.Deserialize(SoapAdapter.SerializeToStr(made, version=U2), vim.vm.ConfigSpec)
    assert to_plain(back) == spec


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | names,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    )
)
def test_nonsense_is_refused_without_a_crash(junk):
    for declared in (vim.vm.ConfigSpec, vim.HostSystem, VmomiSupport.DataObject, object, VmomiSupport.long, bool, str):
        with contextlib.suppress(NotExpressible, Refused):
            assert to_vim(junk, declared, U2) is not None or junk is None
