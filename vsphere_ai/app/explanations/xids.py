"""XIDs of NVIDIA's driver, explained by the table of actions that `health` judges with."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.health.xids import RECOVERY, RECOVERY_XID, SOURCES, WORDS, XIDS
from vsphere_ai.model.explained import Explained, Part

PAGE = "docs/health.md, What is checked"


def explained() -> Iterator[Explained]:
    """Yield every XID of the table, and XID 154, in which the driver itself names the action."""
    for xid in XIDS.values():
        others = tuple((tag, f"{WORDS[action]} ({SOURCES[tag]})") for tag, action in xid.others.items())
        pairs = ("action", WORDS[xid.action]), ("kind", "fatal" if xid.fatal else "not fatal")
        parts = (Part("", pairs), *((Part("Other sources ask for", others),) if others else ()))
        name = f"{xid.number}"
        yield Explained(name, "XID", f"XID {name}: {xid.name}", parts=parts, source=SOURCES[xid.source], page=PAGE)
    said = tuple((text, WORDS[action]) for text, action in RECOVERY)
    title = f"XID {RECOVERY_XID}: the driver names the action in its text"
    parts = (Part("Text -> action", said),)
    yield Explained(f"{RECOVERY_XID}", "XID", title, parts=parts, source=SOURCES["aws"], page=PAGE)
