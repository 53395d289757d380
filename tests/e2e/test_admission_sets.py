"""Admission of VMs of sets on the lab: devices that a clone brings from its source, and rules of the set itself."""

from __future__ import annotations

import json

import pytest
from e2e.test_admission import TEMPLATE, farm, made
from support.vm_sets import INVENTORY

pytestmark = pytest.mark.lab
PASSED = "- hosts: esx0*.lab.local\n  passthrough: {'0000:3b:00.0': true}\n"
WINDOW = "- hosts: esx01.lab.local\n  kernel: {ats_support: true}\n  rolling: {evacuate: vmotion, timeout: 30s}\n"
SOURCE = (TEMPLATE % "efi").replace("template: true", "template: false")
LARGE_BARS = "{pciPassthru.use64bitMMIO: 'TRUE', pciPassthru.64bitMMIOSizeGB: '128', vsphere-ai.image:"
WITH_VGPU = SOURCE.replace("{vsphere-ai.image:", LARGE_BARS)
WITH_VGPU += "    vgpu: [grid_a100x-40c]\n    memory_reservation_locked: true\n"


@pytest.fixture
def on(cli, make_lab, monkeypatch):
    def start(scenario):
        lab = make_lab(scenario)
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
        cli.lab, cli.inventory = lab, cli.file(INVENTORY, "inventory.yml")
        return cli

    return start


def applied(cli, text, *more):
    assert cli("apply", "-i", cli.inventory, cli.file(text), "--yes", *more) == 0, cli.out + cli.err


def refused(cli, text):
    """The rules that refuse a playbook; nothing is made."""
    path, before = cli.file(text), names(cli)
    assert cli("plan", "-i", cli.inventory, path, "-o", "json") == 1
    rules = {p["rule"] for p in json.loads(cli.out)["problems"]}
    assert cli("apply", "-i", cli.inventory, path, "--yes") == 1
    assert names(cli) == before
    return rules


def names(cli):
    return {vm["name"]: (vm["power"], vm["host"]) for vm in cli.lab.get("/lab/farm")["vms"]}


def of_set(cli):
    return {name: where for name, where in names(cli).items() if name.startswith("n-")}


@pytest.mark.parametrize("version", ["7.0.2", "9.1.0"])
def test_vgpus_of_the_source_take_room_on_gpus(on, version):
    """The play says nothing of devices; the only host has two GPUs."""
    cli = on(farm(WITH_VGPU, hosts=1, version=version))
    assert refused(cli, made(8).replace("[01:02]", "[01:03]")) & {"vm_set.no-host", "vm_set.no-room"}
    applied(cli, made(8))
    assert {power for power, _ in of_set(cli).values()} == {"poweredOn"}


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        (WITH_VGPU.replace("'128'", "'64'"), "admission.mmio-window"),
        (WITH_VGPU.replace("'TRUE'", "'FALSE'"), "admission.mmio-window"),
        (WITH_VGPU.replace("firmware: efi", "firmware: bios", 1), "admission.gpu-firmware"),
    ],
)
def test_a_gpu_of_the_source_has_no_room_in_the_addresses_of_its_clones(on, source, rule):
    """The play that writes the GPU itself sets what it needs."""
    cli = on(farm(source, hosts=1, version="8.0.3"))
    assert rule in refused(cli, made(8))
    if rule == "admission.mmio-window":
        applied(cli, made(8, "  vgpu: [grid_a100x-40c]\n"))
        assert {power for power, _ in of_set(cli).values()} == {"poweredOn"}


def test_a_device_of_the_source_is_on_one_host(on):
    """Its address is that of one device: one clone runs, on the host of the source."""
    cli = on(farm(SOURCE).replace("sharedDirect", "shared"))
    applied(cli, PASSED, "--reboot", "2")
    applied(cli, "- vms: tpl\n  pci_devices: [{host_device: '0000:3b:00.0'}]\n")
    assert refused(cli, made(8))
    applied(cli, made(8).replace("n-[01:02]", "n-01"))
    assert of_set(cli) == {"n-01": ("poweredOn", "esx01.lab.local")}


def placed(hosts=""):
    rule = f"    placement: {{hosts: {hosts}, vm_host_rule: must}}\n" if hosts else ""
    return made(8, "  vgpu: [grid_a100x-40c]\n").replace("n-[01:02]", "n-01").replace("    cpus:", f"{rule}    cpus:")


@pytest.mark.parametrize("before", ["", "'esx0[1,3]*'", "'esx01*'"])
def test_a_vm_is_moved_within_the_rule_of_its_own_set(on, before):
    """esx02 is free as well and comes first; a rule that the same plan makes counts like one that is there."""
    cli = on(farm(TEMPLATE % "efi", hosts=3, version="8.0.3"))
    applied(cli, placed(before))
    assert of_set(cli)["n-01"] == ("poweredOn", "esx01.lab.local")
    applied(cli, placed("'esx0[1,3]*'") + WINDOW, "--reboot", "1")
    assert of_set(cli)["n-01"] == ("poweredOn", "esx03.lab.local")


def test_a_vm_whose_rule_leaves_it_no_other_host_is_not_moved(on):
    cli = on(farm(TEMPLATE % "efi", hosts=3, version="8.0.3"))
    applied(cli, placed("'esx01*'"))
    before = of_set(cli)
    assert refused(cli, placed("'esx01*'") + WINDOW)
    assert of_set(cli) == before


FULL = "  - {name: full, host: esx03.lab.local, power: 'on', memory_gb: 240, memory_reservation_locked: true}\n"


def ruled(hosts="", override=""):
    """A set of one VM whose memory is reserved, without GPUs: DRS moves it."""
    of = [f"hosts: {hosts}, vm_host_rule: must" if hosts else "", f"drs_override: {override}" if override else ""]
    rule = f"    placement: {{{', '.join(filter(None, of))}}}\n" if hosts or override else ""
    text = made(8, "  hardware: {memory_reservation: full}\n")
    return text.replace("n-[01:02]", "n-01").replace("    cpus:", f"{rule}    cpus:")


@pytest.mark.parametrize("before", ["", "'esx01*'", "'esx0[1,2]*'"])
def test_drs_moves_a_vm_by_the_rules_that_the_same_plan_makes(on, before):
    """They come before the window: what was there may leave the VM no host, or one where the new rule forbids it."""
    cli = on(farm(TEMPLATE % "efi", hosts=3))
    applied(cli, ruled(before))
    applied(cli, ruled("'esx0[1,3]*'") + WINDOW, "--reboot", "1")
    assert of_set(cli)["n-01"] == ("poweredOn", "esx03.lab.local")


def test_a_host_that_the_new_rule_forbids_is_no_place(on):
    """esx02 has room, and the rule that was there permits it."""
    cli = on(farm(TEMPLATE % "efi" + FULL, hosts=3))
    applied(cli, ruled("'esx0[1,2]*'"))
    before = of_set(cli)
    assert refused(cli, ruled("'esx0[1,3]*'") + WINDOW) == {"rolling.nowhere"}
    assert of_set(cli) == before


def test_a_vm_is_moved_before_drs_is_kept_from_it(on):
    cli = on(farm(TEMPLATE % "efi", hosts=2))
    applied(cli, ruled())
    applied(cli, ruled(override="kept") + WINDOW, "--reboot", "1")
    assert of_set(cli)["n-01"] == ("poweredOn", "esx02.lab.local")
