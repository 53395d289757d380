"""References by instance UUID: of VMs that may not have existed when a plan named them.

``VirtualMachine:`` and an instanceUuid. vCenter finds the VM by SearchIndex.FindByUuid once it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from vsphere_ai.connect.soap.session import SoapSession
from vsphere_ai.connect.wire import plain
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.vm_sets import is_planned_ref


class KnownRefs:
    """The references that a vCenter has for VMs that are named by their instance UUIDs."""

    def __init__(self, session: SoapSession) -> None:
        self._session = session
        self._real: dict[str, str] = {}

    def add(self, refs: Mapping[str, str]) -> None:
        """Take references that were seen while reading."""
        self._real.update(refs)

    def real(self, ref: str) -> str:
        """Return the reference that vCenter has; the given one for any other object, and for a VM that is not there."""
        if not is_planned_ref(ref):
            return ref
        if ref not in self._real:
            session, index, uuid = self._session, plain.to_object("SearchIndex:SearchIndex"), ref.partition(":")[2]
            found = session.reading(lambda: session.invoke(index, "FindByUuid", None, uuid, True, True))
            if found is None:
                return ref
            self._real[ref] = plain.to_ref(found)
        return self._real[ref]

    def read(self, refs: Sequence[str], read: Callable[[Sequence[str]], dict[str, Facts]]) -> dict[str, Facts]:
        """Read objects, and return their facts under the references that were asked for."""
        real = {self.real(ref): ref for ref in refs}
        there = [ref for ref in real if not is_planned_ref(ref)]
        found = read(there) if there else {}
        for ref in [ref for ref in there if ref not in found]:  # gone; another one may get its UUID
            self._real.pop(real[ref], None)
        named = ((real.get(ref, ref), facts) for ref, facts in found.items())
        return {ref: facts if ref == facts.ref else replace(facts, ref=ref) for ref, facts in named}
