"""Address pools of an inventory: sections `pools:` and `reserved_addresses:`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vsphere_ai.addresses.pool import AUTO, DHCP, AddressPool, conflicts
from vsphere_ai.language.yaml_files.document import Document, FaultCollector
from vsphere_ai.language.yaml_files.validation import ValuePlace, validate
from vsphere_ai.model.names.networks import AddressRange, addresses

_HELP = {
    "subnets": "let pools share one subnet or lie apart; networks that do not reach each other have a 'domain' each",
    "addresses": "give each address to one pool; networks that do not reach each other have a 'domain' each",
    "defaults": "keep 'default: true' in one of them",
}


def read_pools(values: Mapping[str, object], document: Document, faults: FaultCollector) -> dict[str, AddressPool]:
    """Return the pools that `pools:` describes, with every fault noted, also of pools against each other."""
    found: dict[str, AddressPool] = {}
    for name, value in values.items():
        if name in (AUTO, DHCP):
            message = f"'{name}' cannot be a name of a pool: in playbooks it has a meaning of its own"
            document.refuse_key(faults, ("pools", name), message, "choose another name")
        given = {"subnet": value} if isinstance(value, str) else value
        below = "subnet" if isinstance(value, str) else ""
        made = validate(AddressPool, given, ValuePlace(document, ("pools", name), faults, below))
        if made is not None:
            found[name] = made
    for each in conflicts(found):
        message = f"the pools '{each.first}' and '{each.second}' conflict: {each.detail}"
        document.refuse_key(faults, ("pools", each.second), message, _HELP[each.what])
    return found


def read_reserved(values: Sequence[object], document: Document, faults: FaultCollector) -> tuple[AddressRange, ...]:
    """Return the addresses of `reserved_addresses:`, which no pool gives away."""
    found = []
    for index, text in enumerate(values):
        try:
            if not isinstance(text, str):
                raise ValueError("this is no address\nwrite an address, a range such as 10.0.0.1-10.0.0.9, or a subnet")
            found.append(addresses(text))
        except ValueError as error:
            message, _, help = str(error).partition("\n")
            document.refuse(faults, ("reserved_addresses", index), message, help)
    return tuple(found)
