"""Passwords of the accounts in guests that a plan makes: fetched and hashed before the run begins, and in no file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.model.steps import Clone
from vsphere_ai.security import redaction
from vsphere_ai.security.credentials import fetch
from vsphere_ai.security.password_hash import hashed
from vsphere_ai.security.secret_ref import NoPassword, Secret

if TYPE_CHECKING:
    from vsphere_ai.planning.planner import Plan


def guest_passwords(plan: Plan, base: Path | None) -> Mapping[str, Secret]:
    """Return the hash of each password that a clone of the plan needs, by its reference.

    `base` is the folder in which paths begin and programs run: that of the inventory. `NoPassword`: one is not there.
    """
    clones = [planned.step for planned in plan.steps if isinstance(planned.step, Clone)]
    users = {reference: user for step in clones for user, reference in step.passwords}
    return {reference: _hashed(reference, user, base) for reference, user in users.items()}


def _hashed(reference: str, user: str, base: Path | None) -> Secret:
    purpose = f"password of {user} in the guests"
    try:
        made = Secret(hashed(fetch(reference, base, purpose=purpose).reveal()))
    except ValueError as error:
        raise NoPassword(f"the {purpose} cannot be used: {error}", "store another one behind the reference") from None
    # what is before the salt is the same for every password
    redaction.register_packed("$".join(made.reveal().split("$")[-2:]))
    return made
