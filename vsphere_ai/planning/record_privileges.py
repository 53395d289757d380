"""Privileges that writing down in vCenter takes what a run has out of service (see `connect.out_records`)."""

from __future__ import annotations

from vsphere_ai.model.privilege import Duty
from vsphere_ai.planning.privileges import LEDGER, LOCKING, PrivilegeNeed, PrivilegeOf, of_methods

REASON = "write down what is out of service"
DEFINING = "define the custom attribute in which that is written"
DUTIES = (
    Duty(
        "what is out of service, written down: maintenance mode, power cycles, SSH, services",
        "the folder `vsphere-ai locks`, or the root to make it",
        (*LOCKING, "SetField"),
    ),
    Duty("the same, until its custom attribute is defined", "the root folder", ("AddCustomFieldDef",)),
)


def for_record(home: tuple[str, str], root: str, privilege_of: PrivilegeOf) -> tuple[PrivilegeNeed, ...]:
    """Return what it takes: on `home`, name and reference of the folder it is made in, and once on the root folder."""
    name, ref = home
    needs = [PrivilegeNeed(name, ref, p, REASON) for p in of_methods((*LOCKING, "SetField"), privilege_of)]
    return tuple(sorted((*needs, PrivilegeNeed("the root folder", root, LEDGER[0], DEFINING))))
