"""Privileges that a playbook takes, as text: by object, and whether the account has them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from vsphere_ai.model.text import safe
from vsphere_ai.planning.privileges import PrivilegeNeed


def needs_text(
    needs: Iterable[PrivilegeNeed], missing: frozenset[PrivilegeNeed], account: str, *, complete: bool
) -> str:
    """Return privileges by object, and whether the account has them."""
    lines: list[str] = []
    for (name, _), own in groupby(needs, key=lambda n: (n.name, n.ref)):
        lines.append(safe(name))
        for need in own:
            lines.append(f"  {'lacks' if need in missing else 'has':<6} {need.privilege}  ({safe(need.reason)})")
    if not lines:
        return "The playbook is about nothing that is here."
    objects = len({n.ref for n in missing})
    granted = "All granted." if complete else "All of these are granted; not everything could be planned."
    lines.append(f"{safe(account)} lacks {len(missing)} privileges on {objects} objects" if missing else granted)
    return "\n".join(lines)
