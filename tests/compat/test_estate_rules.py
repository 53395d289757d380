"""Rules that look beyond their target: host versions, switches, the hosts a VM may run on; release arithmetic."""

import pytest
from support import estates, machines

from vsphere_ai.compat import gate
from vsphere_ai.compat.base import RuleCase
from vsphere_ai.compat.rules.driver import host_driver
from vsphere_ai.compat.rules.vm import tools_version
from vsphere_ai.model.names import versions
from vsphere_ai.resources.vgpu import Vgpu

RULES = {r.id: r for r in gate.rules()}
SWITCH = "VmwareDistributedVirtualSwitch:dvs-1"
GROUP = "DistributedVirtualPortgroup:dvportgroup-1"


def second_host(world, **changes):
    return {"HostSystem:host-2": {**world.host_properties, "name": "esx02", **changes}}


def test_vcenter_newest_names_every_newer_host(world):
    newer = second_host(world, **{"config.product": {"version": "7.0.3", "build": "1"}})
    (finding,) = RULES["vcenter.newest"].check(None, world.view(newer))
    assert finding.verdict == "fail"
    assert "esx02" in finding.message
    assert "esx01" not in finding.message
    assert ("esx02: config.product.version", "7.0.3") in finding.evidence


def test_vcenter_newest_ignores_the_fourth_number(world):
    host = {world.host.ref: {"config.product": {"version": "7.0.2.1", "build": "1"}}}
    for about in ({"version": "7.0.2"}, {"version": "7.0.2.00500"}):
        (finding,) = RULES["vcenter.newest"].check(None, world.view(host, about=about))
        assert finding.verdict == "pass"


def test_vcenter_newest_does_not_guess_hidden_hosts(world):
    hidden = second_host(world, **{"config.product": world.absent, "summary.config.product": world.absent})
    (finding,) = RULES["vcenter.newest"].check(None, world.view(hidden))
    assert (finding.verdict, finding.refuses) == ("unknown", False)
    assert "esx02" in finding.message
    (finding,) = RULES["vcenter.newest"].check(None, world.view({world.host.ref: world.absent}))
    assert finding.verdict == "unknown"
    assert "no host was read" in finding.message


def test_a_disconnected_host_still_shows_its_version_in_the_summary(world):
    view = world.view({world.host.ref: {"config.product": world.absent}})
    (finding,) = RULES["esxi.version"].check(world.host, view)
    assert finding.verdict == "pass"
    assert finding.evidence[0] == ("summary.config.product.version", "7.0.2")


def test_the_lowest_host_decides_on_the_hardware_version(world):
    old = second_host(world, **{"config.product": {"version": "7.0.0", "build": "1"}})
    (finding,) = RULES["vm.hardware-hosts"].check(world.vm, world.view(old))
    assert finding.verdict == "fail"
    assert "above 17, the most esx02 (ESXi 7.0.0) runs" in finding.message
    assert "7.0.2" in finding.remedy


def test_an_esxi_that_is_newer_than_the_table_is_not_too_old(world):
    newer = world.view({world.host.ref: {"config.product": {"version": "99.0.0", "build": "1"}},
                        world.vm.ref: {"config.version": "vmx-98"}})  # fmt: skip
    (finding,) = RULES["vm.hardware-hosts"].check(world.vm, newer)
    assert finding.verdict == "unknown"
    assert "99.0.0 is newer" in finding.message


def test_hosts_a_vm_cannot_run_on_anyway_do_not_count(world):
    old = second_host(world, **{"config.product": {"version": "7.0.0", "build": "1"}})
    only_first = {"profiles": ("grid_a100-20c",), "runs_on": lambda host, view: host.name == "esx01"}
    view = world.view(old, planned={(world.vm.ref, "vgpu"): only_first})
    (finding,) = RULES["vm.hardware-hosts"].check(world.vm, view)
    assert finding.verdict == "pass"


@pytest.mark.parametrize("version", [{"version": "7.x"}, {"version": "6.0.0"}, {}])
def test_a_host_of_unknown_version_is_no_pass(world, version):
    odd = second_host(world, **{"config.product": version, "summary.config.product": world.absent})
    (finding,) = RULES["vm.hardware-hosts"].check(world.vm, world.view(odd))
    assert finding.verdict == "unknown"
    assert "esx02" in finding.message


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({SWITCH: {"config.productInfo.version": "6.0.0"}}, "fail", "needs 6.5.0"),
        ({SWITCH: {"config.productInfo.version": "6.5.0"}}, "pass", "6.5.0"),
        ({SWITCH: {"config.productInfo.version": "?"}}, "unknown", "states '?'"),
        ({SWITCH: {"config.productInfo.version": "<absent>"}}, "unknown", "shows no value"),
        ({SWITCH: "<absent>"}, "unknown", "not read"),
        ({GROUP: {"config.distributedVirtualSwitch": "<absent>"}}, "unknown", "switch of port group dvportgroup-1"),
        ({GROUP: "<absent>"}, "unknown", "not read"),
    ],
)
def test_dvs_version(world, changes, verdict, words):
    hide = {"<absent>": world.absent}
    changes = {
        ref: hide[c] if isinstance(c, str) else {p: hide.get(v, v) for p, v in c.items()} for ref, c in changes.items()
    }
    (finding,) = RULES["dvs.version"].check(world.vm, world.view(changes))
    assert (finding.verdict, words in finding.message) == (verdict, True), finding


