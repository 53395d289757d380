"""The plan as an operator reads it: golden texts, grouping, width, and nothing that drives a terminal."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from support.estates import ABOUT, ESX1, ESX2, ESX3, estate, guest, host, made, vgpu_device, vm, wants
from support.missions import DESIRED, PROFILE, finished_farm, plain_farm

from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import FieldChange, Target
from vsphere_ai.model.text import escaped, safe, shown
from vsphere_ai.planning.planner import CheckAnswer
from vsphere_ai.report.plans.plan_text import plan_text
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.mig import Mig
from vsphere_ai.resources.pvrdma_host import PvrdmaHost
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

GOLDEN = Path(__file__).parent / "golden"
DIGEST = "0123456789abcdef"
DIRECT = HostGraphics(default_type="shared_direct")


def text(plan, width=100):
    return plan_text(plan, DIGEST, width)


def lines(plan, width=100):
    return text(plan, width).splitlines()


def refused():
    layout = Mig(layout="-cgi 19,14,9,5,5,2")
    return made(plain_farm(), {ESX1: wants(layout), ESX2: wants(layout, PvrdmaHost(vmknic="vmk9"))})


PLANS = {
    "mission": lambda: made(plain_farm(), DESIRED),
    "nothing": lambda: made(finished_farm(), DESIRED),
    "refused": refused,
}


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("name", PLANS)
def test_golden(name, width):
    """Write the files anew with UPDATE_GOLDEN=1, and read the difference before committing it."""
    file = GOLDEN / f"{name}-{width}.txt"
    found = text(PLANS[name](), width) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("name", PLANS)
def test_no_line_is_wider_than_the_terminal(name, width):
    *most, summary = lines(PLANS[name](), width)
    assert [line for line in most if len(line) > width] == []
    assert name == "nothing" or "to add" in summary  # one line whatever the width, for whoever greps for it


# -- impact


def impact(plan):
    found = text(plan, 200)
    return found[found.index("IMPACT") : found.index("\n\n", found.index("IMPACT"))]


def test_impact_comes_first_and_names_everybody_who_is_disrupted():
    plan = made(plain_farm(), {ESX1: DESIRED[ESX1], ESX2: DESIRED[ESX2], vm(1): DESIRED[vm(1)]})
    words = impact(plan)
    assert "2 hosts reboot, 1 at a time per cluster: esx01, esx02" in words
    assert "3 VMs power-cycled: train-[01:03]" in words
    assert "not in the playbook: train-02, train-03" in words
    assert lines(plan).index("HOSTS") > lines(plan).index(next(x for x in lines(plan) if x.startswith("IMPACT")))


def test_impact_of_one_host():
    words = impact(made(estate(host(ESX1)), {ESX1: wants(DIRECT)}))
    assert "1 host reboots: esx01" in words
    assert "at a time" not in words


def test_a_window_without_a_reboot_is_told():
    newer = ({"name": "NVD-AIE_ESXi_7.0.2_Driver", "version": "535.183.01-1OEM", "vendor": "NVIDIA"},)
    seen = estate(host(ESX1, device=0x2331, software=newer))
    assert "1 host in maintenance mode without a reboot: esx01" in impact(
        made(seen, {ESX1: wants(Mig(mode="enabled"))})
    )


def test_no_disruption_is_told():
    plan = made(estate(host(ESX1)), {ESX1: wants(PvrdmaHost(firewall=True))})
    assert impact(plan).endswith("no host reboots, no VM is switched off")


# -- targets


def test_targets_with_the_same_changes_are_one_block():
    found = lines(made(plain_farm(), DESIRED))
    assert "  ~ esx01, esx02" in found
    assert "  ~ train-[01:04]" in found


def test_targets_with_other_changes_have_their_own_block_and_unchanged_ones_a_line():
    seen = estate(host(ESX1), host(ESX2, active="sharedDirect"), host(ESX3, configured="sharedDirect"))
    found = lines(made(seen, {h: wants(DIRECT) for h in (ESX1, ESX2, ESX3)}))
    assert "  ~ esx01" in found
    assert "  ~ esx03" in found
    assert "  = esx02  in the desired state" in found


def signs(*profiles, wanted):
    devices = tuple(vgpu_device(13000 + i, p) for i, p in enumerate(profiles))
    ready = {"config__memoryReservationLockedToMax": True, "config__hardware__device": devices}
    seen = estate(host(ESX1, active="sharedDirect", config__sharedPassthruGpuTypes=("grid_a100-40c", "grid_a100-20c")),
                  guest(vm(1), ESX1, **ready), about=replace(ABOUT, api="8.0.1.0"))  # fmt: skip
    found = lines(made(seen, {vm(1): wants(Vgpu(profiles=tuple(wanted)))}), 200)
    return next(line.split() for line in found if "profiles" in line)


def test_signs_tell_what_appears_goes_and_changes():
    assert signs(wanted=["grid_a100-40c"])[0] == "+"
    assert signs("grid_a100-40c", wanted=[])[0] == "-"
    assert signs("grid_a100-40c", wanted=["grid_a100-20c"]) == [
        "~", "vgpu", "profiles", "grid_a100-40c", "→", "grid_a100-20c"]  # fmt: skip
    assert "×2" in signs(wanted=["grid_a100-20c"] * 2)


def test_what_a_reboot_destroys_is_shown_as_made_again():
    from support.estates import ON, PCI, smi

    seen = estate(host(ESX1, probes=smi(dict.fromkeys(PCI, ON), [(0, "7g.40gb", 0, 0, "0:8")])))
    plan = made(seen, {ESX1: wants(DIRECT, Mig(gpus={PCI[0]: {"mode": "enabled", "layout": ("7g.40gb",)}}))})
    assert any("lost on reboot, recreated after it" in line for line in lines(plan))
    assert "1 to recreate" in lines(plan)[-1]


def test_problems_come_with_rule_and_help_and_there_is_no_order():
    found = text(refused(), 200)
    assert "[mig.layout]" in found
    assert "14 of 7 compute slices" in found
    assert "closest legal layouts" in found
    assert "[pvrdma.vmknic-missing]" in found
    assert "ORDER" not in found
    assert found.splitlines()[-1].endswith("this plan is refused, nothing can be applied")


def test_vcenters_own_answers_are_shown():
    plan = made(plain_farm(), DESIRED)
    answers = (
        CheckAnswer(vm(1), "CheckVmConfig", ("no such profile",), ("old hardware",)),
        CheckAnswer(vm(2), "CheckVmConfig", note="could not be asked: timeout"),
        CheckAnswer(vm(3), "CheckPowerOn"),
    )
    found = text(replace(plan, answers=answers), 200)
    assert "train-01  CheckVmConfig: refuses: no such profile; warns: old hardware" in found
    assert "train-02  CheckVmConfig: could not be asked: timeout" in found
    assert "train-03  CheckPowerOn: passed" in found


def test_the_summary_counts():
    assert lines(made(plain_farm(), DESIRED))[-1].endswith("· 46 steps")
    one = made(estate(host(ESX1)), {ESX1: wants(PvrdmaHost(firewall=True))})
    assert lines(one)[-1] == "0 to add, 1 to change, 0 to remove, 0 unchanged · 2 steps"


@pytest.mark.parametrize(
    ("there", "wanted", "sign", "removed"),
    [
        (("10c", "10c", "10c"), ("10c",), "-", 2),
        (("10c", "10c"), (), "-", 2),
        (("10c",), ("20c",), "~", 0),
        (("10c", "10c"), ("20c",), "~", 1),
        ((), ("10c",), "+", 0),
    ],
)
def test_what_goes_is_counted_by_list_entry_and_what_is_replaced_is_a_change_alone(there, wanted, sign, removed):
    devices = tuple(vgpu_device(4000 + n, f"grid_a100-{p}") for n, p in enumerate(there))
    machine = guest(vm(1), ESX1, config__hardware__device=devices, runtime__powerState="poweredOff")
    state = Vgpu(profiles=tuple(f"grid_a100-{p}" for p in wanted))
    on = host(ESX1, active="sharedDirect", config__sharedPassthruGpuTypes=("grid_a100-10c", "grid_a100-20c"))
    plan = made(estate(on, machine), {vm(1): wants(state)})
    assert plan.problems == ()
    (field,) = [f for i in plan.items for f in i.fields if f.name == "profiles"]
    assert field.sign == sign
    assert f", {removed} to remove, " in lines(plan)[-1]


@pytest.mark.parametrize(
    ("before", "after", "sign", "removed"),
    [
        (("a", "a"), ("a",), "-", 1),
        (("a", "b"), ("b", "a"), "~", 0),
        (("a", "b"), ("c",), "~", 1),
        (("a",), ("a", "b"), "~", 0),
        (("a", "b", "c"), (), "-", 3),
        ({"x": 1, "y": 2}, {"x": 1}, "-", 1),
        ({"x": 1}, {"x": 2}, "~", 0),
        ("vmk2", None, "-", 1),
        (5, 6, "~", 0),
        (None, ("a",), "+", 0),
    ],
)
def test_a_list_that_loses_entries_is_a_removal(before, after, sign, removed):
    change = FieldChange("x", before, after)
    assert (change.sign, change.removed) == (sign, removed)


# -- hostile names

HOSTILE = {
    "ansi": "\x1b[2J\x1b[31mred",
    "c1": "\x9b31mred",
    "bidi": "esx\u202e10",
    "isolate": "a\u2066b",
    "newline": "a\nb\rc",
    "separator": "a\u2028b",
    "invisible": "a\u200bb",
    "tag": "a\U000e0041b",
    "null": "a\x00b",
}


def visible(text_):
    return [c for c in text_ if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")] == []


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_never_reach_the_terminal(name):
    evil_host, evil_vm = Target("host", name, ESX1.ref), Target("vm", name, vm(1).ref)
    about = replace(ABOUT, name=name, version=name, api="7.0.2.0")
    seen = estate(host(evil_host), guest(evil_vm, evil_host, config__firmware="bios"), about=about)
    wanted = {evil_host: wants(DIRECT, Mig(mode="enabled")), evil_vm: wants(Vgpu(profiles=(PROFILE,)))}
    plan = made(seen, wanted)
    answers = (CheckAnswer(evil_vm, "CheckVmConfig", (name,), (name,)), CheckAnswer(evil_vm, name, note=name))
    bad = made(seen, {**wanted, evil_vm: wants(Vgpu(profiles=(name, PROFILE)), VmHardware(version=4))})
    for each in (replace(plan, answers=answers, playbook=name), bad):
        assert visible(text(each, 80))
    assert "\N{REPLACEMENT CHARACTER}" in text(plan)
    assert len(text(plan).splitlines()) == len(text(plan).split("\n"))


def test_safe_leaves_letters_of_all_scripts_and_escaped_leaves_values():
    assert safe("Größe 训练 αβ — ✓") == "Größe 训练 αβ — ✓"
    assert escaped("a\u202eb\x9b") == "a\\u202eb\\u009b"
    assert escaped("a\U000e0041", yaml=True) == "a\\U000e0041"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "none"), ((), "none"), ("", "none"), (True, "yes"), (False, "no"), (0, "0"),
        (("a", "b", "a"), "a ×2, b"), ("a\x1b", "a\N{REPLACEMENT CHARACTER}"),
    ],
)  # fmt: skip
def test_values_in_words(value, words):
    assert shown(value) == words


def test_names_of_unread_objects_are_their_references():
    assert Facts("HostSystem:host-9").name == "HostSystem:host-9"
