"""vSAN in windows: what a host stores that enters maintenance mode has to stay accessible without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vsphere_ai.model.estate.maintenance import VSAN_MEMBER
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.steps import EnterMaintenance, Step

RULE = "rolling.vsan"
SOURCE = "vSphere Web Services API, VsanHostDecommissionMode; vSphere Update Manager 6.7, host maintenance mode"


def of_windows(estate: Estate, steps: Iterable[Step]) -> Iterator[Finding]:
    """Yield what is not known of members of vSAN that a plan brings into maintenance mode.

    A run states no mode of vSAN, so that vCenter's default holds: objects that only this host makes accessible are
    moved first (``ensureObjectAccessibility``). Whether there is room for them, and how long that takes, no property
    shows.
    """
    for target in sorted({s.target for s in steps if isinstance(s, EnterMaintenance)}):
        if not estate[target.ref].get(VSAN_MEMBER):
            continue
        message = (
            "it is a member of vSAN: before it is in maintenance mode, vSAN moves data that would not be accessible "
            "without it (ensureObjectAccessibility); whether there is room, and how long that takes, is not known"
        )
        help = (
            "run the data migration pre-check of vSAN in the vSphere Client, keep max_unavailable: 1, and raise "
            "rolling: {timeout: 2h} where data has to be moved"
        )
        yield Finding(target, RULE, "unknown", message, help, ((VSAN_MEMBER, "true"),), SOURCE)
