"""Use of SSH by a plan itself: what of it logs in to a host."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.mixins import AsksMore, kinds_with


def uses_of_ssh(target: Target, view: View) -> Iterator[str]:
    """Yield what of a plan needs SSH on a host: kinds that are read or set by commands, and its restart."""
    asking = (view.stated.get((target.ref, kind)) for kind in kinds_with(AsksMore))
    needing = [state.kind for state in asking if isinstance(state, AsksMore) and state.needs_commands]
    if needing:
        yield listed(needing)
    if target.ref in view.rebooting:
        yield "its restart"
