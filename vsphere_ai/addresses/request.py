"""Requests for addresses: which NICs of a set's VMs ask for which pools, and what they get, leases or problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vsphere_ai.addresses.holding import AddressLedger, NicHolding, Pools
from vsphere_ai.addresses.pool import AffinityPlace
from vsphere_ai.model.names.networks import AddressRange


@dataclass(frozen=True)
class NicRequest:
    """What a NIC of all VMs of a set asks for: addresses of `pools`, in this order, or of the pools that fit.

    `versions`: the families; without them those of the pools. `spare`: for how many VMs more there shall be
    addresses, so that the set may grow without a gap. `places`: where each VM is, by its index from 1, or one for all.
    """

    name: str
    pools: tuple[str, ...] = ()
    versions: tuple[int, ...] = ()
    spare: int = 0
    places: tuple[AffinityPlace, ...] = (AffinityPlace(),)

    def place(self, index: int) -> AffinityPlace:
        """Return where the VM with an index is."""
        return self.places[index - 1] if len(self.places) >= index else self.places[-1]


@dataclass(frozen=True)
class SetRequest:
    """A set of VMs with indices from 1 to `count`, and its NICs that have addresses of pools."""

    name: str
    count: int
    nics: tuple[NicRequest, ...]


@dataclass(frozen=True, order=True)
class Lease:
    """What one NIC of one VM holds in a family: `given`, one address or a block, and of it `address` for the NIC.

    `prefix` is the prefix length that the NIC is set to; `routes` are pairs of a network and its gateway.
    """

    nic: NicHolding
    index: int
    pool: str
    given: AddressRange
    address: str
    prefix: int
    gateway: str | None = None
    routes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, order=True)
class AddressProblem:
    """Why addresses cannot be given; `subject` is ``set/NIC``, or a VM. `rule` is stable, `help` says what works."""

    subject: str
    rule: str
    message: str
    help: str


@dataclass(frozen=True)
class Leases:
    """Leases of sets. With `problems` the ledger is as it was, and `leases` are those that were there before.

    `new` are the leases that the ledger did not have.
    """

    ledger: AddressLedger
    leases: tuple[Lease, ...] = ()
    new: tuple[Lease, ...] = ()
    problems: tuple[AddressProblem, ...] = ()


@dataclass(frozen=True)
class PoolSettings:
    """What leases depend on beside the ledger: pools, addresses that are given to no VM, and the time.

    `avoided`: reserved by the inventory. `seen`: in use in the network; it is not given, and who has it may keep it.
    `now` in seconds since 1970. `vcenter`: its instance UUID. `answers`: what programs gave for keys, see `external`.
    """

    pools: Pools
    now: int
    avoided: tuple[AddressRange, ...] = ()
    seen: tuple[AddressRange, ...] = ()
    vcenter: str = ""
    answers: Mapping[str, AddressRange] = field(default_factory=dict)


def problem(nic: NicHolding, rule: str, message: str, help: str) -> AddressProblem:
    """Return a problem of a NIC of a set in one family."""
    subject = f"{nic.set}/{nic.name}"
    return AddressProblem(subject, rule, f"{nic.name} of {nic.set}, IPv{nic.version}: {message}", help)
