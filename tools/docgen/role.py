"""Writes the table of privileges into a page: ``python -m tools.docgen.role docs/security.md``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from vsphere_ai.connect.wire.plain import privilege_of
from vsphere_ai.planning.check_privileges import DUTIES as ASKING
from vsphere_ai.planning.privileges import ROLE, PrivilegeOf, privileges
from vsphere_ai.planning.record_privileges import DUTIES

BEGIN, END = "<!-- role: written by `make docs` -->", "<!-- end of role -->"


def role_table(privilege_of: PrivilegeOf) -> str:
    """Return the role as a Markdown table."""
    lines = ["| for | on | privileges | because of |", "|---|---|---|---|"]
    for duty in (*ROLE, *ASKING, *DUTIES):
        behind = [f"`{m}`" for m in duty.methods] + [f"`{f}`" for f in duty.fields]
        behind += [f"device {o}" for o in duty.operations] + ["`extraConfig`"] * duty.extra_config
        behind += ["a device's port group"] * duty.network
        lines.append(
            f"| {duty.purpose} | {duty.where} | {', '.join(privileges(duty, privilege_of))} | {', '.join(behind)} |"
        )
    return "\n".join(lines)


def with_role(page: str, privilege_of: PrivilegeOf) -> str:
    """Return a page with its block of the role brought up to date; ValueError when it has no such block."""
    block = f"{BEGIN}\n\n{role_table(privilege_of)}\n\n{END}"
    changed, count = re.subn(rf"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: block, page, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"the page has {count} blocks that begin with {BEGIN}")
    return changed


def main(arguments: list[str]) -> int:
    """Bring the table up to date in each page named."""
    for name in arguments:
        page = Path(name)
        page.write_text(with_role(page.read_text("utf-8"), privilege_of), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
