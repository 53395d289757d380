"""Plans, findings and failures of many targets: two screens, no danger folded away, nothing lost, linear work."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from support.estates import estate, guest, host, made, wants
from support.growing import Calls, exponent
from support.large_plans import esx, names_in, plan_of, train
from support.missions import DESIRED, plain_farm

from vsphere_ai.errors import StepFailed
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Destroy
from vsphere_ai.planning.outcome import Outcome, RunOutcome
from vsphere_ai.report.findings_text import counts_text, findings_text
from vsphere_ai.report.plans.plan_text import Beside, plan_text
from vsphere_ai.report.plans.run_text import run_text
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.vm_hardware import VmHardware

DIGEST = "0123456789abcdef"
TWO_SCREENS = 80


@pytest.fixture(scope="module")
def rack():
    return plan_of(32, 256)


@pytest.fixture(scope="module")
def large():
    return plan_of(125, 875)


def section(text, title):
    return text[text.index(f"\n{title}\n") :].partition("\n\n")[0]


@pytest.mark.parametrize("farm", ["rack", "large"])
@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_plan_for_many_is_two_screens_long(farm, width, request):
    assert len(plan_text(request.getfixturevalue(farm), DIGEST, width).splitlines()) <= TWO_SCREENS


@pytest.mark.parametrize("farm", ["rack", "large"])
def test_who_is_disrupted_is_named_right_above_the_last_line(farm, request):
    plan = request.getfixturevalue(farm)
    text = plan_text(plan, DIGEST, 80)
    said = Counter(names_in(section(text, "DISRUPTED")))
    assert {t.name for t in (*plan.impact.reboots, *plan.impact.power_cycles)} <= said.keys()
    assert text.rindex("DISRUPTED") > text.rindex("ORDER")
    assert text[text.index("\nDISRUPTED") :].count("\n\n") == 1


@pytest.mark.parametrize("full", [False, True])
def test_no_width_loses_a_word(rack, full):
    wide = plan_text(rack, DIGEST, 10_000, Beside(full=full)).split()
    for width in (40, 60, 80, 200):
        assert plan_text(rack, DIGEST, width, Beside(full=full)).split() == wide


@pytest.mark.parametrize("plan", [lambda: plan_of(3, 8, versions=(13, 14, 15)), lambda: made(plain_farm(), DESIRED)])
def test_in_full_every_step_has_its_number_once(plan):
    made_plan = plan()
    order = section(plan_text(made_plan, DIGEST, 10_000, Beside(full=True)), "ORDER")
    numbers = []
    for first, last in re.findall(r"(?m)^ +(\d+)(?:-(\d+))?  ", order):
        numbers += range(int(first), int(last or first) + 1)
    assert sorted(numbers) == [int(p.id[1:]) for p in made_plan.steps]


def test_a_folded_order_shows_the_steps_of_one_host_under_their_own_numbers(rack):
    order = section(plan_text(rack, DIGEST, 200), "ORDER")
    assert "  esx[001:032].lab.local: 32 hosts alike; steps of esx001.lab.local:" in order
    ids = {(p.step.target.name, p.step.summary): int(p.id[1:]) for p in rack.steps}
    rows = re.findall(r"(?m)^ +(\d+)  (esx\S+) +(.*)$", order)
    assert rows
    assert [int(number) for number, *_ in rows] == [ids[name, summary] for _, name, summary in rows]


def test_hosts_with_other_steps_are_not_folded_with_them():
    targets = [esx(n) for n in (1, 2, 3)]
    wanted = {h: wants(HostGraphics(default_type="shared_direct")) for h in targets[:2]}
    wanted[targets[2]] = wants(HostGraphics(default_type="shared_direct", assignment_policy="consolidation"))
    order = section(plan_text(made(estate(*map(host, targets)), wanted), DIGEST, 200), "ORDER")
    assert "esx001.lab.local, esx002.lab.local: 2 hosts alike" in order
    assert re.search(r"esx003\.lab\.local +set graphics to .*consolidation", order)


def test_targets_that_differ_in_values_only_are_shown_by_one_of_them():
    many = plan_of(1, 16, versions=range(10, 18))
    text = plan_text(many, DIGEST, 200)
    assert "  ~ train-[0001:0016]: 16 VMs alike; for example train-0001:" in text
    assert text.count("hardware    version") == 1
    few = plan_of(1, 16, versions=range(10, 14))
    assert plan_text(few, DIGEST, 200).count("hardware    version") == 4
    assert plan_text(many, DIGEST, 200, Beside(full=True)).count("hardware    version") == 8


@pytest.mark.parametrize("plan", [lambda: plan_of(3, 8), lambda: made(plain_farm(), DESIRED)])
def test_the_last_line_counts_what_the_marks_show(plan):
    text = plan_text(plan(), DIGEST, 10_000, Beside(full=True))
    marks: Counter[str] = Counter()
    for title in ("HOSTS", "VMS"):
        targets = 0
        for line in section(text, title).splitlines()[2:]:
            head = re.match(r"  [+~=-] (\S.*)$", line)
            if head:
                targets = len(names_in(head[1]))
            elif line[6] in "+~":
                marks[line[6]] += targets
    assert text.splitlines()[-1].startswith(f"{marks['+']} to add, {marks['~']} to change, ")


def test_the_work_grows_with_the_number_of_targets():
    sizes, counts = (100, 200, 400), []
    for size in sizes:
        plan = plan_of(size // 8, size)
        with Calls() as calls:
            plan_text(plan, DIGEST)
        counts.append(calls.count)
    assert exponent(sizes, counts) < 1.25


def test_names_that_are_patterns_stay_whole():
    odd = ["a,b", "[01:02]", "x\ny", "train-*"]
    targets = [Target("vm", name, f"VirtualMachine:vm-{n}") for n, name in enumerate(odd)]
    seen = estate(host(esx(1)), *(guest(t, esx(1), config__version="vmx-17") for t in targets))
    text = plan_text(made(seen, {t: wants(VmHardware(version=19)) for t in targets}), DIGEST, 200)
    assert '"[01:02]", "a,b", "train-*", "x\\ny"' in section(text, "DISRUPTED")


def test_two_vms_of_one_name_are_told_apart():
    twins = [Target("vm", "twin", f"VirtualMachine:vm-{n}") for n in (1, 2)]
    seen = estate(host(esx(1)), *(guest(t, esx(1), config__version="vmx-17") for t in twins))
    text = plan_text(made(seen, {t: wants(VmHardware(version=19)) for t in twins}), DIGEST, 200)
    assert '"twin (VirtualMachine:vm-1)", "twin (VirtualMachine:vm-2)"' in section(text, "DISRUPTED")


# -- failures and findings


def failed(plan, message):
    outcomes = [
        Outcome(p, "failed", 1.0, StepFailed(message(p.step.target), "look at it"), "")
        if p.step.summary.startswith("upgrade")
        else Outcome(p, "done", 1.0, None, "")
        for p in plan.steps
    ]
    return run_text(RunOutcome(plan, tuple(outcomes), 60.0))


def test_failures_for_one_reason_are_one():
    plan = plan_of(2, 40)
    text = failed(plan, lambda target: "the disk is full")
    assert text.count("FAILED") == 1
    assert "FAILED  train-[0001:0040]: upgrade to hardware version 19\n        the disk is full" in text
    text = failed(plan, lambda target: f"{target.name}: no space on datastore-{target.ref[-1]}")
    assert re.search(r"FAILED  train-\[0001:0040\]: 40 VMs alike; for example train-\d+: upgrade", text)
    text = failed(plan, lambda target: ["full", "gone", "busy"][int(target.ref[-1]) % 3])
    assert text.count("FAILED") == 3
    assert {t.name for t in plan.impact.power_cycles} <= set(names_in(text))


def finding(target, verdict, value="x"):
    return Finding(target, "vm.tools", verdict, "VMware Tools", "do", (("guest.tools", value),), "https://vmware")


def test_equal_findings_are_one_and_what_passed_is_counted():
    found = [finding(train(n), "fail", f"old-{n}") for n in range(1, 41)] + [finding(esx(1), "pass")]
    text = findings_text(found, "vc", passes=False)
    assert "train-[0001:0040]: 40 VMs alike; for example train-0001\n" in text
    assert text.count("evidence") == 1
    assert "esx001" not in text
    assert text.endswith("40 fail, 1 pass")
    assert counts_text(found) == "40 fail, 1 pass"
    assert findings_text(found, "vc", passes=False, full=True).count("evidence") == 40


def test_findings_fit_a_narrow_terminal_whole():
    found = [finding(train(n), "warn", "a b " * 40) for n in range(3)]
    wide = findings_text(found, "vc", width=10_000).split()
    for width in (40, 80):
        text = findings_text(found, "vc", width=width)
        assert text.split() == wide
        assert max(map(len, text.splitlines())) <= width


# -- destruction


def gone(target, disk):
    return Destroy(target=target, summary="destroy", set="t", index=1, disks=disk(target.name))


def destruction(count, disk):
    """A plan that destroys so many VMs with disks of these names."""
    base = plan_of(1, count)
    steps = tuple(
        replace(p, step=gone(p.step.target, disk), after=(), behind=())
        for p in base.steps
        if p.step.summary.startswith("upgrade")
    )
    return replace(base, steps=steps, impact=replace(base.impact, destroyed=tuple(p.step.target for p in steps)))


def test_vms_that_go_are_all_named_and_their_disks_once():
    plan = destruction(40, lambda name: (f"[ds] {name}/{name}.vmdk", f"[ds] {name}/{name}_1.vmdk"))
    text = section(plan_text(plan, DIGEST, 200), "DESTROYED, WITH ALL DATA")
    assert text.splitlines()[2:] == [
        "  - train-[0001:0040]: 40 VMs, each with",
        "      [ds] NAME/NAME.vmdk",
        "      [ds] NAME/NAME_1.vmdk",
    ]
    full = section(plan_text(plan, DIGEST, 200, Beside(full=True)), "DESTROYED, WITH ALL DATA")
    assert full.count(".vmdk") == 80


def test_disks_of_another_name_are_each_named():
    plan = destruction(40, lambda name: (f"[ds] kept/{int(name[-4:]) // 7}.vmdk",))
    text = section(plan_text(plan, DIGEST, 200), "DESTROYED, WITH ALL DATA")
    assert {t.name for t in plan.impact.destroyed} <= set(names_in(text))
    assert set(re.findall(r"\[ds\] kept/\d+", text)) == {f"[ds] kept/{n // 7}" for n in range(1, 41)}