def test_a_plan_for_a_vm_that_was_not_read_is_no_pass(world):
    view = world.view({world.vm.ref: world.absent}, planned={(world.vm.ref, "hardware"): {"version": 19}})
    (finding,) = RULES["vm.hardware-hosts"].check(world.vm, view)
    assert finding.verdict == "unknown"


def test_dvs_version_says_nothing_about_a_vm_without_pvrdma(world):
    view = world.view({world.vm.ref: {"config.hardware.device": (world.vgpu,)}})
    assert list(RULES["dvs.version"].check(world.vm, view)) == []


@pytest.mark.parametrize("rule", ["gpu.mig-capable", "gpu.sriov", "gpu.passthrough", "gpu.shared-direct"])
def test_a_host_without_gpu_is_left_to_gpu_model(world, rule):
    view = world.view({world.host.ref: {"hardware.pciDevice": (world.nic,)}})
    assert list(RULES[rule].check(world.host, view)) == []


VGPU = estates.vgpu_device(13000, "grid_a100-40c")
GIVES_UP, WANTS = Vgpu(profiles=()), Vgpu(profiles=("grid_a100-40c",))


@pytest.mark.parametrize(
    ("on", "devices", "stated", "expected"),
    [
        (estates.ESX1, [], {}, "warn"),  # DirectPath I/O is what was wanted
        (estates.ESX1, [VGPU], {}, "fail"),
        (estates.ESX2, [VGPU], {}, "warn"),
        (estates.ESX1, [], {(estates.ESX1.ref, "graphics"): None}, "fail"),
        (estates.ESX1, [], {(estates.ESX1.ref, "mig"): None}, "fail"),
        (estates.ESX1, [], {(estates.vm(1).ref, "vgpu"): WANTS}, "fail"),
        (estates.ESX2, [], {(estates.vm(1).ref, "vgpu"): WANTS}, "fail"),  # it may come here
        (estates.ESX1, [VGPU], {(estates.vm(1).ref, "vgpu"): GIVES_UP}, "warn"),
    ],
)
def test_a_host_with_all_gpus_in_passthrough_is_wrong_only_where_vgpus_are_wanted(on, devices, stated, expected):
    hosts = [machines.machine(h, passed=dict.fromkeys(estates.PCI, "")) for h in (estates.ESX1, estates.ESX2)]
    of = estates.estate(*hosts, machines.tuned(estates.vm(1), on, *devices))
    found = list(RULES["gpu.passthrough"].check(estates.ESX1, estates.view(of, stated=stated)))
    assert [f.verdict for f in found] == [expected] * len(estates.PCI)


def test_long_evidence_is_cut(world):
    services = tuple({"key": f"service-{n}"} for n in range(40))
    (finding,) = RULES["host.ssh-service"].check(
        world.host, world.view({world.host.ref: {"config.service.service": services}})
    )
    assert finding.evidence[0][1].endswith("...")
    assert len(finding.evidence[0][1]) == 100


@pytest.mark.parametrize("verdict", ["passed", "warned", "failed"])
def test_no_verdict_but_unknown_goes_without_evidence(verdict):
    case = RuleCase(gate.rules()[0], None, None)
    with pytest.raises(ValueError, match="needs evidence"):
        getattr(case, verdict)("it is so")
    assert case.unknown("nobody knows").verdict == "unknown"


@pytest.mark.parametrize(
    ("version", "hardware"),
    [((6, 0, 0), None), ((6, 5, 0), 13), ((6, 7, 0), 14), ((7, 0, 0), 17), ((7, 0, 1), 18), ((7, 0, 2), 19),
     ((7, 0, 3), 19), ((8, 0, 0), 20), ((8, 0, 1), 20), ((8, 0, 2), 21), ((8, 0, 3), 21), ((9, 0, 0, 0), 22),
     ((9, 1, 0), 22)],
)  # fmt: skip
def test_hardware_limits(version, hardware):
    assert versions.hardware_limit(version) == hardware


