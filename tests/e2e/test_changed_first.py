"""What a plan itself gives to hosts, and VMs that move over it in the same run: it comes first, and it is seen."""

from __future__ import annotations

import json

import pytest
from e2e import test_vgpu_vmotion as vgpu
from e2e.test_admission import farm, on, running, vm

__all__ = ["on"]
pytestmark = pytest.mark.lab
LAN = "nics: [{name: vmnic0, pci: '0000:18:00.0', model: X710, switch: dvs-lan}]"
ADAPTER = "{name: vmk1, port_group: dvpg-lan, ip: 10.21.0.%d%s}"
BOTH, NONE = ("esx01", "esx02"), ()
SELECTED = "- hosts: %s\n  vmkernel: {dvpg-lan: {services: [vmotion]}}\n"
SMALL = vm("t-01", memory_gb=8)


def net(vmotion=BOTH, version="8.0.3", hosts=2, **more):
    """Hosts with an adapter beside that of management; of those named it carries vMotion."""
    made = farm(SMALL, version=version, hosts=hosts, **more)
    parts = made.split("  - name: esx0")
    for n in range(1, hosts + 1):
        services = ", services: [vmotion]" if f"esx0{n}" in vmotion else ""
        adapters = f"{{name: vmk0, port_group: dvpg-mgmt, services: [management]}}, {ADAPTER % (n, services)}"
        parts[n] = parts[n].replace(LAN, f"{LAN}\n    vmkernel: [{adapters}]")
    return "  - name: esx0".join(parts).replace("[{name: dvpg-lan", "[{name: dvpg-mgmt}, {name: dvpg-lan")


def window(version="8.0.3", *, hosts="esx01.lab.local", more=""):
    return (
        f"- hosts: {hosts}\n  nics: {{vmnic0: {{speed: 10000}}}}\n"
        f"  rolling: {{evacuate: vmotion, timeout: 10s}}\n{more}"
    )


def order(cli, path):
    assert cli("plan", "-i", cli.inventory, path, "-o", "json") == 0, json.loads(cli.out)["problems"]
    return [(step["target"]["name"].partition(".")[0], step["summary"]) for step in json.loads(cli.out)["steps"]]


@pytest.mark.parametrize("version", ["7.0.2", "8.0.3", "9.0.0"])
@pytest.mark.parametrize("have", [NONE, ("esx01",), ("esx02",)], ids=["none has it", "the source", "the target"])
def test_vms_move_over_an_adapter_that_the_same_plan_selects(on, have, version):
    cli = on(net(have, version))
    path = cli.file(window(version) + SELECTED % "all")
    steps = order(cli, path)
    enters = steps.index(("esx01", "enter maintenance mode"))
    selects = [at for at, (_, words) in enumerate(steps) if "carry vmotion" in words]
    assert len(selects) == 2 - len(have)
    assert max(selects) < enters
    assert cli("apply", "-i", cli.inventory, path, "--yes") == 0, cli.out + cli.err
    assert running(cli.lab) == {"t-01"}
    assert cli("plan", "-i", cli.inventory, path, "--detailed-exitcode") == 0, cli.out


@pytest.mark.parametrize("before", ["vsan", "vsan, vmotion"], ids=["selected", "taken away"])
def test_an_adapter_that_carries_vsan_too_changes_in_a_window(on, before):
    """No move counts on it: the host leaves the storage cluster while it changes."""
    text = net(("esx01",))
    at = text.index(ADAPTER % (2, ""))
    cli = on(text[:at] + text[at:].replace(ADAPTER % (2, ""), ADAPTER % (2, f", services: [{before}]"), 1))
    after = "vsan" if "vmotion" in before else "vsan, vmotion"
    more = f"- hosts: esx02.lab.local\n  vmkernel: {{dvpg-lan: {{services: [{after}]}}}}\n"
    assert cli("plan", "-i", cli.inventory, cli.file(window() + more), "-o", "json") == 1
    problems = [p for p in json.loads(cli.out)["problems"] if p["rule"] == "rolling.nowhere"]
    assert ["no VMkernel adapter for vMotion" in p["message"] for p in problems] == [True]


DESELECTED = SELECTED.replace("[vmotion]", "[]")


@pytest.mark.parametrize("where", ["esx01.lab.local", "esx02.lab.local", "all"])
def test_the_last_adapter_for_vmotion_is_taken_away_after_all_moves(on, where):
    """Of the host that is left, of the one that VMs move to, and of both, which have a window each."""
    cli = on(net(hosts=2))
    path = cli.file(window(hosts=where if where == "all" else "esx01.lab.local") + DESELECTED % where)
    steps = order(cli, path)
    gates = [at for at, (_, words) in enumerate(steps) if words.startswith("health gate")]
    removed = [at for at, (_, words) in enumerate(steps) if "no longer let" in words]
    assert len(removed) == len(gates) if where == "all" else len(removed) == 1
    assert min(removed) > max(gates)
    assert cli("apply", "-i", cli.inventory, path, "--yes") == 0, cli.out + cli.err
    assert running(cli.lab) == {"t-01"}
    assert cli("plan", "-i", cli.inventory, path, "--detailed-exitcode") == 0, cli.out


