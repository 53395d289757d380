"""An operator with a fault that is always found, to see what becomes of what is found."""

from __future__ import annotations

from reliability.operating import Operator


class Planted(Operator):
    """Fails as soon as a VM is left out; nothing is applied."""

    def apply(self, kill):
        """Do nothing, so that it is quick."""

    def leave_vm_out(self, name):
        raise AssertionError("planted")
