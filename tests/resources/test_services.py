"""The kind `services`: SSH and the ESXi Shell, each only where it differs, and never against the run itself."""

from __future__ import annotations

import pytest
from support.estates import ESX1, estate, host, view
from support.judging import judge, plan_one, steps_of, words
from support.machines import kernel_listing, machine

from vsphere_ai.model.estate.host_corrections import ServiceStopped
from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.corrections import line_for, plays_of
from vsphere_ai.resources.kernel import Kernel
from vsphere_ai.resources.services import SERVICES, HostServices, ServiceSettings

ALONE = "- hosts: esx01.lab.local\n  services: {ssh: {running: true, policy: on}, shell: {running: true}}\n"
BESIDE = "\n- hosts: esx03.lab.local\n  services: {ssh: {running: true, policy: on}, shell: {policy: on}}\n"


def service(key, running=False, policy="off", required=False):
    return {"_typeName": "HostService", "key": key, "running": running, "policy": policy, "required": required}


def esx(*services, **more):
    usual = {s["key"]: s for s in (service("TSM-SSH"), service("TSM"), *services)}
    return estate(host(ESX1, **{SERVICES: tuple(usual.values()), **more}))


def asked(there, **wanted):
    return judge(HostServices(services={n: ServiceSettings(**w) for n, w in wanted.items()}), ESX1, there)


def sent(judged):
    return [(step.method, *step.args.values()) for step in judged.steps]


@pytest.mark.parametrize(
    ("there", "wanted", "calls"),
    [
        (esx(), {"ssh": {"running": False, "policy": "off"}, "shell": {"running": False}}, []),
        (esx(service("TSM-SSH", True, "on")), {"ssh": {"running": False, "policy": "off"}},
         [("UpdateServicePolicy", "TSM-SSH", "off"), ("StopService", "TSM-SSH")]),
        (esx(service("TSM-SSH", True, "on")), {"ssh": {"policy": "off"}}, [("UpdateServicePolicy", "TSM-SSH", "off")]),
        (esx(service("TSM-SSH", True, "on")), {"shell": {"running": True}}, [("StartService", "TSM")]),
        (esx(service("TSM", True)), {"shell": {"running": False, "policy": "automatic"}, "ssh": {"running": True}},
         [("UpdateServicePolicy", "TSM", "automatic"), ("StopService", "TSM"), ("StartService", "TSM-SSH")]),
    ],
)  # fmt: skip
def test_only_the_difference(there, wanted, calls):
    judged = asked(there, **wanted)
    assert not judged.problems
    assert sent(judged) == calls
    assert not any(s.needs_maintenance or s.needs_reboot for s in judged.steps)


@pytest.mark.parametrize(
    ("there", "wanted", "rule"),
    [
        (esx(**{SERVICES: None}), {"ssh": {"running": False}}, "unreadable"),
        (estate(host(ESX1, **{SERVICES: (service("TSM-SSH"),)})), {"shell": {"running": False}}, "missing"),
        (esx(service("TSM", True, "on", required=True)), {"shell": {"running": False}}, "required"),
        (esx(service("TSM", True, "on", required=True)), {"shell": {"policy": "off"}}, "required"),
    ],
)
def test_problems(there, wanted, rule):
    assert set(asked(there, **wanted).problems) == {f"services.{rule}"}


def with_kernel(*services):
    """A host whose kernel settings are read over SSH; setting ATS restarts it."""
    listing = machine(ESX1, ats=kernel_listing("FALSE", "FALSE"))
    shown = esx(*services)[ESX1.ref].properties
    return estate(Facts(listing.ref, {**listing.properties, **shown}, probes=listing.probes))


@pytest.mark.parametrize("running", [True, False])
def test_a_run_does_not_switch_ssh_that_it_needs_itself(running):
    there = with_kernel(service("TSM-SSH", not running))
    plan = plan_one(there, ESX1, Kernel(ats_support=True), HostServices(services={"ssh": {"running": running}}))
    (problem,) = plan.problems
    assert problem.rule == "services.ssh-in-use"
    assert "kernel, its restart" in problem.message


