"""Steps that set speed, global pause, rings and coalescing of one NIC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.fabric.nic_settings import COALESCE_WORDS, NIC, Coalesce
from vsphere_ai.model.state import Change
from vsphere_ai.model.steps import Step
from vsphere_ai.resources._helpers.factories import invoke, shell
from vsphere_ai.resources.nics.nic import NicSettings


def nic_steps(change: Change, name: str, wanted: NicSettings, now: NicSettings, *, later: bool) -> Iterator[Step]:
    """Yield what differs; `later`: the driver gets its own settings again at a restart of this plan, so after that."""
    if wanted.speed not in (None, now.speed):
        link = {"linkSpeed": {"_typeName": "PhysicalNicLinkInfo", "speedMb": wanted.speed, "duplex": True}}
        args = {"device": name, **(link if isinstance(wanted.speed, int) else {})}
        method, summary = "UpdatePhysicalNicLinkSpeed", f"set speed of {name} to {wanted.speed}"
        yield invoke(change, "configManager.networkSystem", method, args, summary, needs_maintenance=True)
    if wanted.pause is not None and wanted.pause != now.pause:
        argv = (*NIC, "pauseParams", "set", "-n", name, *_words({"-r": wanted.pause.rx, "-t": wanted.pause.tx}))
        summary = f"set global pause of {name}: {wanted.pause}"
        yield shell(change, argv, summary, needs_maintenance=True, after_reboot=later)
    if wanted.rings is not None and wanted.rings != now.rings:
        argv = (*NIC, "ring", "current", "set", "-n", name, *_words({"-r": wanted.rings.rx, "-t": wanted.rings.tx}))
        summary = f"set rings of {name}: {wanted.rings}"
        yield shell(change, argv, summary, needs_maintenance=True, after_reboot=later)
    if wanted.coalesce is not None and wanted.coalesce != now.coalesce:
        before = now.coalesce or Coalesce()
        given = ((n, v) for n, v in wanted.coalesce if v not in (None, getattr(before, n)))
        options = (f"{COALESCE_WORDS[n][1]}={str(v).lower()}" for n, v in given)
        summary = f"set interrupt coalescing of {name}: {wanted.coalesce}"
        yield shell(change, (*NIC, "coalesce", "set", "-n", name, *options), summary, after_reboot=later)


def _words(options: Mapping[str, bool | int | None]) -> tuple[str, ...]:
    given = {flag: str(value).lower() for flag, value in options.items() if value is not None}
    return tuple(word for option in given.items() for word in option)
