"""PCI addresses of RDMA devices in a guest, as sysfs shows them."""

from __future__ import annotations

import re

from vsphere_ai.health.answers import Answer, Asked

_LIST = 'for d in /sys/class/infiniband/*; do echo "$d $(readlink -f "$d/device")"; done'
RDMA_PCI = Asked("rdma-pci", ("sh", "-c", _LIST))
_LINE = re.compile(r"/sys/class/infiniband/(\S+) /sys/\S*/([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


def rdma_addresses(answer: Answer | None) -> dict[str, str]:
    """Return the addresses in an answer to `RDMA_PCI` by RDMA device; empty where there is none."""
    if answer is None or answer.failure or answer.code:
        return {}
    return {found[1]: found[2] for line in answer.out.splitlines() if (found := _LINE.fullmatch(line))}
