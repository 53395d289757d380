"""XIDs of NVIDIA's driver, explained by the table of actions that `health` judges with."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.health.kernel.xids import RECOVERY_XID, WORDS, table
from vsphere_ai.model.records.explained import ExplanationPart, NameExplained

PAGE = "docs/health.md, What is checked"


def explained() -> Iterator[NameExplained]:
    """Yield every XID of the table, and XID 154, in which the driver itself names the action."""
    known = table()
    for xid in known.xids.values():
        others = tuple((tag, f"{WORDS[action]} ({known.sources[tag]})") for tag, action in xid.others.items())
        pairs = ("action", WORDS[xid.action]), ("kind", "fatal" if xid.fatal else "not fatal")
        parts = (ExplanationPart("", pairs), *((ExplanationPart("Other sources ask for", others),) if others else ()))
        name = f"{xid.number}"
        yield NameExplained(
            name, "XID", f"XID {name}: {xid.name}", parts=parts, source=known.sources[xid.source], page=PAGE
        )
    said = tuple((each.text, WORDS[each.action]) for each in known.recovery)
    title = f"XID {RECOVERY_XID}: the driver names the action in its text"
    parts = (ExplanationPart("Text -> action", said),)
    yield NameExplained(
        f"{RECOVERY_XID}", "XID", title, parts=parts, source=known.sources[known.recovery[0].source], page=PAGE
    )