def test_ssh_in_use_does_not_depend_on_whether_it_differs():
    there = with_kernel(service("TSM-SSH", False))
    plan = plan_one(there, ESX1, Kernel(ats_support=False), HostServices(services={"ssh": {"running": False}}))
    assert {p.rule for p in plan.problems} == {"services.ssh-in-use"}


def test_policy_of_ssh_and_the_shell_may_be_set_beside_what_needs_ssh():
    there = with_kernel(service("TSM-SSH", True, "on"), service("TSM", True))
    wanted = HostServices(services={"ssh": {"policy": "off"}, "shell": {"running": True}})
    plan = plan_one(there, ESX1, Kernel(ats_support=True), wanted)
    assert not plan.problems
    sent_words = words(steps_of(plan, ESX1))
    assert sent_words.index("StartService") > sent_words.index("reboot")  # a restart stops the shell


@pytest.mark.parametrize(
    ("now", "wanted", "calls"),
    [
        (service("TSM"), {"running": False, "policy": "on"}, ["UpdateServicePolicy", "reboot", "StopService"]),
        (service("TSM"), {"running": True, "policy": "on"}, ["UpdateServicePolicy", "reboot"]),
        (service("TSM", True, "on"), {"running": True, "policy": "off"},
         ["UpdateServicePolicy", "reboot", "StartService"]),
        (service("TSM", True), {"running": True}, ["reboot", "StartService"]),
        (service("TSM", False, "on"), {"running": False}, ["reboot", "StopService"]),
        (service("TSM", True, "on"), {"running": True, "policy": "on"}, ["reboot"]),
    ],
)  # fmt: skip
def test_a_restart_starts_what_the_policy_says_then(now, wanted, calls):
    plan = plan_one(
        with_kernel(service("TSM-SSH", True, "on"), now),
        ESX1, Kernel(ats_support=True), HostServices(services={"shell": ServiceSettings(**wanted)}),
    )  # fmt: skip
    of_services = {"UpdateServicePolicy", "StartService", "StopService", "reboot"}
    assert [word for word in words(steps_of(plan, ESX1)) if word in of_services] == calls


def test_remarks():
    assert "until the next restart" in asked(esx(), shell={"running": True, "policy": "off"}).notes[0]
    assert "is stopped until" in asked(esx(service("TSM", True)), shell={"running": False, "policy": "on"}).notes[0]
    assert asked(esx(), shell={"running": True, "policy": "on"}).notes == ()


@pytest.mark.parametrize(
    ("wanted", "later"),
    [({"running": True, "policy": "on"}, True), ({"running": True, "policy": "off"}, False), ({"running": True}, False),
     ({"policy": "on"}, None)],
)  # fmt: skip
def test_after_a_restart(wanted, later):
    seen = view(esx())
    state = HostServices(services={"shell": ServiceSettings(**wanted)}).project(ESX1, seen, "reboot").state
    assert state.services["shell"].running is later


def test_how_it_is_exported():
    def exported(there, form):
        seen = view(there)
        return seen.get(HostServices, ESX1.ref).export(ESX1, seen, form).state

    assert exported(esx(), "playbook") is None
    assert set(exported(esx(), "rollback").services) == {"ssh", "shell"}
    assert exported(esx(service("TSM-SSH", True)), "playbook") is None  # whether SSH runs is for runs to change
    starts = exported(esx(service("TSM-SSH", True, "on"), service("TSM", True)), "playbook").services
    assert (starts["ssh"].running, starts["ssh"].policy, starts["shell"].running) == (None, "on", True)
    assert set(exported(esx(), "shown").services) == {"ssh", "shell"}
    assert HostServices.observe(Facts("HostSystem:host-9"), estate()) is None


def test_plays_of_corrections():
    off = {"running": False, "policy": "off"}
    assert line_for(ServiceStopped(ESX1, "TSM-SSH")) == ("services", {"ssh": off})
    both = plays_of([ServiceStopped(ESX1, "TSM"), ServiceStopped(ESX1, "TSM-SSH")])
    assert both == {ESX1: {"services": {"ssh": off, "shell": off}}}
