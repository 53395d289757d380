"""Samples and readers of further formats for the fuzz of readers: guests, hosts, MIG, manifests, and small files."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

from support.manifests import checked
from vsphere_ai.benchmarks.baseline_file import BaselineFile
from vsphere_ai.benchmarks.nccl.nccl_json import parse_json
from vsphere_ai.benchmarks.programs.burn import MARK, read_report, samples_in
from vsphere_ai.documents.benchmark_history import BenchmarkResult
from vsphere_ai.documents.stored import read_stored
from vsphere_ai.fabric.nic_settings import coalescing_in, pauses_in
from vsphere_ai.gpu.mig import parted
from vsphere_ai.gpu.smi.device_paths import parse_device_paths, parse_gpu_list
from vsphere_ai.guests.netplan import read_network
from vsphere_ai.health import answers, prometheus
from vsphere_ai.health.counters import readings_in
from vsphere_ai.health.dcgm import results_in
from vsphere_ai.health.guest_pci import DEVICES, rdma_addresses
from vsphere_ai.health.outages import outages_in
from vsphere_ai.language.yaml_files.document import FaultCollector, parse
from vsphere_ai.language.yaml_files.model_files import read_model
from vsphere_ai.model.bounded import yaml_value
from vsphere_ai.model.guest_probes import CommandAnswer
from vsphere_ai.model.names.networks import network_of
from vsphere_ai.model.names.pci_address import normal_pci, read_pci
from vsphere_ai.training.exports.frameworks import check_tf_config
from vsphere_ai.training.machine import machine_of
from vsphere_ai.training.ras import read_answer

NOW = datetime(2026, 5, 1, tzinfo=UTC)
RESULT = BenchmarkResult(
    at=NOW.timestamp(), set="train", benchmark="nccl", operation="all_reduce", ranks=8, size=8 << 30, value=180.5
)
LIST = """GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5d0ba5f3-0000-1111-2222-333344445555)
  MIG 1c.3g.40gb  Device  0: (UUID: MIG-GPU-5d0ba5f3-0000-1111-2222-333344445555/2/0)
Unable to determine the device handle for GPU 0000:4B:00.0: Unknown Error
"""
PATHS = """\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tPXB\t0-15,32-47\t0\t\tN/A
GPU1\tNV12\t X \tSYS\t16-31\t1\t\tN/A
NIC0\tPXB\tSYS\t X \t\t\t

Legend:

  X    = Self

NIC Legend:

  NIC0: mlx5_0
"""
GUEST = {
    answers.LINKS: "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1f0 \nlink bnxt_re0/1 state DOWN\n",
    answers.ADDRESSES: json.dumps(
        [{"ifname": "e", "mtu": 9000, "flags": ["UP"], "addr_info": [{"local": "10.0.0.1"}]}]
    ),
    answers.RULES: json.dumps([{"priority": 0, "src": "all", "table": "local"}]),
    answers.SYSFS: (
        "/sys/class/infiniband/mlx5_0/ports/1/rate:100 Gb/sec (4X EDR)\n"
        "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/3:RoCE v2\n"
        "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed:1\n"
    ),
    answers.UPTIME: "350735.47 234388.90\n",
    answers.VERSIONS: "torch 2.4.0\nnvidia-nccl-cu12 2.21.5\n",
    answers.PROCESSES: "4711, GPU-1\n",
    answers.MEASURES: "0, Enabled, 0, 30, 400.00, 1410\n",
    answers.CUDA: "| NVIDIA-SMI 550.90   Driver Version: 550.90   CUDA Version: 12.4  |\n",
    answers.REPLAYS: '<gpu id="00000000:3B:00.0"><replay_counter>3</replay_counter></gpu>',
    answers.LISTED: LIST,
    answers.PATHS: PATHS,
    DEVICES: "/sys/class/infiniband/mlx5_0 /sys/devices/pci0000:00/0000:0b:00.0\n",
}
DCGM = {
    "DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [{"name": "memory", "results": [
        {"entity_group": "GPU", "entity_id": 0, "status": "Fail", "warnings": [{"error_severity": 2, "warning": "bad"}]}
    ]}]}]}
}  # fmt: skip
NCCL_JSON = {
    "version": "2.17", "config": {"nranks": 8}, "results": [{"size": 8, "count": 2, "type": "float", "redop": "sum",
    "root": "-1", "out_of_place": {"time": 1.0, "alg_bw": 1.0, "bus_bw": 1.5, "nwrong": "0"}, "in_place": None}],
    "out_of_bounds": {"count": 0, "okay": "true"}, "average_bus_bandwidth": {"bandwidth": 1.5, "okay": "unchecked"},
}  # fmt: skip
MANIFESTS = """apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata: {name: a, namespace: nvidia-network-operator}
spec: {resourceName: rail1, numVfs: 8, nodeSelector: {a: b}, nicSelector: {vendor: "15b3", pfNames: ["ens1f0#0-3"]}}
---
apiVersion: nv-ipam.nvidia.com/v1alpha1
kind: CIDRPool
metadata: {name: rail}
spec: {cidr: 10.0.0.0/16, perNodeNetworkPrefix: 24, gatewayIndex: 1, routes: [{dst: 0.0.0.0/0}]}
---
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata: {name: nic-cluster-policy}
spec:
  rdmaSharedDevicePlugin:
    image: k8s-rdma-shared-dev-plugin
    config: '{"configList": [{"resourceName": "a", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}]}'
