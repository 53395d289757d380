"""What the hosts and VMs of a datacenter share: made first, looked up by others before it exists."""

from __future__ import annotations

from typing import ClassVar

import pytest
from support.acting import Server, executor
from support.estates import ESX1, estate, guest, host, vm, wants

from vsphere_ai.errors import Conflict
from vsphere_ai.execution.actions import resolve
from vsphere_ai.execution.actions.resolve import looked_up
from vsphere_ai.model.deferred import Deferred, inside, is_deferred, replaced
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Invoke, Reconfigure
from vsphere_ai.planning.planner import make_plan, sort_kinds
from vsphere_ai.resources import kinds
from vsphere_ai.resources.base import Projection, Resource, Traits

PG = "DistributedVirtualPortgroup"
DC = Target("datacenter", "DC0", "Datacenter:datacenter-1")


class Groups(Resource):
    """Port groups of a datacenter."""

    kind: ClassVar[str] = "groups"
    target = "datacenter"
    names: tuple[str, ...] | None = None

    @classmethod
    def observe(cls, facts, estate):
        inside = (f for f in estate.of_type(PG) if estate.datacenter_of(f.ref).ref == facts.ref)
        return cls.model_construct(names=tuple(f.name for f in inside))

    def problems(self, target, view):
        return iter(())

    def project(self, target, view, after):
        return Projection(self, tuple(self._made(target, view)) if after == "plan" else ())

    def _made(self, target, view):
        for name in self.names:
            if all(f.name != name for f in view.estate.of_type(PG)):
                ref = Deferred(target.ref, PG, name)
                key = Deferred(target.ref, PG, name, "key")
                yield Facts(str(ref), {"name": name, "key": str(key), "parent": target.ref})

    def steps(self, change, view):
        for name in self.names:
            yield Invoke(
                target=change.target, summary=f"make {name}", method="AddDVPortgroup_Task", args={"name": name}
            )


class Wire(Resource):
    """A VM's adapter on a port group."""

    kind: ClassVar[str] = "wire"
    target = "vm"
    traits = Traits(after=("groups",))
    group: str | None = None

    @classmethod
    def observe(cls, facts, estate):
        return cls.model_construct(group=facts.get("wired"))

    def _found(self, view):
        return next((f for f in view.estate.objects.values() if f.name == self.group), None)

    def problems(self, target, view):
        assert self._found(view) is not None, "what is planned is seen"
        return iter(())

    def steps(self, change, view):
        key = self._found(view).get("key")
        device = {"device": {"key": -1, "backing": {"port": key}}, "operation": "add"}
        yield Reconfigure(target=change.target, summary="wire", device_changes=(device,))


KINDS = {"groups": Groups, "wire": Wire}


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    """Compatibility rules ask the kinds of the folder; these two are known to them as well."""
    monkeypatch.setattr("vsphere_ai.compat.base.kinds", lambda: {**kinds(), **KINDS})


def farm(*more):
    plain = estate(host(ESX1), guest(vm(1), ESX1))
    at = dict(plain.objects)
    at[DC.ref] = Facts(DC.ref, {"name": "DC0"})
    for ref in (ESX1.ref, vm(1).ref):
        at[ref] = Facts(ref, {**at[ref].properties, "parent": DC.ref})
    return type(plain)(plain.about, {**at, **{f.ref: f for f in more}})


def test_the_shared_comes_first_and_is_seen_by_those_who_need_it():
    plan = make_plan({DC: wants(Groups(names=("pg",))), vm(1): wants(Wire(group="pg"))}, farm(), KINDS)
    assert plan.problems == ()
    order = [p.step.target.kind for p in plan.steps]
    assert order == ["datacenter", "datacenter", "vm", "vm"]
    made, seen, wired, _ = plan.steps
    assert (made.id in seen.after, seen.id in wired.after) == (True, True)
    key = wired.step.device_changes[0]["device"]["backing"]["port"]
    assert key == Deferred(DC.ref, PG, "pg", "key")


def test_what_is_there_has_its_own_key():
    there = Facts(f"{PG}:7", {"name": "pg", "key": "7", "parent": DC.ref})
    plan = make_plan({DC: wants(Groups(names=("pg",))), vm(1): wants(Wire(group="pg"))}, farm(there), KINDS)
    assert [p.step.target.kind for p in plan.steps] == ["vm", "vm"]
    assert plan.steps[0].step.device_changes[0]["device"]["backing"]["port"] == "7"


