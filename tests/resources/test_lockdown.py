"""The kind `lockdown`: users before the mode, only where they differ, and never against the run itself."""

from __future__ import annotations

import pytest
from support.estates import ESX1, estate, host, view
from support.judging import judge, plan_one
from support.machines import kernel_listing, machine

from vsphere_ai.model.estate.host_corrections import LockedDown
from vsphere_ai.model.estate.lockdown import EXCEPTIONS_FACT, MODE
from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.corrections import plays_of
from vsphere_ai.resources.kernel import Kernel
from vsphere_ai.resources.lockdown import Lockdown

ALONE = "- hosts: esx01.lab.local\n  lockdown: {mode: normal, exception_users: [root]}\n"
APART = "it keeps the SSH of other kinds away"


def esx(mode="lockdownDisabled", users=()):
    return estate(host(ESX1, **{MODE: mode, EXCEPTIONS_FACT: users}))


def asked(there, **wanted):
    return judge(Lockdown.model_validate(wanted), ESX1, there)


def sent(judged):
    return [(step.method, *step.args.values()) for step in judged.steps]


@pytest.mark.parametrize(
    ("there", "wanted", "calls"),
    [
        (esx(), {"mode": "disabled", "exception_users": ()}, []),
        (esx("lockdownNormal", ("root", "a")), {"exception_users": ("a", "root")}, []),
        (esx(), {"mode": "strict"}, [("ChangeLockdownMode", "lockdownStrict")]),
        (esx(), {"mode": "normal", "exception_users": ("root", "a")},
         [("UpdateLockdownExceptions", ("a", "root")), ("ChangeLockdownMode", "lockdownNormal")]),
        (esx("lockdownStrict", ("root",)), {"mode": "disabled", "exception_users": ()},
         [("UpdateLockdownExceptions", ()), ("ChangeLockdownMode", "lockdownDisabled")]),
    ],
)  # fmt: skip
def test_only_the_difference_and_users_first(there, wanted, calls):
    judged = asked(there, **wanted)
    assert not judged.problems
    assert sent(judged) == calls


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (esx(mode=None), {"mode": "normal"}),
        (esx(users=None), {"exception_users": ("root",)}),
    ],
)
def test_what_cannot_be_read_is_refused(there, wanted):
    assert set(asked(there, **wanted).problems) == {"lockdown.unreadable"}


def test_users_that_cannot_be_read_do_not_matter_where_none_are_named():
    assert not asked(esx(users=None), mode="normal").problems


def with_kernel(mode="lockdownDisabled", users=("root",)):
    """A host whose kernel settings are read over SSH."""
    listing = machine(ESX1, ats=kernel_listing("FALSE", "FALSE"))
    shown = esx(mode, users)[ESX1.ref].properties
    return estate(Facts(listing.ref, {**listing.properties, **shown}, probes=listing.probes))


@pytest.mark.parametrize(
    ("there", "wanted", "rules"),
    [
        (with_kernel(), {"mode": "normal"}, {"lockdown.ssh-in-use"}),
        (with_kernel("lockdownNormal"), {"exception_users": ()}, {"lockdown.ssh-in-use"}),
        (with_kernel("lockdownNormal"), {"mode": "normal", "exception_users": ("root",)}, set()),
        (with_kernel(), {"mode": "disabled"}, set()),
    ],
)
def test_a_run_does_not_lock_itself_out(there, wanted, rules):
    plan = plan_one(there, ESX1, Kernel(ats_support=False), Lockdown.model_validate(wanted))
    assert {p.rule for p in plan.problems} == rules


@pytest.mark.parametrize("users", [("root", "Root"), ("",), ("CHOOSE AN EXCEPTION USER",)])
def test_what_are_no_users_is_refused_while_reading(users):
    with pytest.raises(ValueError, match="user"):
        Lockdown(exception_users=users)


def test_remarks():
    assert "SSH takes logins of no user" in asked(esx(users=("root",)), mode="normal", exception_users=()).notes[0]
    assert "these users only: root" in asked(esx(), mode="normal", exception_users=("root",)).notes[0]
    assert "no user can log in" in asked(esx(), mode="strict", exception_users=()).notes[-1]
    assert asked(esx("lockdownNormal"), mode="disabled").notes == ()


def test_how_it_is_exported():
    def exported(there, form):
        seen = view(there)
        return seen.get(Lockdown, ESX1.ref).export(ESX1, seen, form).state

    assert exported(esx(), "playbook") is None
    assert exported(esx(), "rollback").mode == "disabled"
    assert exported(esx(users=("root",)), "playbook").exception_users == ("root",)
    assert Lockdown.observe(Facts("HostSystem:host-9"), estate()) is None


def test_plays_of_corrections():
    play = plays_of([LockedDown(ESX1)])[ESX1]["lockdown"]
    assert play == {"mode": "normal", "exception_users": ("CHOOSE AN EXCEPTION USER",)}
