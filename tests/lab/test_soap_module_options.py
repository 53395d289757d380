"""Options of kernel modules: one string, replaced as a whole, in force from the next boot on."""

import pytest
from pyVmomi import vim
from support.farm import reboot

from vsphere_ai.lab.hardware import drivers
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.parts import LabRdmaDevice, Pnic
from vsphere_ai.lab.ledger import Ledger
from vsphere_ai.lab.shell.esxcli import main

CORE = "nmlx5_core"


def test_the_string_is_replaced_and_waits_for_a_boot(soap, lab):
    host = soap.host("esx01")
    modules = host.configManager.kernelModuleSystem
    assert modules.QueryConfiguredModuleOptionString(CORE) == ""
    modules.UpdateModuleOptionString(CORE, "max_vfs=8")
    modules.UpdateModuleOptionString(CORE, "pfctx=0x08 pfcrx=0x08")
    modules.UpdateModuleOptionString(CORE, "pfctx=0x08 pfcrx=0x08")
    assert modules.QueryConfiguredModuleOptionString(CORE) == "pfctx=0x08 pfcrx=0x08"
    assert {m.name: m.optionString for m in modules.QueryModules()}[CORE] == "pfctx=0x08 pfcrx=0x08"

    def waits():
        return next(h for h in lab.get("/lab/farm")["hosts"] if h["name"] == host.name)["reboot_required"]

    assert waits()
    reboot(soap, host)
    assert not waits()
    assert [c for _, c in soap.calls()] == ["UpdateModuleOptionString", "UpdateModuleOptionString", "RebootHost_Task"]


def test_a_module_the_host_does_not_have(soap):
    modules = soap.host("esx-odd").configManager.kernelModuleSystem
    for call in (modules.QueryConfiguredModuleOptionString, lambda name: modules.UpdateModuleOptionString(name, "")):
        with pytest.raises(vim.fault.NotFound):
            call(CORE)


@pytest.fixture
def host():
    rdma = Pnic("vmnic4", "0000:5e:00.0", "00:00:00:00:00:01", driver=CORE, rdma=LabRdmaDevice("vmrdma0"))
    return LabHost("esx01", Ledger(), pnics=[Pnic("vmnic0", "0000:18:00.0", "00:00:00:00:00:02"), rdma])


def esxcli(host, line):
    done = main(host, line.split())
    return done.status, done.stdout


def pauses(host):
    status, text = esxcli(host, "network nic pauseParams list")
    assert status == 0
    return {row.split()[0]: tuple(row.split()[2:4]) for row in text.splitlines()[2:]}


def test_drivers_come_up_with_a_pause_of_their_own(host):
    assert pauses(host) == {"vmnic0": ("false", "false"), "vmnic4": ("true", "true")}
    assert esxcli(host, "network nic pauseParams set -n vmnic0 -r true -t 1") == (0, "")
    assert esxcli(host, "network nic pauseParams set -n vmnic4 -t f") == (0, "")
    assert pauses(host) == {"vmnic0": ("true", "true"), "vmnic4": ("true", "false")}
    host.boot()
    assert pauses(host) == {"vmnic0": ("false", "false"), "vmnic4": ("true", "true")}
    assert len(host.ledger) == 2


def test_flow_control_per_priority_switches_pause_off(host):
    drivers.set_options(host, CORE, "pfctx=0x08 pfcrx=0x08")
    assert pauses(host)["vmnic4"] == ("true", "true")  # not before a boot
    host.boot()
    assert pauses(host)["vmnic4"] == ("false", "false")
    _, text = esxcli(host, "network nic dcb status get -n vmnic4")
    assert "PFC Enabled: true" in text
    assert "PFC Configuration: 0 0 0 1 0 0 0 0" in text
    assert "PFC Enabled: false" in esxcli(host, "network nic dcb status get -n vmnic0")[1]


@pytest.mark.parametrize("options", ["pfctx=0x08", "pfctx=0x08 pfcrx=0x01", "pfctx=eight pfcrx=eight", ""])
def test_half_a_flow_control_is_none(host, options):
    drivers.set_options(host, CORE, options)
    host.boot()
    assert drivers.pfc_mask(host, host.pnics[1]) == 0


def test_esxcli_replaces_the_string_unless_it_is_told_to_append(host):
    esxcli(host, f"system module parameters set -m {CORE} -p max_vfs=8")
    esxcli(host, f"system module parameters set -m {CORE} -p trust_state=2")
    assert host.kernel_modules[CORE].options == "trust_state=2"
    esxcli(host, f"system module parameters set -m {CORE} --append=true -p max_vfs=8")
    assert host.kernel_modules[CORE].options == "trust_state=2 max_vfs=8"
    assert esxcli(host, f"system module parameters set -m {CORE} -p nonsense=1")[0] == 1
    assert esxcli(host, "system module parameters set -m nmlx4_core -p a=1")[0] == 1
    assert len(host.ledger) == 3


def test_no_such_nic(host):
    for line in ("network nic pauseParams set -n vmnic9 -r true", "network nic dcb status get -n vmnic9"):
        assert esxcli(host, line) == (1, "Invalid NIC name: vmnic9\n")


@pytest.mark.parametrize(
    ("mtu", "rdma"), [(9000, 4096), (4200, 4096), (1500, 1024), (1082, 1024), (1081, 512), (100, 256)]
)
def test_rdma_mtu(mtu, rdma):
    assert drivers.rdma_mtu(mtu) == rdma