def test_what_a_run_has_selected_for_its_moves_is_rolled_back(on):
    cli = on(net(NONE))
    path = cli.file(window() + SELECTED % "all")
    assert cli("apply", "-i", cli.inventory, path, "--yes") == 0, cli.out + cli.err
    assert cli("run", "list") == 0
    assert cli("rollback", cli.out.split()[0], "-i", cli.inventory, "--yes") == 0, cli.out + cli.err
    assert running(cli.lab) == {"t-01"}


def test_another_adapter_carries_vmotion_before_vms_move(on):
    """Between the two calls no adapter of the host does."""
    cli = on(net())
    play = "  vmkernel:\n    dvpg-lan: {services: []}\n    dvpg-mgmt: {services: [management, vmotion]}\n"
    path = cli.file(window() + "- hosts: all\n" + play)
    steps = order(cli, path)
    enters = steps.index(("esx01", "enter maintenance mode"))
    changes = [at for at, (_, words) in enumerate(steps) if "vmotion" in words]
    assert len(changes) == 4
    assert max(changes) < enters
    assert cli("apply", "-i", cli.inventory, path, "--yes") == 0, cli.out + cli.err


def test_without_moves_an_adapter_is_selected_in_the_window(on):
    cli = on(net(NONE))
    path = cli.file(window().replace("vmotion", "power_off") + SELECTED % "esx01.lab.local")
    steps = order(cli, path)
    selects = steps.index(("esx01", "let the adapter on dvpg-lan carry vmotion"))
    assert steps.index(("esx01", "enter maintenance mode")) < selects
    assert cli("apply", "-i", cli.inventory, path, "--yes") == 0, cli.out + cli.err


GPU_HOST = (
    "nics: [{name: vmnic0, pci: '0000:18:00.0', model: X710, switch: d}]\n"
    "    vmkernel: [{name: vmk0, port_group: m, services: [management]}, {name: vmk1, port_group: v}]"
)


def test_a_vm_with_a_vgpu_moves_over_an_adapter_that_is_selected_first(on):
    """The run moves it itself, before its host enters maintenance mode."""
    hosts = [vgpu.host(1, more=GPU_HOST), vgpu.host(2, more=GPU_HOST)]
    switches = "switches: [{name: d, uplinks: 1, port_groups: [{name: m}, {name: v}]}]\nhosts:"
    cli = on(vgpu.farm(hosts, [vgpu.vm("a", 1, network="m")]).replace("hosts:", switches, 1))
    playbook = vgpu.play("esx01.lab.local")
    assert cli("plan", "-i", cli.inventory, cli.file(playbook, "refused.yml")) == 1
    path = cli.file(playbook + "- hosts: all\n  vmkernel: {v: {services: [vmotion]}}\n")
    assert cli("apply", "-i", cli.inventory, path, "--yes") == 0, cli.out + cli.err
    assert [(v["host"], v["power"]) for v in cli.lab.get("/lab/farm")["vms"]] == [("esx02.lab.local", "poweredOn")]


JOINS = "- hosts: esx02.lab.local\n  uplinks: {dvs-data: {Uplink 1: vmnic1}}\n"


def joining(**more):
    """The second host is no member of the switch that the VM is connected to."""
    text = net(**more).replace("network: dvpg-lan,", "network: dvpg-data,")
    text = text.replace(
        LAN, LAN.replace("}]", "}, {name: vmnic1, pci: '0000:18:00.1', model: X710, switch: dvs-data}]")
    )
    head, first, second = text.split("  - name: esx0")
    second = second.replace("model: X710, switch: dvs-data", "model: X710")
    text = "  - name: esx0".join((head, first, second))
    return text.replace(
        "switches: [", "switches: [{name: dvs-data, uplinks: 1, port_groups: [{name: dvpg-data, vlan: 30}]}, "
    )


def test_vms_move_to_a_host_that_joins_their_switch_first(on):
    cli = on(joining())
    refused = cli.file(window(), "refused.yml")
    assert cli("plan", "-i", cli.inventory, refused, "-o", "json") == 1
    assert "rolling.nowhere" in {p["rule"] for p in json.loads(cli.out)["problems"]}
    path = cli.file(window() + JOINS)
    assert order(cli, path)[0][0] == "esx02"
    assert cli("apply", "-i", cli.inventory, path, "--yes") == 0, cli.out + cli.err
    assert running(cli.lab) == {"t-01"}


def test_a_window_on_the_host_that_joins_does_not_delay_that(on):
    cli = on(joining(hosts=2))
    path = cli.file(window(hosts="all") + JOINS)
    steps = order(cli, path)
    assert steps.index(("esx02", "join dvs-data")) < steps.index(("esx01", "enter maintenance mode"))
    assert cli("apply", "-i", cli.inventory, path, "--yes") == 0, cli.out + cli.err