class Reading(Server):
    """A server with some objects to be looked up."""

    def __init__(self, *objects, readings=({},)):
        super().__init__(*readings)
        self.objects = {f.ref: f for f in objects}

    def read(self, paths):
        return {r: f for r, f in self.objects.items() if r.partition(":")[0] in paths}


OTHER = Facts("Datacenter:datacenter-2", {"name": "DC1"})
HERE = Facts(f"{PG}:7", {"name": "pg", "key": "7", "parent": "Folder:n1"})
THERE = Facts(f"{PG}:8", {"name": "pg", "key": "8", "parent": OTHER.ref})
FOLDER = Facts("Folder:n1", {"name": "network", "parent": DC.ref})


def test_names_are_looked_up_in_their_datacenter_when_sent():
    server = Reading(Facts(DC.ref, {"name": "DC0"}), OTHER, FOLDER, HERE, THERE)
    key, ref = Deferred(DC.ref, PG, "pg", "key"), Deferred(DC.ref, PG, "pg")
    step = Invoke(target=DC, summary="", method="X_Task", on=ref, args={"spec": {"keys": (key, "plain")}, "n": 1})
    executor(server).do(step, lambda _: None)
    ((sent_to, method, args, _),) = server.calls
    assert (sent_to, method, args) == (HERE.ref, "X_Task", {"spec": {"keys": ("7", "plain")}, "n": 1})


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ((), "there is no object of type DistributedVirtualPortgroup called pg"),
        ((HERE, Facts(f"{PG}:9", {"name": "pg", "key": "9", "parent": DC.ref})), "there are 2 objects"),
        ((Facts(f"{PG}:7", {"name": "pg", "parent": DC.ref}),), "pg has no key yet"),
    ],
)
def test_what_cannot_be_looked_up_is_not_sent(objects, words, monkeypatch):
    monkeypatch.setattr(resolve, "PATIENCE", 0.0)
    server = Reading(Facts(DC.ref, {"name": "DC0"}), FOLDER, *objects)
    with pytest.raises(Conflict, match=words):
        looked_up(Deferred(DC.ref, PG, "pg", "key"), server)


def test_plain_values_stay_as_they_are():
    value = {"a": ("x", 1, None, {"b": True})}
    assert not is_deferred(value)
    assert replaced(value, lambda deferred: "never") == value


def test_a_planned_object_is_of_its_type_and_is_sent_as_what_it_has_become():
    ref, made = Deferred(DC.ref, PG, "pg"), Deferred(DC.ref, PG, "pg", "key").as_reference(PG)
    assert (ref.partition(":")[0], made.partition(":")[0]) == (PG, PG)
    planned = farm(Facts(ref, {"name": "pg"}), Facts(made, {"name": "pg2"}))
    assert {f.name for f in planned.of_type(PG)} >= {"pg", "pg2"}
    server = Reading(Facts(DC.ref, {"name": "DC0"}), FOLDER, HERE)
    assert looked_up((ref, made), server) == (HERE.ref, f"{PG}:7")


def test_a_path_can_choose_inside_of_lists(monkeypatch):
    proxies = ({"dvsName": "a b", "uplinkPort": ({"key": "3", "value": "Uplink 1"}, {"key": "4", "value": "x=1"})},)
    host = Facts("HostSystem:host-1", {"name": "esx01", "parent": DC.ref, "config.network.proxySwitch": proxies})
    server = Reading(Facts(DC.ref, {"name": "DC0"}), host)

    def key_of(switch, uplink):
        path = inside("config.network.proxySwitch", ("dvsName", switch), "uplinkPort", ("value", uplink), "key")
        return looked_up({"uplinkPortKey": Deferred(DC.ref, "HostSystem", "esx01", path)}, server)

    assert key_of("a b", "x=1") == {"uplinkPortKey": "4"}
    monkeypatch.setattr(resolve, "PATIENCE", 0.0)
    with pytest.raises(Conflict, match=r"esx01 has no .*uplinkPort > value Uplink 2 > key yet"):
        key_of("a b", "Uplink 2")


def test_what_is_shared_is_planned_first_whatever_the_kinds_say():
    assert sort_kinds({"wire": type("W", (Wire,), {"traits": Traits()}), "zgroups": Groups}) == ("zgroups", "wire")
