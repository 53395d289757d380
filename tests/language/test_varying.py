"""Values of groups and hosts of an inventory: a play is for parts of hosts with equal values, of no others."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from language.variables_support import Files

from vsphere_ai.errors import Conflict, InputError
from vsphere_ai.language.playbooks.desired import desired, pinned, split
from vsphere_ai.language.playbooks.play import from_document, to_document

PLAY = """\
- vars: {mode: enabled, layout: 3g.20gb}
- hosts: gpu-hosts
  mig: {mode: "${mode}", layout: "${layout}"}
"""
GROUP = "gpu-hosts: {cluster: gpu-a}"


@pytest.fixture
def files(tmp_path, kinds):
    return Files(tmp_path, kinds)


@pytest.fixture
def want(files, estate):
    """Return the MIG layout that is wanted of each host."""

    def want(inventory, text=PLAY, **more):
        found = desired(files.read(text, inventory=inventory, **more), files.inventory(inventory), estate)
        return {t.name.partition(".")[0]: plan.states[0].layout for t, plan in found.items() if t.kind == "host"}

    return want


def test_a_host_wins_over_its_group_and_a_group_over_all(want):
    inventory = (
        "vars: {layout: 7g.40gb}\n"
        f"hosts: {{{GROUP}, rack: {{names: ['esx0[1:2].lab.local'], vars: {{layout: 1g.5gb}}}}}}\n"
        "host_vars: {esx02.lab.local: {layout: 2g.10gb}}\n"
    )
    assert want(inventory) == {"esx01": "1g.5gb", "esx02": "2g.10gb", "esx03": "7g.40gb"}
    assert set(want(inventory, pairs=["layout=4g.20gb"]).values()) == {"4g.20gb"}
    assert set(want(inventory, values=["layout: 4g.20gb"]).values()) == {"4g.20gb"}
    assert set(want(inventory, PLAY + "  vars: {layout: 4g.20gb}\n").values()) == {"4g.20gb"}


def test_the_plan_says_which_hosts_have_which_value(files, estate):
    hosts = "{esx02.lab.local: {layout: 2g.10gb}, esx-b.lab.local: {layout: 1g.5gb}}"
    inventory = f"hosts: {{{GROUP}}}\nhost_vars: {hosts}\n"
    playbook = files.read(PLAY, inventory=inventory)
    parts = split(playbook, files.inventory(inventory), estate, vcenter="lab")
    assert [[t.name for t in play.part] for play in parts.plays] == [
        ["esx01.lab.local", "esx03.lab.local"],
        ["esx02.lab.local"],
    ]
    shown = [(v.value, v.level, v.targets) for v in parts.variables if v.name == "layout"]
    assert shown == [("3g.20gb", "default", ()), ("2g.10gb", "host esx02.lab.local", ("esx02.lab.local",))]


def test_two_groups_that_disagree_are_refused_unless_the_host_decides(want):
    groups = (
        f"hosts: {{{GROUP}, a: {{names: ['esx0*'], vars: {{layout: 1g.5gb}}}}, "
        "b: {names: [esx01.lab.local], vars: {layout: 2g.10gb}}}\n"
    )
    with pytest.raises(InputError) as caught:
        want(groups)
    (found,) = caught.value.diagnostics
    assert "esx01.lab.local is also in group a, which gives 'layout' another value at" in found.message
    assert found.mark.file.endswith("inventory.yml")
    assert want(groups + "host_vars: {esx01.lab.local: {layout: 3g.20gb}}\n")["esx01"] == "3g.20gb"
    same = groups.replace("2g.10gb", "1g.5gb")
    assert set(want(same).values()) == {"1g.5gb"}


def test_a_host_without_a_value_is_named(want):
    text = PLAY.replace("layout: 3g.20gb}", "layout: {type: text}}")
    with pytest.raises(InputError) as caught:
        want(f"hosts: {{{GROUP}}}\nhost_vars: {{esx01.lab.local: {{layout: 1g.5gb}}}}\n", text)
    (found,) = caught.value.diagnostics
    assert found.message == "the variable 'layout' has no value for esx02.lab.local, esx03.lab.local"
    assert (found.mark.line, found.mark.column) == (2, 10)
    assert "hosts: gpu-hosts" in found.excerpt


@pytest.mark.parametrize(
    "key", ["hosts: {GROUP, rack: {names: [esx01.lab.local], vars: VALUE}}", "host_vars: {esx01.lab.local: VALUE}"]
)
def test_a_mistake_that_only_one_group_or_host_makes_is_found_without_an_estate(files, key):
    inventory = key.replace("GROUP", GROUP).replace("VALUE", "{mode: big}")
    found = files.faults(PLAY, inventory=inventory)
    assert [each[0] for each in found] == ["play.yml:3:15"]
    assert "'big' is not allowed here" in found[0][1]
    assert "inventory.yml:2:" in found[0][1]


def test_which_hosts_a_play_is_for_is_not_a_matter_of_its_hosts(files):
    text = "- vars: {who: {type: text}}\n- hosts: ${who}\n  mig: {mode: enabled}\n"
    (found,) = files.faults(text, inventory=f"hosts: {{{GROUP}}}\nhost_vars: {{esx01.lab.local: {{who: all}}}}\n")
    assert found[0] == "play.yml:2:10"
    assert "the same for all hosts" in found[2]


def test_plays_of_vms_take_no_values_of_hosts(files, estate):
    text = "- vars: {version: 19}\n- vms: train-01\n  hardware: {version: '${version}'}\n"
    inventory = f"hosts: {{{GROUP.replace('}', ', vars: {version: 20}}')}}}\nvms: {{train: {{names: [train-01]}}}}\n"
    playbook = files.read(text, inventory=inventory)
    assert not playbook.varying
    assert playbook.plays[0].states[0].state.version == 19


def test_parts_are_saved_and_a_new_host_makes_the_plan_stale(files, estate, kinds):
    inventory = f"hosts: {{{GROUP}}}\nhost_vars: {{esx02.lab.local: {{layout: 2g.10gb}}}}\n"
    known = files.inventory(inventory)
    parts = split(files.read(PLAY, inventory=inventory), known, estate, vcenter="lab")
    saved = from_document(json.loads(json.dumps(to_document(parts))), kinds)
    assert saved == parts
    assert desired(saved, known, estate) == desired(files.read(PLAY, inventory=inventory), known, estate)
    wider = files.inventory(inventory.replace("cluster: gpu-a", "names: [all]"))
    with pytest.raises(Conflict) as caught:
        desired(saved, wider, estate)
    assert caught.value.rule == "plan.stale"
    assert "esx-b.lab.local, esx-odd.lab.local" in caught.value.message


def test_a_run_keeps_what_each_host_was_to_be(files, estate, kinds):
    inventory = f"hosts: {{{GROUP}}}\nhost_vars: {{esx02.lab.local: {{layout: 2g.10gb}}}}\n"
    known = files.inventory(inventory)
    playbook = files.read(PLAY, inventory=inventory)
    wanted = desired(playbook, known, estate)
    kept = pinned(playbook, known, estate, wanted, vcenter="lab")
    again = from_document(json.loads(json.dumps(to_document(kept))), kinds)
    assert desired(again, files.inventory(""), estate) == wanted


LAYOUTS = st.sampled_from(["1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"])
HOSTS = ("esx01.lab.local", "esx02.lab.local", "esx03.lab.local")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    default=LAYOUTS,
    every=st.none() | LAYOUTS,
    group=st.none() | st.tuples(st.sets(st.sampled_from(HOSTS), min_size=1), LAYOUTS),
    hosts=st.dictionaries(st.sampled_from(HOSTS), LAYOUTS),
    high=st.none() | LAYOUTS,
)
def test_each_host_has_its_own_value_and_no_other(want, default, every, group, hosts, high):
    inventory = {"hosts": {"gpu-hosts": {"cluster": "gpu-a"}}}
    if every:
        inventory["vars"] = {"layout": every}
    if group:
        inventory["hosts"]["rack"] = {"names": sorted(group[0]), "vars": {"layout": group[1]}}
    inventory["host_vars"] = {host: {"layout": layout} for host, layout in hosts.items()}
    text = "\n".join(f"{key}: {json.dumps(value)}" for key, value in inventory.items()) + "\n"
    found = want(text, PLAY.replace("3g.20gb", default), pairs=[f"layout={high}"] if high else ())
    for host in HOSTS:
        of_group = group[1] if group and host in group[0] else None
        wanted = high or hosts.get(host) or of_group or every or default
        assert found[host.partition(".")[0]] == wanted
