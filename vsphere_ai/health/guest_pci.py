"""PCI addresses of RDMA devices and MAC addresses of interfaces in a guest, as sysfs shows them."""

from __future__ import annotations

import re
from dataclasses import replace

from vsphere_ai.model.guest_probes import CommandAnswer, GuestCommand
from vsphere_ai.model.nodes import Node

_LIST = (
    'for d in /sys/class/infiniband/*; do echo "$d $(readlink -f "$d/device")"; done; '
    'for d in /sys/class/net/*; do echo "$d $(cat "$d/address")"; done'
)
DEVICES = GuestCommand("devices", ("sh", "-c", _LIST))
_RDMA = re.compile(r"/sys/class/infiniband/(\S+) /sys/\S*/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
_MAC = re.compile(r"/sys/class/net/(\S+) ([0-9a-f]{2}(?::[0-9a-f]{2}){5})")


def rdma_addresses(answer: CommandAnswer | None) -> dict[str, str]:
    """Return the PCI addresses in an answer to `DEVICES` by RDMA device; empty where there is none."""
    return {found[1]: found[2] for line in _lines(answer) if (found := _RDMA.fullmatch(line))}


def with_interfaces(node: Node, answer: CommandAnswer | None) -> Node:
    """Return a node whose rails without a name of an interface have that of their MAC address in the guest.

    A VLAN interface has the MAC address of the one below it, which has the shorter name.
    """
    names: dict[str, str] = {}
    for found in filter(None, map(_MAC.fullmatch, _lines(answer))):
        names[found[2]] = min(names.get(found[2], found[1]), found[1], key=len)
    return replace(node, rails=tuple(replace(r, interface=r.interface or names.get(r.mac, "")) for r in node.rails))


def _lines(answer: CommandAnswer | None) -> list[str]:
    return answer.out.splitlines() if answer is not None and not answer.failure else []
