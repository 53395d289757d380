"""Network adapters of a VM as plans show them, as a playbook states them, and as a rollback does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import ethernet, nioc_fit
from vsphere_ai.resources._helpers import network_adapter as cards
from vsphere_ai.resources._helpers.network_adapter import NetworkAdapter, is_statable


def named(nic: NetworkAdapter, view: View) -> NetworkAdapter:
    """Return an adapter with the name of its port group."""
    return nic.model_copy(update={"port_group": ethernet.named(view.estate, nic.port_group)})


def for_playbook(nics: Sequence[NetworkAdapter], view: View) -> tuple[tuple[NetworkAdapter, ...], str]:
    """Return the entries of `adapters`, and in words what is left out; PVRDMA adapters are stated by `pvrdma`."""
    listed = (n for n in nics if is_statable(n) and n.type != "pvrdma")
    found = tuple(cards.stated(n if nioc_fit.counts(view, n) else n.unbounded, view) for n in listed)
    odd = ", ".join(str(named(n, view)) for n in nics if not is_statable(n))
    idle = [n for n in nics if n.is_bounded and not nioc_fit.counts(view, n)]
    where = ", ".join(dict.fromkeys(ethernet.named(view.estate, n.port_group) for n in idle))
    said = [f"adapters left out: {odd}"] if odd else []
    said += [f"bandwidth on {where} left out: Network I/O Control is off there"] if idle else []
    return found, "; ".join(said)


def for_rollback(nics: Iterable[NetworkAdapter], view: View, *, in_full: bool) -> tuple[NetworkAdapter, ...]:
    """Return the entries that bring adapters back, with their whole bandwidth where the playbook states some.

    An address that was not given by hand comes back as one that is not, whichever it will be.
    """
    back = (cards.stated(n, view) for n in nics if is_statable(n))
    entries = (cards.in_full(n) if in_full else n for n in back)
    return tuple(n.model_copy(update={"mac": n.mac or "assigned"}) for n in entries)
