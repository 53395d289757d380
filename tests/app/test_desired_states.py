"""What a playbook sets is derived once for the estates that list the same objects, and anew for any other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vsphere_ai.app.estate.desired_states import LISTED, listing
from vsphere_ai.app.estate.read_estate import read_everything
from vsphere_ai.app.estate.scope import EstateRequest, EstateScope
from vsphere_ai.app.estate.session import open_session, session_of
from vsphere_ai.app.gpus.gpu_capacity import CapacityRequest, capacity
from vsphere_ai.app.runs.apply_plan import ApplyRequest, apply
from vsphere_ai.app.runs.plan_playbook import PlanRequest, plan
from vsphere_ai.app.runs.verify_playbook import VerifyRequest, verify
from vsphere_ai.language.inventories.inventory import CONNECTION, load_inventory
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.model.facts import Estate
from vsphere_ai.resources import kinds

pytestmark = pytest.mark.lab


def changed(estate, ref, **properties):
    facts = estate[ref]
    return Estate(estate.about, {**estate.objects, ref: replace(facts, properties={**facts.properties, **properties})})


@pytest.fixture
def playbook_file(tmp_path):
    path = tmp_path / "play.yml"
    path.write_text("- vms: train-*\n  tuning: {extra_config: {a.key: '1'}}\n", "utf-8")
    return path


def _play(lab, path, limit=""):
    return path, EstateRequest(inventory=lab.directory / CONNECTION, limit=limit)


COMMANDS = {
    "verify": lambda lab, path: verify(VerifyRequest(*_play(lab, path, "train-01"))),
    "plan": lambda lab, path: plan(PlanRequest(*_play(lab, path, "train-01"))),
    "apply": lambda lab, path: apply(ApplyRequest(*_play(lab, path, "train-01"), yes=True)),
    "capacity": lambda lab, path: capacity(CapacityRequest(playbook=path, estate=_play(lab, path)[1])),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_derives_it_once(command, lab, playbook_file, monkeypatch):
    asked, desired = [], EstateScope.desired

    def counted(self, playbook, estate):
        asked.append(estate)
        return desired(self, playbook, estate)

    monkeypatch.setattr(EstateScope, "desired", counted)
    COMMANDS[command](lab, playbook_file)
    assert len(asked) == 1


def test_other_facts_of_the_same_objects_leave_it_and_another_list_does_not(lab, playbook_file):
    playbook = load_playbook(playbook_file, kinds())
    with session_of(load_inventory(lab.directory / CONNECTION), playbook, EstateRequest()) as session:
        estate = read_everything(session)
        known = session.desired(playbook, estate)
        vm = next(target for target in known if target.name == "train-01")
        assert session.desired(playbook, changed(estate, vm.ref, **{"runtime.powerState": "suspended"})) is known
        agent = {"config.extraConfig": ({"key": "HDCS.agent", "value": "true"},)}
        for other in ({"name": "infra-77"}, {"config.template": True}, agent):
            without = session.desired(playbook, changed(estate, vm.ref, **other))
            assert set(known) - set(without) == {vm}, other
        assert set(session.desired(playbook, estate)) == set(known)


def test_the_list_says_of_each_object_what_chooses_it(lab):
    with open_session(EstateRequest(inventory=lab.directory / CONNECTION)) as session:
        estate = read_everything(session)
    before = listing(estate)
    for facts in (*estate.of_type("HostSystem"), *estate.of_type("VirtualMachine")):
        for path in LISTED:
            assert listing(changed(estate, facts.ref, **{path: "other"})) != before, (facts.name, path)


class Asked(dict):
    """Properties that note which were asked for."""

    def __init__(self, values, paths):
        super().__init__(values)
        self.paths = paths

    def get(self, path, default=None):
        self.paths.add(path)
        return super().get(path, default)


def test_a_play_is_about_what_the_list_has(lab, tmp_path):
    path = tmp_path / "play.yml"
    plays = "- hosts: esx*\n  ntp: {servers: [10.0.0.1]}\n- vms: train-*\n  tuning: {extra_config: {a.key: '1'}}\n"
    path.write_text(plays, "utf-8")
    playbook, paths = load_playbook(path, kinds()), set()
    with session_of(load_inventory(lab.directory / CONNECTION), playbook, EstateRequest(limit="esx01*")) as session:
        read = read_everything(session)
    estate = Estate(
        read.about, {ref: replace(f, properties=Asked(f.properties, paths)) for ref, f in read.objects.items()}
    )
    assert estate.vms
    assert estate.managed is not None
    paths.clear()
    assert session.desired(playbook, estate)
    assert paths <= set(LISTED), paths
