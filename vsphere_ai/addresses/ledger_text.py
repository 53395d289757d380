"""Ledgers as the text that vCenter keeps: JSON of one model, so that equal ledgers are equal texts."""

from __future__ import annotations

from vsphere_ai.addresses.holding import AddressLedger, HeldRange, Holding, NicHolding, Released
from vsphere_ai.documents.address_ledger import HoldingDocument, LedgerDocument
from vsphere_ai.documents.stored import read_document
from vsphere_ai.errors import Conflict
from vsphere_ai.model.names.networks import address_range

NAME = "ledger"
"""What messages call the text: it is no file."""


def ledger_text(ledger: AddressLedger) -> str:
    """Return the text of a ledger; `read_ledger` reads it."""
    holdings = {
        f"{nic.set}/{nic.name}/{nic.version}": HoldingDocument(
            block=holding.block,
            spare=holding.spare,
            held=tuple(f"{each.pool} {each.range}" for each in holding.held),
            released=tuple(f"{each.pool} {each.range} {each.at}" for each in holding.released),
        )
        for nic, holding in ledger.holdings.items()
    }
    return LedgerDocument(version=1, vms=ledger.vms, holdings=holdings).as_text()


def read_ledger(text: str) -> AddressLedger:
    """Return the ledger of a text, empty where there is none; `Conflict` for a text that is no ledger."""
    if not text.strip():
        return AddressLedger()
    try:
        read = read_document(LedgerDocument, text.encode(), NAME)
        return AddressLedger({_nic(key): _holding(each) for key, each in read.holdings.items()}, read.vms)
    except ValueError as error:
        raise Conflict(
            f"what vCenter keeps of the leases cannot be read: {error}",
            "restore the custom attribute from a backup of vCenter, or reserve the addresses in use by hand",
            rule="leases.unreadable",
        ) from None


def _nic(key: str) -> NicHolding:
    try:
        name, nic, version = key.rsplit("/", 2)
        return NicHolding(name, nic, int(version))
    except ValueError:
        raise ValueError(f"holdings: {key} is not SET/NIC/FAMILY") from None


def _holding(each: HoldingDocument) -> Holding:
    held = tuple(HeldRange(pool, address_range(span)) for pool, span in (text.split(" ") for text in each.held))
    gone = (text.split(" ") for text in each.released)
    released = tuple(Released(pool, address_range(span), int(at)) for pool, span, at in gone)
    return Holding(held, released, each.block, each.spare)
