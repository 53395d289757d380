"""Ready key: what a guest writes at the end of each boot, and what makes it unusable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vsphere_ai.guests.netplan import GuestNic, tables
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target

READY = "guestinfo.vsphere-ai.ready"
"""Key that the guest writes when cloud-init has ended, at each boot: what a guest writes may be lost when it is off."""

_MAC = r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}"
_RESULT = re.compile(
    rf"(?P<word>free|absent|silent|conflict|answered)(?: (?P<mac>{_MAC}))?|not probed: (?P<reason>[^\n]*)"
)
NOT_PROBED = "not probed"


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)


class _Nic(_Part):
    name: str
    mtu: int
    addresses: dict[str, str]
    gateways: dict[str, str]
    routing: str


class _Text(_Part):
    generation: int = Field(ge=1)
    not_probed: str = ""
    machine: str = ""
    host_keys: tuple[str, ...] = ()
    nics: dict[str, _Nic] = {}


@dataclass(frozen=True)
class ProbeAnswer:
    """What a probe found: ``free``, ``conflict``, ``absent`` of an address; ``answered``, ``silent`` of a gateway.

    Either may be ``not probed`` for a `reason`. `mac` is the station that answered, empty where it is not known.
    """

    word: str
    mac: str = ""
    reason: str = ""


@dataclass(frozen=True)
class NicReady:
    """What a guest reports of a NIC: the interface (empty: none has the MAC address), its MTU in bytes, and answers.

    `routing` is ``main``, ``table N``, or which rule is missing.
    """

    name: str
    mtu: int
    addresses: Mapping[str, ProbeAnswer]
    gateways: Mapping[str, ProbeAnswer]
    routing: str


@dataclass(frozen=True)
class Ready:
    """What a guest reports: the generation of what it was given, and each NIC by its MAC address.

    `not_probed` is why there is nothing of the NICs; empty where there is. `machine` is the same in guests with one
    machine id, and empty where that is not known. `host_keys` are the fingerprints of its SSH host keys
    (``SHA256:…``), none where it has not reported them.
    """

    generation: int
    nics: Mapping[str, NicReady]
    not_probed: str = ""
    machine: str = ""
    host_keys: tuple[str, ...] = ()


def verdict(text: str) -> Ready:
    """Return what a guest wrote into the ready key; `ValueError` with a sentence where it is malformed."""
    try:
        found = _Text.model_validate_json(text)
        nics = {mac.lower(): _nic(each) for mac, each in found.nics.items()}
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise ValueError(f"{READY} is malformed: {where + ': ' if where else ''}{fault['msg']}") from None
    except ValueError as error:
        raise ValueError(f"{READY} is malformed: {error}") from None
    if not nics and not found.not_probed:
        raise ValueError(f"{READY} is malformed: it names no NIC, and no reason")
    return Ready(found.generation, nics, found.not_probed, found.machine, found.host_keys)


def is_ready(settings: Mapping[str, str], generation: int) -> bool:
    """Return whether a guest has said that it is ready, in this generation of what it was given."""
    try:
        return verdict(settings.get(READY, "")).generation == generation
    except ValueError:
        return False


def ready_problems(target: Target, ready: Ready, nics: Sequence[GuestNic], generation: int) -> Iterator[Problem]:
    """Yield why a guest that has reported is not ready to be used, each with a rule id ``guest.*``.

    What was not probed is no problem: `unprobed` names it.
    """
    if ready.generation != generation:
        words = f"the guest reports generation {ready.generation} of its settings, not {generation}"
        help = "it has not read the new ones: look at /var/log/cloud-init.log in the guest"
        yield Finding.problem(target, "guest.generation", words, help)
    if ready.not_probed:
        return
    for nic, table in zip(nics, tables(nics), strict=True):
        found = ready.nics.get(nic.mac)
        if found is None or not found.name:
            help = "the guest has no interface with this MAC address: look for its driver, and whether it is connected"
            yield Finding.problem(target, "guest.nic-missing", f"NIC {nic.name}: {nic.mac} is not in the guest", help)
            continue
        for rule, words, help in _against(nic, table, found):
            yield Finding.problem(target, rule, f"NIC {nic.name}: {words}", help)


def unprobed(ready: Ready) -> Iterator[str]:
    """Yield what a guest could not probe, a sentence each."""
    if ready.not_probed:
        yield f"no address was probed: {ready.not_probed}"
    for mac, nic in ready.nics.items():
        for text, answer in (*nic.addresses.items(), *nic.gateways.items()):
            if answer.word == NOT_PROBED:
                yield f"{nic.name or mac}: {text} was not probed: {answer.reason}"


def machine_problems(guests: Mapping[Target, Ready]) -> Iterator[Problem]:
    """Yield a problem for each guest whose machine id another one has as well: the image was not cleaned."""
    for target, ready in guests.items():
        others = [t.name for t, r in guests.items() if t != target and ready.machine and r.machine == ready.machine]
        if others:
            words = f"its machine id is also that of {', '.join(others)}"
            help = "run `cloud-init clean --machine-id` in the image, and make the VMs anew"
            yield Finding.problem(target, "guest.machine-id", words, help)


def _against(nic: GuestNic, table: int | None, found: NicReady) -> Iterator[tuple[str, str, str]]:
    for text in nic.addresses:
        host = str(ip_interface(text).ip)
        answer = found.addresses.get(host, ProbeAnswer("absent"))
        if answer.word == "conflict":
            by = f"the station {answer.mac}" if answer.mac else "another station"
            help = "find it by its MAC address; exclude the address from the pool, or take it from the other one"
            yield "guest.conflict", f"{host} is in use by {by}; the guest has taken it off", help
        elif answer.word == "absent":
            help = "look at the guest's renderer: `cloud-init status --long`, `netplan get`"
            yield "guest.address-missing", f"the interface does not have {host}", help
    for gateway in nic.gateways:
        if found.gateways.get(str(ip_address(gateway)), ProbeAnswer("silent")).word == "silent":
            help = "check the port group's VLAN, the uplinks, and the gateway itself"
            yield "guest.gateway-silent", f"the gateway {gateway} does not answer", help
    if table is not None and nic.addresses and found.routing != f"table {table}":
        help = "the image's renderer drops routing rules: use an image with netplan"
        yield "guest.routing", f"replies do not use table {table}: {found.routing}", help
    if nic.mtu is not None and found.mtu != nic.mtu:
        yield "guest.mtu", f"the interface has an MTU of {found.mtu}, not {nic.mtu}", "look at the guest's renderer"


def _nic(nic: _Nic) -> NicReady:
    addresses = {str(ip_address(text)): _answer(found) for text, found in nic.addresses.items()}
    gateways = {str(ip_address(text)): _answer(found) for text, found in nic.gateways.items()}
    return NicReady(nic.name, nic.mtu, addresses, gateways, nic.routing)


def _answer(text: str) -> ProbeAnswer:
    found = _RESULT.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text[:40]}' is not a result of a probe")
    if found["word"] is None:
        return ProbeAnswer(NOT_PROBED, reason=found["reason"])
    return ProbeAnswer(found["word"], found["mac"] or "")
