"""Lockdown mode of a host: whether it takes logins of its own, and the users who are excepted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import AfterValidator

from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.estate.host_corrections import LockedDown
from vsphere_ai.model.estate.lockdown import ACCESS_MANAGER, EXCEPTIONS, EXCEPTIONS_FACT, EXCEPTIONS_METHOD, MODE
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Query, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.entries import twice
from vsphere_ai.resources._helpers.factories import invoke
from vsphere_ai.resources._helpers.ssh_use import uses_of_ssh
from vsphere_ai.resources.base import Form, Resource, StateExport, Traits
from vsphere_ai.resources.corrections import EXCEPTION_USER, Corrects
from vsphere_ai.resources.mixins import ReadsStated

Mode = Literal["disabled", "normal", "strict"]
MODES: Mapping[Mode, str] = {
    "disabled": "lockdownDisabled",
    "normal": "lockdownNormal",
    "strict": "lockdownStrict",
}
"""Name in a playbook -> `HostLockdownMode`."""


def _users(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the users in the order of their names; ValueError where one is empty, or given twice."""
    if not all(name.strip() for name in names):
        raise ValueError("a user has an empty name\nwrite a local user, or DOMAIN\\USER")
    if EXCEPTION_USER in names:
        raise ValueError(f"{EXCEPTION_USER!r} is no user\nwrite the SSH account of the inventory in its place")
    if several := twice(map(str.casefold, names)):
        raise ValueError(f"{', '.join(several)} is given twice\nname each user once")
    return tuple(sorted(names))


class Lockdown(ReadsStated, Corrects, Resource):
    """Sets lockdown mode of a host and its exception users, through vCenter; it needs no maintenance mode."""

    kind = KindName("lockdown")
    target = "host"
    shorthand = "mode"
    traits = Traits(
        properties={"HostSystem": (MODE,)},
        decides={MODE: "mode"},
        duties=(Duty("`lockdown`", "hosts", ("ChangeLockdownMode", "UpdateLockdownExceptions", EXCEPTIONS_METHOD)),),
        in_profile="lockdown mode",
    )

    mode: Mode | None = setting("`normal`: logins through vCenter and at the console; `strict`: through vCenter only.")
    exception_users: Annotated[tuple[str, ...], AfterValidator(_users)] | None = setting(
        "Exactly these users keep their logins to the host; `[]`: none."
    )

    def stated_queries(self) -> tuple[Query, ...]:
        """Return the question for the exception users, which no property has."""
        return (Query(EXCEPTIONS, ACCESS_MANAGER, EXCEPTIONS_METHOD),)

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """Normal mode, with the accounts that log in to hosts, which the operator has to name."""
        needed = any(isinstance(c, LockedDown) for c in corrections)
        return {"mode": "normal", "exception_users": (EXCEPTION_USER,)} if needed else {}

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read mode and exception users; None where vCenter shows neither."""
        shown, users = facts.get(MODE), facts.get(EXCEPTIONS_FACT)
        mode = next((name for name, word in MODES.items() if word == shown), None)
        if mode is None and users is None:
            return None
        return cls.model_construct(mode=mode, exception_users=None if users is None else tuple(sorted(map(str, users))))

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """Mode or users cannot be read, or the run itself logs in to the host that would refuse it."""
        facts, stated = view.facts(target.ref), view.said(Lockdown, target.ref) or self
        for field, path in (("mode", MODE), ("exception_users", EXCEPTIONS_FACT)):
            if getattr(stated, field) is not None and facts.get(path) is None:
                why = facts.unreadable.get(path, "vCenter does not show it")
                message = f"{field} of lockdown mode cannot be read: {why}"
                remedy = "System.Read and Global.Settings on the host; a host that is connected"
                yield self.problem(target, "unreadable", message, remedy)
        now = Lockdown.observe(facts, view.estate) or Lockdown()
        if self.mode == "disabled" or (self.mode, self.exception_users) == (now.mode, now.exception_users):
            return
        if users := tuple(uses_of_ssh(target, view)):
            message = f"the run itself logs in to this host over SSH, which this would refuse it: {', '.join(users)}"
            remedy = "put lockdown into a playbook of its own, with the SSH account of the inventory in exception_users"
            yield self.problem(target, "ssh-in-use", message, remedy)

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Say who cannot log in any more."""
        if self.mode in (None, "disabled"):
            return
        users = ", ".join(self.exception_users or ())
        if self.exception_users is not None:
            yield f"SSH takes logins of {f'these users only: {users}' if users else 'no user'} from then on"
        if self.mode == "strict" and not users:
            yield "without vCenter no user can log in to this host: strict mode, and no exception users"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Name the exception users first, then set the mode."""
        changed = {field.name for field in change.fields}
        if "exception_users" in changed:
            users = self.exception_users or ()
            words = f"set exception users of lockdown mode to {', '.join(users) or 'none'}"
            yield invoke(change, ACCESS_MANAGER, "UpdateLockdownExceptions", {"users": users}, words)
        if "mode" in changed and self.mode:
            args = {"mode": MODES[self.mode]}
            yield invoke(change, ACCESS_MANAGER, "ChangeLockdownMode", args, f"set lockdown mode to {self.mode}")

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """A playbook leaves out what hosts are installed with: no lockdown mode, and no exception users."""
        plain = self.mode in ("disabled", None) and not self.exception_users
        return StateExport(None if form == "playbook" and plain else self)