---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {name: v4}
spec: {subnet: 10.0.0.0/24, ips: [10.0.0.10-10.0.0.20], gateway: 10.0.0.1, routes: [{dst: 10.1.0.0/16, gw: 10.0.0.1}]}
"""
PARTED = """apiVersion: v1
kind: ConfigMap
metadata: {name: mig}
data:
  config.yaml: |
    version: v1
    mig-configs:
      all-1g.5gb:
        - {device-filter: ["0x20B010DE"], devices: [0, 1], mig-enabled: true, mig-devices: {1g.5gb: 7}}
"""
NETWORK = """network:
  version: 2
  ethernets:
    ens192: {match: {macaddress: "00:50:56:00:00:01"}, addresses: [10.0.0.2/24], routes: [{to: default, via: 10.0.0.1}]}
"""
ESXCLI = """NIC     Pause Params Supported  Pause RX  Pause TX  Auto Negotiation
------  ----------------------  --------  --------  ----------------
vmnic0  true                    true      false     true
"""
COALESCE = """NIC     RX microseconds  RX maximum frames  TX microseconds  TX Maximum frames  Adaptive RX  Adaptive TX
------  ---------------  -----------------  ---------------  -----------------  -----------  -----------
vmnic4  16               N/A                8                256                On           Off
"""
LSCPU = "CPU(s):  64\nThread(s) per core:  2\nCore(s) per socket:  16\nSocket(s):  2\n"
RULES = "groups: [{name: a, rules: [{alert: X, expr: up == 0, for: 5m, labels: {severity: warning}}]}]\n"
BASELINE = (
    "baseline: 1\nnccl: [{operation: all_reduce, busbw: 188.7, ranks: 16, size: 8589934592, sigma: 0.5, runs: 3}]\n"
)
MEGATRON = "baseline: 1\nmegatron: [{model: gpt-7b, tflops: 400.5, gpus: 16}]\n"


def read_baseline(text: str) -> BaselineFile:
    faults = FaultCollector()
    return read_model(BaselineFile, parse(text, "b.yml", faults), faults)


def documented(read: Callable[[str], object]) -> Callable[[str], object]:
    """A reader whose documentation names ValueError as its answer to a text that is none."""

    def quiet(text: str) -> object:
        try:
            return read(text)
        except ValueError:
            return None

    return quiet


def guest(name: str) -> Callable[[str], object]:
    def read(text: str) -> object:
        answer = CommandAnswer(0, text)
        if name == DEVICES.name:
            return rdma_addresses(answer)
        return answers.read_guest({name: answer})

    return read


def addresses(text: str) -> None:
    for word in text.split():
        read_pci.__wrapped__(word)  # what is cached is not read again
        documented(normal_pci)(word)
        documented(network_of)(word)


OTHER_FORMATS: dict[str, tuple[list[str], Callable[[str], object]]] = {
    "-L": ([LIST], lambda text: parse_gpu_list(0, text)),
    "topo -m": ([PATHS], lambda text: parse_device_paths(0, text)),
    **{f"guest: {asked.name}": ([text], guest(asked.name)) for asked, text in GUEST.items()},
    "dcgmi diag": (
        [json.dumps(DCGM), "| Deployment | Pass |\n| GPU Memory | Fail - GPU: 1 |\n"], documented(results_in)
    ),
    "counters": ([GUEST[answers.SYSFS]], lambda text: readings_in(text.splitlines(), NOW)),
    "outages": (
        ["[ 12.5] mlx5_core 0000:0b:00.0 ens1f0: Link down\n[ 60.5] mlx5_core 0000:0b:00.0 ens1f0: Link up\n"],
        lambda text: outages_in(text.splitlines(), NOW),
    ),
    "lscpu": ([LSCPU], documented(lambda text: machine_of(text, "MemTotal:  263000000 kB\n", "NVIDIA A100\n"))),
    "meminfo": (["MemTotal:  263000000 kB\n"], documented(lambda text: machine_of(LSCPU, text))),
    "nccl-tests JSON": ([json.dumps(NCCL_JSON), "NCCL INFO x\n" + json.dumps(NCCL_JSON, indent=1)], parse_json),
    "baseline": ([BASELINE, MEGATRON], read_baseline),
    "history": ([RESULT.as_text()], lambda text: read_stored(BenchmarkResult, text.encode(), "history.jsonl")),
    "burn": ([f'{MARK}{{"gpus": [], "seconds": 3}}\n'], lambda text: read_report(text.splitlines())),
    "burn samples": (["00000000:3B:00.0, 1410, 1410, 400.5, 61, 0x0000000000000001\n"], samples_in),
    "RAS": (
        ['{"communicators": [{"hash": "1", "ranks": []}]}', "Job summary\n  Nodes 2\nCommunicators...\n"], read_answer
    ),
    "TF_CONFIG": (['{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'], check_tf_config),
    "Prometheus rules": ([RULES], documented(lambda text: prometheus.faults(yaml_value(text)))),
    "manifests": ([MANIFESTS], checked),
    "mig-parted": ([PARTED], documented(lambda text: parted.read(yaml_value(text), lambda *_: None))),
    "network file": ([NETWORK], documented(read_network)),
    "esxcli": ([ESXCLI, COALESCE], lambda text: (pauses_in(text), coalescing_in(text))),
    "addresses": (["PCI 0:134:0:0 00000000:3B:00.0 3b:00.0 10.0.0.0/24 fd00::1/64 00000:059:00.0"], addresses),
}  # fmt: skip
"""Format -> texts as the programs print them, and what reads them."""
