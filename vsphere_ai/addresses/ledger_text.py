"""Ledgers as the text that vCenter keeps: JSON without spaces, keys in order, so that equal ledgers are equal texts."""

from __future__ import annotations

import json

from vsphere_ai.addresses.holding import AddressLedger, HeldRange, Holding, NicHolding, Released
from vsphere_ai.errors import Conflict
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.names.networks import address_range

VERSION = 1


def ledger_text(ledger: AddressLedger) -> str:
    """Return the text of a ledger; `read_ledger` reads it."""
    holdings = {
        f"{nic.set}/{nic.name}/{nic.version}": {
            "block": holding.block,
            "spare": holding.spare,
            "held": [f"{each.pool} {each.range}" for each in holding.held],
            "released": [f"{each.pool} {each.range} {each.at}" for each in holding.released],
        }
        for nic, holding in ledger.holdings.items()
    }
    return json.dumps(
        {"version": VERSION, "vms": ledger.vms, "holdings": holdings}, sort_keys=True, separators=(",", ":")
    )


def read_ledger(text: str) -> AddressLedger:
    """Return the ledger of a text, empty where there is none; `Conflict` for a text that is no ledger."""
    if not text.strip():
        return AddressLedger()
    try:
        found = json_value(text)
        if found["version"] != VERSION:
            raise ValueError(f"its version is {found['version']}, this release reads {VERSION}")
        holdings: dict[NicHolding, Holding] = {}
        for key, each in found["holdings"].items():
            name, nic, version = key.rsplit("/", 2)
            held = tuple(HeldRange(pool, address_range(span)) for pool, span in (t.split(" ") for t in each["held"]))
            gone = (t.split(" ") for t in each["released"])
            released = tuple(Released(pool, address_range(span), int(at)) for pool, span, at in gone)
            holdings[NicHolding(name, nic, int(version))] = Holding(
                held, released, int(each["block"]), int(each["spare"])
            )
        ledger = AddressLedger(holdings, int(found["vms"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Conflict(
            f"what vCenter keeps of the leases cannot be read: {error}",
            "restore the custom attribute from a backup of vCenter, or reserve the addresses in use by hand",
            rule="leases.unreadable",
        ) from None
    return ledger
