"""Capacity of any number of hosts fits on two screens; its numbers are those of the JSON."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from vsphere_ai.gpu.catalog import board_of_device
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.vgpus.slot import GpuSlot
from vsphere_ai.planning.capacity_report import GpuUse, UsedVgpu
from vsphere_ai.report.gpus.capacity_document import host_documents
from vsphere_ai.report.gpus.capacity_text import capacity_text

A100 = board_of_device(0x20F1)
PCIS = ("0000:3b:00.0", "0000:5e:00.0", "0000:86:00.0", "0000:af:00.0")


def farm(hosts, kinds):
    """Hosts with four GPUs each, of which so many `kinds` of hosts run something else."""
    found = {}
    for n in range(hosts):
        gpus = []
        for m, pci in enumerate(PCIS):
            in_use = (n % kinds >> m) & 1
            instances = (Instance("3g.20gb", 4, in_use=True),) if in_use else ()
            running = (UsedVgpu(f"vm-{n:04}-{m}", "grid_a100-3-20c"),) if in_use else ()
            gpus.append(GpuUse(GpuSlot(f"esx{n:04}", pci, A100, "mig", instances=instances), running))
        found[f"esx{n:04}.lab.local"] = gpus
    return found


@pytest.mark.parametrize("hosts", [4, 32, 256, 1000])
@pytest.mark.parametrize("kinds", [1, 3, 16])
def test_two_screens_hold_any_number_of_hosts(hosts, kinds):
    own = farm(hosts, kinds)
    lines = capacity_text(own, None).splitlines()
    assert len(lines) <= 80
    assert max(map(len, lines)) <= 80
    full = capacity_text(own, None, full=True)
    assert all(host in full for host in own)


def test_the_numbers_are_those_of_the_json():
    own = farm(1000, 16)
    text = capacity_text(own, None)
    documents = [each.as_json() for each in host_documents(own)]
    gpus = [gpu for host in documents for gpu in host["gpus"]]
    running = sum(len(gpu["running"]) for gpu in gpus)
    room = Counter()
    for gpu in gpus:
        room.update(gpu["room"])
    assert f"1000 hosts with 4000 GPUs, {running} vGPUs" in text
    fits = re.search(r"^  fits  (.*(?:\n {8}.*)*)", text, re.MULTILINE)[1]
    shown = {name: int(count) for count, name in re.findall(r"(\d+) x\s+([\w-]+)", fits)}
    assert shown == {name.partition("-")[2]: count for name, count in room.items() if count}
    hosts = [int(n) for n in re.findall(r"\((\d+) hosts\)$", text, re.MULTILINE)]
    hidden = re.search(r"not shown: (\d+) host", text)
    assert sum(hosts) + (int(hidden[1]) if hidden else 0) == 1000
