"""Addresses of pools whose addresses a program gives: keys that it is asked for, and checks of its answers.

A key names vCenter, set, index, NIC and family, so that the same VM asks for the same key again after a rebuild, and a
program that is asked twice gives the same address.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from vsphere_ai.addresses.holding import AddressLedger, HeldRange, Holding, NicHolding
from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.addresses.request import AddressProblem, PoolSettings, problem
from vsphere_ai.model.names.networks import AddressRange, address_range, network, range_of

VERSION = 1


def key_of(vcenter: str, nic: NicHolding, index: int) -> str:
    """Return the key of what a NIC of a VM holds."""
    return f"{vcenter}/{nic.set}/{index}/{nic.name}/{nic.version}"


def request_document(operation: str, name: str, pool: AddressPool, keys: Sequence[str]) -> dict[str, object]:
    """Return what a program is asked: ``lease`` or ``release`` for all of the keys, or for none of them."""
    own: dict[str, object] = {"name": name, "subnet": pool.subnet, "block": pool.block}
    own |= {"ranges": list(pool.ranges), "exclude": list(pool.exclude), "gateway": pool.gateway}
    return {"version": VERSION, "operation": operation, "pool": own, "keys": list(keys)}


def leased_in(document: object, pool: AddressPool, keys: Sequence[str]) -> dict[str, AddressRange]:
    """Return what a program's answer gives each key; `ValueError` with what is wrong with it.

    An answer is ``{"version": 1, "addresses": {KEY: "10.0.0.5"}}``; a block is in CIDR notation.
    """
    given = _part(document, "addresses")
    if not isinstance(given, Mapping):
        raise ValueError("'addresses' is no mapping of keys to addresses")
    if set(given) != set(keys):
        raise ValueError(_other_keys(set(keys), set(map(str, given))))
    found: dict[str, AddressRange] = {}
    for key in keys:
        span = found[key] = _span(given[key])
        if not span.within(pool.network):
            raise ValueError(f"{span} is not inside of {pool.subnet}")
        if span.size != pool.block or list(pool.blocks([span])) != [span]:
            raise ValueError(f"{span} is not one block of {pool.block} addresses of {pool.subnet}")
    inorder = sorted((span, key) for key, span in found.items())
    for (one, first), (two, second) in pairwise(inorder):
        if one.overlaps(two):
            raise ValueError(f"{two} is given twice, for {first} and {second}")
    return found


def released_in(document: object, keys: Sequence[str]) -> None:
    """Check that a program's answer names all keys as released; `ValueError` with what is wrong with it.

    An answer is ``{"version": 1, "released": [KEY, ...]}``.
    """
    given = _part(document, "released")
    if not isinstance(given, list) or sorted(map(str, given)) != sorted(keys):
        raise ValueError("'released' is not the list of the keys that it was asked for")


def keys_dropped(before: AddressLedger, after: AddressLedger, terms: PoolSettings) -> dict[str, list[str]]:
    """Return the keys in pools of programs that one ledger holds and a later one does not, by pool."""
    found: dict[str, list[str]] = defaultdict(list)
    for nic, holding in before.holdings.items():
        kept = after.holdings.get(nic, Holding()).count
        for index in range(kept + 1, holding.count + 1):
            pool = terms.pools.get(name := holding.of(index).pool)
            if pool is not None and pool.backend is not None:
                found[name].append(key_of(terms.vcenter, nic, index))
    return dict(found)


def with_answers(
    ledger: AddressLedger, terms: PoolSettings, which: NicHolding, names: Sequence[str], indices: Sequence[int]
) -> AddressLedger | AddressProblem:
    """Return the ledger with what a program gave for new VMs of a set, or why it cannot be used."""
    name = names[0]
    pool = terms.pools[name]
    if pool.backend is None:
        return problem(
            which, "addresses.backend-mixed", f"'{name}' is computed, and another of its pools is of a program", _ONE
        )
    usable = pool.usable(terms.avoided)
    others = [
        (nic, held.range)
        for nic, holding in ledger.holdings.items()
        for held in holding.held
        if held.pool in terms.pools and terms.pools[held.pool].domain == pool.domain
    ]
    new: list[HeldRange] = []
    for index in indices:
        span = terms.answers.get(key_of(terms.vcenter, which, index))
        if span is None:
            message = f"'{name}' is of a program, which was not asked for VM {index} yet"
            return problem(which, "addresses.backend-pending", message, "ask it with vsphere-ai ipam lease PLAYBOOK")
        taken = next((f"{nic.name} of {nic.set} holds it" for nic, held in others if held.overlaps(span)), "")
        taken = taken or next(("it is in use in the network" for seen in terms.seen if seen.overlaps(span)), "")
        if not any(u.first <= span.first and span.last <= u.last for u in usable):
            taken = taken or "the pool does not give it, or it is reserved"
        if taken:
            message = f"the program of '{name}' gave {span} for VM {index}, and {taken}"
            return problem(which, "addresses.backend-answer", message, "correct it where the program has it from")
        new.append(HeldRange(name, span))
    return ledger.with_held(which, new, pool.block)


_ONE = "name one pool of a program alone, or only pools without"


def _other_keys(asked: set[str], given: set[str]) -> str:
    """Return in words how the keys of an answer differ from those that were asked for."""
    missing, more = sorted(asked - given), sorted(given - asked)
    parts = [f"{len(missing)} are missing, such as {missing[0]}"] if missing else []
    parts += [f"{len(more)} were not asked for, such as {more[0]}"] if more else []
    return f"of {len(asked)} keys {', and '.join(parts)}"


def _part(document: object, name: str) -> object:
    if not isinstance(document, Mapping):
        raise ValueError("it is no JSON object")
    if "error" in document:
        raise ValueError(f"it refused: {document['error']}")
    if document.get("version") != VERSION:
        raise ValueError(f"its version is {document.get('version')!r}, and not {VERSION}")
    return document.get(name)


def _span(given: object) -> AddressRange:
    if not isinstance(given, str):
        raise ValueError(f"{given!r} is no address")
    return range_of(network(given)) if "/" in given else address_range(given)
