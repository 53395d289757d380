"""Changes of objects that count their configurations: sent for the present version, and only for what was planned."""

from __future__ import annotations

import threading

from support.estates import ESX1, ESX2
from support.raising import refused

from vsphere_ai.errors import ConcurrentChange, Conflict
from vsphere_ai.execution.actions.configure import MOST_ATTEMPTS, ConfigureChanges
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.model.deferred import Deferred
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Invoke

SWITCH = "VmwareDistributedVirtualSwitch:dvs-1"
DC = Target("datacenter", "DC0", "Datacenter:dc-1")


def member(host, *nics):
    specs = tuple({"pnicDevice": nic, "uplinkPortKey": str(n)} for n, nic in enumerate(nics))
    return {"config": {"host": host.ref, "backing": {"pnicSpec": specs}}, "status": "up"}


def spec(**fields):
    return {"spec": {"_typeName": "VMwareDVSConfigSpec", "configVersion": "5", **fields}}


def step(target=DC, on=SWITCH, **fields):
    return Invoke(
        target=target, summary="", kinds=("switches",), method="ReconfigureDvs_Task", on=on, args=spec(**fields)
    )


def joining(host, *, deferred=False):
    key = Deferred(DC.ref, "HostSystem", host.name, "x") if deferred else "0"
    backing = {"pnicSpec": ({"pnicDevice": "vmnic4", "uplinkPortKey": key},)}
    return step(host, host=({"operation": "edit", "host": host.ref, "backing": backing},))


class Switch:
    """A switch that refuses every change for another version, as vCenter does, and others who change it."""

    def __init__(self, **properties):
        self.now = {"config.configVersion": "5", "config.maxMtu": 1500, **properties}
        self.sent, self.meddle = [], []

    def facts(self):
        return Facts(SWITCH, dict(self.now))

    def read_objects(self, refs, paths):
        asked = paths[SWITCH.partition(":")[0]]
        return {SWITCH: Facts(SWITCH, {p: v for p, v in self.now.items() if p in asked})}

    def resolve_path(self, ref, path):
        return ref

    def run_task(self, ref, method, args, *, timeout, progress=None):
        if self.meddle:
            self.meddle.pop(0)(self)
        given = args["spec"]["configVersion"]
        if given != self.now["config.configVersion"]:
            raise ConcurrentChange("another user has changed it since planning", "")
        self.sent.append((ref, given, args["spec"]))
        self.count()

    def count(self):
        self.now["config.configVersion"] = str(int(self.now["config.configVersion"]) + 1)


def sending(switch, planned=None):
    """Return what sends; `planned` is how the switch was when the plan was made."""
    return ConfigureChanges(Context(switch, None, lambda t: (), {}, {}, planned={SWITCH: planned or switch.facts()}))


def say(_line):
    pass


def test_it_is_sent_for_the_present_version_whatever_was_planned_with():
    switch = Switch()
    planned = switch.facts()
    switch.now["config.configVersion"] = "9"
    switch.now["config.description"] = "somebody else's words"
    sending(switch, planned).invoke(step(maxMtu=9000), say)
    assert [(v, s["maxMtu"]) for _, v, s in switch.sent] == [("9", 9000)]


def test_somebody_elses_change_of_the_same_setting_is_a_conflict():
    switch = Switch()
    planned = Facts(SWITCH, {"name": "dvs-rdma", **switch.now})
    switch.now.update({"config.maxMtu": 1400, "config.configVersion": "6"})
    with refused(Conflict, "object.changed", "dvs-rdma", "maxMtu", "1400", "1500"):
        sending(switch, planned).invoke(step(maxMtu=9000), say)
    assert switch.sent == []


def test_a_change_at_the_same_moment_is_looked_at_and_the_step_sent_again():
    switch, said = Switch(), []
    switch.meddle = [Switch.count]
    sending(switch).invoke(step(maxMtu=9000), said.append)
    assert [v for _, v, _ in switch.sent] == ["6"]
    assert any("at the same moment" in line for line in said)


def test_a_change_at_the_same_moment_of_the_same_setting_is_a_conflict():
    def set_mtu(switch):
        switch.now["config.maxMtu"] = 1400
        switch.count()

    switch = Switch()
    switch.meddle = [set_mtu]
    with refused(Conflict, "object.changed", "maxMtu", 1400):
        sending(switch).invoke(step(maxMtu=9000), say)
    assert switch.sent == []


def test_somebody_who_never_stops_is_not_waited_for_forever():
    switch = Switch()
    switch.meddle = [Switch.count] * 50
    with refused(Conflict, "object.keeps-changing", MOST_ATTEMPTS):
        sending(switch).invoke(step(maxMtu=9000), say)
    assert len(switch.meddle) == 50 - MOST_ATTEMPTS


def test_other_hosts_may_join_meanwhile_but_not_this_one():
    switch = Switch(**{"config.host": (member(ESX1, "vmnic5"), member(ESX2))})
    planned = switch.facts()
    switch.now["config.host"] = (member(ESX1, "vmnic5"), member(ESX2, "vmnic7"))
    changes = sending(switch, planned)
    changes.invoke(joining(ESX1), say)
    with refused(Conflict, "object.changed", "host"):
        changes.invoke(joining(ESX2), say)
    assert len(switch.sent) == 1


def test_what_an_earlier_step_of_the_plan_has_changed_is_no_conflict(monkeypatch):
    monkeypatch.setattr("vsphere_ai.execution.actions.config_version.looked_up", lambda value, vcenter: value)
    switch = Switch(**{"config.host": (member(ESX1, "vmnic5"),)})
    planned = switch.facts()
    switch.now["config.host"] = (member(ESX1),)
    sending(switch, planned).invoke(joining(ESX1, deferred=True), say)
    assert len(switch.sent) == 1


def test_an_inherited_order_follows_its_switch_and_is_nobodys_change():
    def config(*names, inherited=True):
        return {
            "uplinkTeamingPolicy": {
                "inherited": False,
                "uplinkPortOrder": {"inherited": inherited, "activeUplinkPort": names},
            }
        }

    wanted = config("Uplink 1", inherited=False)
    for inherited, fine in ((True, True), (False, False)):
        switch = Switch(**{"config.defaultPortConfig": config("Uplink 1", inherited=inherited)})
        planned = switch.facts()
        switch.now["config.defaultPortConfig"] = config("Uplink 1", "Uplink 2", inherited=inherited)
        changes, change = sending(switch, planned), step(defaultPortConfig=wanted)
        if fine:
            changes.invoke(change, say)
        else:
            with refused(Conflict, "object.changed", "defaultPortConfig"):
                changes.invoke(change, say)


def test_the_steps_of_one_plan_do_not_refuse_each_other():
    switch = Switch(**{"config.host": tuple(member(ESX1) for _ in range(1))})
    gate = threading.Barrier(6)
    changes, wrong = sending(switch), []
    run = switch.run_task

    def slow(*given, **more):
        threading.Event().wait(0.01)
        run(*given, **more)

    switch.run_task = slow

    def one():
        gate.wait()
        try:
            changes.invoke(step(maxMtu=1500), say)
        except Conflict as error:
            wrong.append(error)

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (wrong, len(switch.sent)) == ([], 6)


def test_an_object_that_is_gone_is_not_sent_for():
    switch = Switch()
    switch.read_objects = lambda refs, paths: {}
    with refused(Conflict, "object.gone"):
        sending(switch).invoke(step(maxMtu=9000), say)
