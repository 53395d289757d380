"""What a run was to switch for its own time, and somebody else had switched already: that stays as it is found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from vsphere_ai.model.pending import Pending, Record
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Healthy, PendingKind, Step

WORDS: Mapping[PendingKind, str] = {
    "off": "{} was switched off meanwhile, not by this run: left off",
    "ssh": "SSH of {} was started meanwhile, not by this run: left running",
}


class ExternalChanges:
    """Knows what this run or an earlier attempt of it has switched; everything else is not its to switch back.

    `is_so` reads whether a target is already as a step is to bring it. Usable from several threads.
    """

    def __init__(self, record: Record, is_so: Callable[[Step], bool]) -> None:
        self._is_so = is_so
        self._ours = {(d.kind, d.target.ref) for d in record.pending()}
        self._left: dict[tuple[PendingKind, str], str] = {}

    def why_left(self, step: Step, all_pending: Collection[Pending]) -> str:
        """Return why nothing is to be sent for a step that would make these debts; "" when it is ours to do."""
        for kind in step.closes:
            if (kind, step.target.ref) in self._left:
                return self._left[kind, step.target.ref]
        for pending in all_pending:
            key = (pending.kind, pending.target.ref)
            if pending.kind in WORDS and key not in self._ours:
                if self._is_so(step):
                    self._left[key] = WORDS[pending.kind].format(pending.target.name)
                    return self._left[key]
                self._ours.add(key)
        return ""

    def is_left(self, kind: PendingKind, target: Target) -> bool:
        """Tell whether something of a target stays as somebody else has put it."""
        return (kind, target.ref) in self._left

    def without(self, step: Step) -> tuple[Step, str]:
        """Return a health gate that does not ask for VMs which stay off, and a remark; other steps as they are."""
        off = [vm for vm in step.vms if ("off", vm.ref) in self._left] if isinstance(step, Healthy) else []
        if not isinstance(step, Healthy) or not off:
            return step, ""
        vms = tuple(vm for vm in step.vms if vm not in off)
        return replace(step, vms=vms), f"without {', '.join(vm.name for vm in off)}, left off"
