"""A thousand healthy VMs as texts: what guests and hosts print goes through the parsers, and nothing is found."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from vsphere_ai.health import answers
from vsphere_ai.health.answers import gpus_in, measures_in, read_guest, refined, with_measures
from vsphere_ai.health.checks import ObservedVm, gpu_events, judge, xid_findings
from vsphere_ai.health.counters import readings_of
from vsphere_ai.health.guest_pci import DEVICES, rdma_addresses, with_interfaces
from vsphere_ai.health.profile import HealthProfile, learned
from vsphere_ai.health.witness import HostFacts
from vsphere_ai.model.guest_probes import CommandAnswer
from vsphere_ai.model.nodes import Node, NodeGpu, Rail

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BOARDS = (("NVIDIA A100-SXM4-80GB", 81920, 4), ("NVIDIA H100 80GB HBM3", 81559, 5), ("NVIDIA A30", 24576, 4))
NOISE = (
    "mlx5_core 0000:0b:00.0: mlx5_cmd_check: ACCESS_REG(0x805) op_mod(0x1) failed, status bad parameter(0x3)",
    "nvidia-nvlink: Nvlink Core is being initialized, major device number 510",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.08",
    "EXT4-fs (sda1): mounted filesystem with ordered data mode. Quota mode: none.",
    "systemd[1]: Started Journal Service.",
    "vmxnet3 0000:0b:00.0 eth0: NIC Link is Up 10000 Mbps",
)


def gpu_rows(chance, count, board, driver, *, shared):
    name, memory, generation = board
    for n in range(count):
        uuid, bus = f"GPU-{chance.getrandbits(64):016x}", f"00000000:{2 + n:02X}:{0 if not shared else 1:02X}.0"
        head = f"{n}, {uuid}, {bus}, {name}, {driver}, {memory}, {chance.randint(0, 900)}"
        reasons = chance.choice(("0x0000000000000000", "0x0000000000000001"))
        now = chance.choice((1, generation))
        own = f"{reasons}, 0, {chance.randint(0, 40)}, No, No, {now}, {generation}, 16, 16"
        yield f"{head}, {', '.join(['[N/A]'] * 9) if shared else own}\n"


def measure_rows(chance, count, *, shared):
    for n in range(count):
        shown = "[N/A], [N/A], [N/A]" if shared else f"{chance.randint(25, 60)}, 400.00, 1410"
        yield f"{n}, Disabled, 0, {shown}\n"


def guest(chance, gpus, rails, board, *, shared):
    """Return what a guest answers, by the names of commands."""
    driver, uptime = "535.161.08", chance.uniform(300, 9e6)
    prefix = chance.choice(("mlx5_", "bnxt_re", "rocep"))
    names = [f"rdma{n + 1}" for n in range(rails)]
    links = [f"link {prefix}{n}/1 state ACTIVE physical_state LINK_UP netdev {name} \n" for n, name in enumerate(names)]
    two_ports = chance.random() < 0.3  # the second port of every card is free
    links += [f"link {prefix}{n + 8}/1 state DOWN physical_state DISABLED \n" for n in range(rails) if two_ports]
    every = [("lo", 65536, "127.0.0.1"), ("eth0", 1500, "10.0.0.1")]
    every += [(name, 9000, f"172.16.{n}.9") for n, name in enumerate(names)]
    addresses = [{"ifname": i, "mtu": m, "flags": ["UP", "LOWER_UP"], "addr_info": [{"local": a}]} for i, m, a in every]
    rules = [{"src": "all", "table": "main"}, *({"src": f"172.16.{n}.9", "table": str(101 + n)} for n in range(rails))]
    sysfs, devices = "", ""
    for n, name in enumerate(names):
        port = f"/sys/class/infiniband/{prefix}{n}/ports/1"
        totals = {"link_downed": 1, "symbol_error": chance.randint(0, 9), "port_rcv_data": chance.getrandbits(48)}
        sysfs += "".join(f"{port}/counters/{key}:{value}\n" for key, value in totals.items())
        sysfs += f"{port}/gid_attrs/types/0:IB/RoCE v1\n{port}/gid_attrs/types/1:RoCE v2\n{port}/rate:100 Gb/sec (2X)\n"
        sysfs += f"/sys/class/net/{name}/carrier_changes:2\n"
        for at, device in enumerate((f"{prefix}{n}", f"{prefix}{n + 8}")):
            devices += f"/sys/class/infiniband/{device} /sys/devices/pci0000:00/x/0000:{16 + n:02x}:00.{at}\n"
        devices += f"/sys/class/net/{name} 00:50:56:00:00:{n:02x}\n"
    kernel = [
        f"[{at:12.6f}] {line}" for at, line in zip((0.0, 1.5, 2.25, 9.0, 11.5), chance.sample(NOISE, 5), strict=True)
    ]
    texts = {
        answers.SMI: "".join(gpu_rows(chance, gpus, board, driver, shared=shared)) or "No devices were found\n",
        answers.MEASURES: "".join(measure_rows(chance, gpus, shared=shared)),
        answers.PROCESSES: "",
        answers.CUDA: f"| NVIDIA-SMI {driver}   Driver Version: {driver}   CUDA Version: 12.2     |\n",
        answers.VERSIONS: "torch 2.4.0\nnvidia-nccl-cu12 2.21.5\n",
        answers.LINKS: "".join(links),
        answers.ADDRESSES: json.dumps(addresses),
        answers.RULES: json.dumps(rules),
        answers.KERNEL: "\n".join(kernel) + "\n",
        answers.UPTIME: f"{uptime:.2f} {uptime * 8:.2f}\n",
        answers.SYSFS: sysfs,
        answers.REPLAYS: "<nvidia_smi_log>\n</nvidia_smi_log>\n",
        DEVICES: devices,
    }
    return {
        asked.name: CommandAnswer(answers.NO_DEVICES if "No devices" in out else 0, out) for asked, out in texts.items()
    }


def host(chance, gpus, rails, board, *, shared):
    """Return what is known of a host whose nvidia-smi and logs print ordinary lines."""
    rows = "".join(gpu_rows(chance, gpus, board, "535.161.05", shared=False))
    more = measures_in("".join(measure_rows(chance, gpus, shared=False)))
    log = ("2026-05-01T11:40:02.123Z cpu12:2098765)NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.05",)
    flaps = [NOW - timedelta(hours=3), NOW - timedelta(hours=3, seconds=-4)]  # a restart of the switch, 4 s
    vob = "[netCorrelator] 1us: [vob.net.vmnic.linkstate.{0}] vmnic vmnic4 linkstate {0}"
    events = [
        f"{when:%Y-%m-%dT%H:%M:%S}.464Z: {vob.format(state)}" for when, state in zip(flaps, ("down", "up"), strict=True)
    ]
    nics = {f"vmnic{n + 4}": 100.0 for n in range(rails)}
    found = {gpu.bus: gpu for gpu in with_measures(tuple(gpus_in(rows)), more)} if shared else {}
    switch = {f"rdma{n + 1}": 9000 for n in range(rails)}
    failure = "" if shared else "nvidia-smi ended with 127"
    return HostFacts(
        failure, found, driver="535.161.05", log=log, uplink_speed=nics, nominal_speed=nics, switch_mtu=switch,
        events=tuple(events), clock_ahead=chance.uniform(-5, 5), booted=NOW - timedelta(days=90),
    )  # fmt: skip


def observed(number):
    """Return one healthy VM, as its texts say; the number is the seed."""
    chance = random.Random(number)
    shared, board, rails, count = (
        chance.random() < 0.5,
        chance.choice(BOARDS),
        chance.randint(0, 8),
        chance.randint(0, 8),
    )
    gpus = tuple(NodeGpu(n, "", f"0000:{2 + n:02x}:00.0", profile="a100-40c" if shared else "") for n in range(count))
    own = tuple(
        Rail("", f"172.16.{n}.9", n + 1, vmnic=f"vmnic{n + 4}", mac=f"00:50:56:00:00:{n:02x}") for n in range(rails)
    )
    node = Node(f"trn-{number:04d}", "10.0.0.1", host=f"esx{number % 250:03d}", gpus=gpus, rails=own)
    said = guest(chance, count, rails, board, shared=shared)
    facts = read_guest(said)
    assert not facts.failures, facts.failures
    assert (len(facts.gpus), len(facts.rules)) == (count, rails + 1)
    counted = (readings_of(facts.counters, NOW - timedelta(seconds=60)), readings_of(facts.counters, NOW))
    asked = {rail.mac: {"mtu": 9000, "roce_v2": True, "policy_routes": True} for rail in own}
    outside = host(chance, count, rails, board, shared=shared)
    return ObservedVm(
        refined(with_interfaces(node, said[DEVICES.name]), facts), facts, outside,
        before=counted[0], after=counted[1], passthrough=not shared, at=NOW, asked=asked,
        cards=rdma_addresses(said[DEVICES.name]),
    )  # fmt: skip


def found(each, profile=None):
    about = xid_findings(gpu_events(each, NOW, 2.0), [each.node], NOW)
    return {f.rule for f in judge(each, profile or HealthProfile(), about).findings}


def test_a_thousand_healthy_vms_have_no_finding():
    for number in range(1000):
        each = observed(number)
        assert found(each) == set(), each.node.vm
        assert found(each, learned(each.node, each.guest)) == set(), "learned from itself"


@pytest.mark.parametrize(
    ("line", "check"),
    [
        ("2026-05-01T11:58:00.123Z cpu1:1)NVRM: Xid (PCI:0000:02:00): 48, DBE", "xid"),
        ("2026-05-01T11:58:00.123Z cpu1:1)NVRM: GPU 0000:02:00.0: GPU has fallen off the bus.", "xid"),
    ],
)
def test_one_line_of_the_host_makes_the_same_texts_a_finding(line, check):
    each = next(o for o in map(observed, range(99)) if o.node.gpus and not o.passthrough)
    assert found(replace(each, host=replace(each.host, log=(*each.host.log, line)))) == {check}