def test_builds_do_not_decide_the_version():
    assert versions.build_name((7, 0, 2), "19290878") == "7.0 U2e"
    assert versions.build_name((7, 0, 3), "19290878") is None
    assert versions.build_name((7, 0, 3), "18644231") == "7.0 U3"
    builds = [b for r in versions.releases() for b in r.builds]
    assert len(builds) == len(set(builds)) == 51
    assert builds != sorted(builds)


def test_releases_are_in_order():
    listed = versions.releases()
    assert [r.version for r in listed] == sorted(r.version for r in listed)
    assert [r.hardware for r in listed] == sorted(r.hardware for r in listed)
    assert all(r.withdrawn <= set(r.builds) for r in listed)
    assert versions.first_esxi_with(19) == "ESXi 7.0.2"
    assert versions.first_esxi_with(99) == "a release after ESXi 9.0.1"


@pytest.mark.parametrize(
    ("number", "text"),
    [(11297, "11.1.1"), (11301, "11.1.5"), (11333, "11.2.5"), (11334, "11.2.6"), (11360, "11.3.0"), (11365, "11.3.5"),
     (12288, "12.0.0"), (8395, ""), (0, ""), (None, "")],
)  # fmt: skip
def test_tools_version(number, text):
    assert tools_version(number) == text


@pytest.mark.parametrize(
    ("name", "version", "line", "driver", "built_for"),
    [
        ("NVIDIA-VMware_ESXi_7.0_Host_Driver", "460.32.04-1OEM.700.0.0.15525992", "VMware", "460.32.04", (7, 0, 0)),
        ("NVIDIA-VMware_ESXi_7.0.2_Driver", "510.73.06-1OEM.702.0.0.17630552", "VMware", "510.73.06", (7, 0, 2)),
        ("NVIDIA-AIE_ESXi_7.0.2_Driver", "510.47.03-1OEM.702.0.0.17630552", "AIE", "510.47.03", (7, 0, 2)),
        ("NVD-VMware_ESXi_7.0.2_Driver", "535.54.06-1OEM.702.0.0.17630552", "VMware", "535.54.06", (7, 0, 2)),
        ("NVD-AIE_ESXi_8.0.0_Driver", "525.105.14-1OEM.800.1.0.20613240", "AIE", "525.105.14", (8, 0, 0)),
        ("NVD-VMware-x86_64", "525.125.03-1OEM.703.0.0.18644231", "VMware", "525.125.03", (7, 0, 3)),
        ("NVD-AIE_ESXi_9.0.0_Driver", "580.65.05", "AIE", "580.65.05", None),
    ],
)
def test_driver_vibs(name, version, line, driver, built_for):
    found = host_driver({"name": name, "version": version})
    assert (found.line, found.driver, found.built_for) == (line, driver, built_for)


@pytest.mark.parametrize("name", ["nvdgpumgmtdaemon", "nvd-gpu-mgmt-daemon", "nvme-pcie", "NVIDIA-tools", ""])
def test_other_vibs_are_no_driver(name):
    assert host_driver({"name": name, "version": "525.1"}) is None


def test_an_rdma_path_names_every_broken_link(world):
    two = {"uplinkTeamingPolicy": {"uplinkPortOrder": {"activeUplinkPort": ("up", "other")}}}
    proxy = {**world.host_properties["config.network.proxySwitch"][0], "pnic": ("key-vmnic4", "key-vmnic5")}
    changes = {GROUP: {"config.defaultPortConfig": two}, world.host.ref: {"config.network.proxySwitch": (proxy,)}}
    (finding,) = RULES["vm.rdma-path"].check(world.vm, world.view(changes))
    assert finding.verdict == "warn"
    assert [path.partition(": ")[2] for path, _ in finding.evidence] == [
        "active uplink of the port group",
        "RDMA NIC is the switch's only uplink",
    ]


def test_a_host_that_is_away_leaves_the_rdma_path_unknown(world):
    view = world.view({world.host.ref: {"runtime.connectionState": "notResponding"}})
    (finding,) = RULES["vm.rdma-path"].check(world.vm, view)
    assert (finding.verdict, finding.refuses) == ("unknown", False)
    assert "notResponding" in finding.message


def test_what_shares_the_switch_of_the_rdma_nic_is_named_with_the_way_out(world):
    proxy = {**world.host_properties["config.network.proxySwitch"][0], "pnic": ("key-vmnic4", "key-vmnic5")}
    (finding,) = RULES["host.rdma-uplinks"].check(
        world.host, world.view({world.host.ref: {"config.network.proxySwitch": (proxy,)}})
    )
    assert "vmnic4, key-vmnic5" in finding.evidence[0]
    assert "uplinks: {dvs-ai: {up: vmnic4}}" in finding.remedy
