"""Plans on the lab that a host would not carry out: refused with the figures, nothing is changed, what ran runs on.

Each farm has a neighbour that fits, where one does: the same plan is then carried out. The lab decides by its own
rules whether VMs power on and move.
"""

from __future__ import annotations

import json

import pytest
from support.gates import until
from support.vm_sets import INVENTORY, KEY

pytestmark = pytest.mark.lab
HOST = """
  - name: {name}
    cluster: gpu-a
    version: {version}
    memory_gb: {memory}
    cpu_cores: {cores}
    nvidia_driver: 535.261.03
    graphics_default: sharedDirect
    gpus:
      - {{pci: '0000:3b:00.0', board: a100-40gb, graphics_type: sharedDirect}}
      - {{pci: '0000:5b:00.0', board: a100-40gb, graphics_type: sharedDirect}}
    nics: [{{name: vmnic0, pci: '0000:18:00.0', model: X710, switch: dvs-lan}}]
    ssh: {{running: true}}
"""
LOCAL = "datastores: [{name: local-01, type: VMFS, hosts: [esx01.lab.local]}]\n"
TEMPLATE = """
  - name: tpl
    host: esx01.lab.local
    folder: ai
    network: dvpg-lan
    template: true
    memory_gb: 32
    cpus: 8
    disk_gb: 20
    disk_used_gb: 5
    firmware: %s
    extra_config: {vsphere-ai.image: cloud-init=24.1.3 renderer=netplan machine-id=clean}
"""
DEVICE = (
    "- hosts: esx01.lab.local\n  passthrough: {'0000:5b:00.0': true}\n  rolling: {evacuate: vmotion, timeout: 10s}\n"
)


def farm(
    vms,
    *,
    hosts=2,
    memory=256,
    cores=(64, 64, 64),
    version="7.0.2",
    rules="",
    drs="fullyAutomated",
    more="",
    cluster="",
):
    own = "".join(
        HOST.format(name=f"esx0{n}.lab.local", version=version, memory=memory, cores=cores[n - 1])
        for n in range(1, hosts + 1)
    )
    moves = ", vgpu_vmotion: true" if version.startswith("8") else ""
    return (
        "name: admission\n"
        "timing: {boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.05, guest_seconds: 0.1}\n"
        f"vcenter: {{version: {version}{moves}}}\n{more}"
        f"clusters: [{{name: gpu-a, drs: {drs}, rules: [{rules}]{cluster}}}]\n"
        "switches: [{name: dvs-lan, uplinks: 1, port_groups: [{name: dvpg-lan, vlan: 20}]}]\n"
        f"hosts:{own}vms:{vms}"
    )


def vm(name, host=1, **fields):
    told = "".join(f", {k}: {v}" for k, v in {"power": "on", "network": "dvpg-lan", **fields}.items())
    return f"\n  - {{name: {name}, host: esx0{host}.lab.local{told}}}"


def rule(kind, vms, **fields):
    told = "".join(f", {k}: {v}" for k, v in fields.items())
    return f"{{name: licence, kind: {kind}, mandatory: true, vms: [{vms}]{told}}}"


def made(cpus, more=""):
    return f"""
- vms: n-[01:02]
  vm_set:
    name: n
    source: tpl
    cluster: gpu-a
    folder: ai
    cpus: {cpus}
    memory_gb: 64
    nics: [{{name: mgmt, port_group: dvpg-lan, primary: true, addresses: mgmt}}]
    users: [{{name: ops, ssh_authorized_keys: [{KEY}]}}]
{more}"""


FULL = "- vms: t-[01:02]\n  hardware: {memory_reservation: full}\n"
UPGRADE = "- vms: t-01\n  hardware: {version: 19}\n"
CYCLED = "- hosts: esx01.lab.local\n  nics: {vmnic0: {speed: 10000}}\n  rolling: {evacuate: power_off, timeout: 10s}\n"
KEPT = ", ha: {enabled: true, admission_control: percentage, cpu_percent: 10, memory_percent: 60}"
ONE_HOST = ", ha: {enabled: true, admission_control: slots}"
LARGE = vm("g-01", memory_gb=120, memory_reservation_locked="true", tools="running") + vm(
    "g-02", host=2, memory_gb=120, memory_reservation_locked="true"
)
FAILOVER = ", ha: {enabled: true, admission_control: hosts, failover_hosts: [esx01.lab.local]}"
SWAPS = "datastores: [{name: full, type: VMFS, capacity_gb: 900, free_gb: 4}, {name: own, type: VMFS, hosts: [%s]}]\n"
SWAPPED = vm("t-01", memory_gb=32, memory_reservation_mb=32768, datastore="full")
UNRESERVED = "- vms: t-01\n  hardware: {memory_reservation: 0}\n"
GIVES_WAY = vm("m-01", memory_gb=150, memory_reservation_locked="true") + vm(
    "t-01", host=2, memory_gb=200, memory_reservation_mb=204800
)
CASES = {
    "a-swap-file-has-no-room-on-the-datastore-of-its-host-either": (
        farm(
            SWAPPED.replace("full", "own"),
            more=SWAPS.replace("900, free", "900, hosts: [esx02.lab.local], free").replace(
                "[%s]", "[esx01.lab.local], free_gb: 4, capacity_gb: 900"
            ),
            cluster=", swap: hostLocal",
        ).replace("    memory_gb: 256\n", "    memory_gb: 256\n    swap_datastore: own\n", 1),
        UNRESERVED,
        "admission.swap",
    ),
    "evacuated-before-a-vm-gives-way-that-has-to-be-apart": (
        farm(GIVES_WAY, version="8.0.3", rules=rule("anti-affinity", "t-01, m-01")),
        UNRESERVED + DEVICE,
        "rolling.nowhere",
    ),
    "a-swap-file-has-no-room": (farm(SWAPPED, more=SWAPS % "esx01.lab.local"), UNRESERVED, "admission.swap"),
    "clones-leave-no-room-for-a-swap-file": (
        farm(TEMPLATE % "efi", more="datastores: [{name: full, type: VMFS, capacity_gb: 900, free_gb: 72}]\n"),
        made(8, "").replace("memory_gb: 64", "memory_gb: 32\n    datastore: full"),
        "admission.swap",
    ),
    "together-though-only-preferred": (
        farm(vm("t-01") + vm("t-02", host=2), rules="{name: near, kind: affinity, vms: ['t-[01:02]']}"),
        "- vms: t-01\n  hardware: {version: 19}\n",
        "admission.vm-rule",
    ),
    "evacuated-though-ha-needs-the-host": (
        farm(vm("t-01", memory_gb=8), version="8.0.3", cluster=ONE_HOST),
        DEVICE,
        "rolling.nowhere",
    ),
    "more-vcpus-than-a-cluster-may-run": (
        farm(
            vm("t-01", cpus=16, tools="running") + vm("t-02", host=2, cpus=100),
            cluster=', drs_options: {MaxVcpusPerClusterPct: "75"}',
        ),
        CYCLED,
        "admission.vcpu-share",
    ),
    "less-than-ha-keeps": (farm(LARGE, cluster=KEPT), CYCLED, "admission.ha"),
    "no-slot-of-ha-is-left": (farm(LARGE + vm("g-03", memory_gb=8), cluster=ONE_HOST), CYCLED, "admission.ha"),
    "memory-reserved-twice": (
        farm(vm("t-01", memory_gb=160) + vm("t-02", memory_gb=160), hosts=1),
        FULL,
        "admission.memory",
    ),
    "apart-and-together": (
        farm(vm("t-01") + vm("t-02"), rules=rule("anti-affinity", "'t-[01:02]'"), drs="manual"),
        UPGRADE,
        "admission.vm-rule",
    ),
    "off-its-host": (
        farm(vm("t-01"), rules=rule("host-anti-affinity", "t-01", hosts="[esx01.lab.local]")),
        UPGRADE,
        "admission.host-rule",
    ),
    "evacuated-against-a-rule": (
        farm(vm("lic-01"), version="8.0.3", rules=rule("host-affinity", "lic-01", hosts="[esx01.lab.local]")),
        DEVICE,
        "rolling.nowhere",
    ),
    "evacuated-from-local-disks": (
        farm(vm("loc-01", datastore="local-01"), version="8.0.3", more=LOCAL),
        DEVICE,
        "rolling.nowhere",
    ),
    "evacuated-without-memory": (
        farm(
            vm("g-01", memory_gb=160, memory_reservation_locked="true")
            + vm("g-02", host=2, memory_gb=160, memory_reservation_locked="true"),
            version="8.0.3",
        ),
        DEVICE,
        "rolling.nowhere",
    ),
    "more-vcpus-than-its-host": (
        farm(vm("t-01"), cores=(8, 8)),
        "- vms: t-01\n  tuning: {cpus: 24}\n",
        "admission.vcpus",
    ),
    "another-product-keeps-the-source-from-being-cloned": (
        farm((TEMPLATE % "efi").replace("    firmware", "    disabled_methods: [CloneVM_Task]\n    firmware")),
        made(8),
        "vm_set.source-disabled",
    ),
    "more-vcpus-than-esxi-runs": (
        farm(vm("t-01"), cores=(512, 512)).replace("    version: 7.0.2\n", "    version: 7.0.0\n"),
        "- vms: t-01\n  tuning: {cpus: 300}\n",
        "admission.vcpus",
    ),
    "evacuated-though-bound-to-processors": (
        farm(vm("t-01", cpu_affinity="[0, 1]"), version="8.0.3"),
        DEVICE,
        "rolling.nowhere",
    ),
    "more-vcpus-than-any-host": (farm(TEMPLATE % "efi"), made(160), "vm_set.no-host"),
    "installed-under-bios": (farm(TEMPLATE % "bios"), made(8, "  vgpu: [grid_a100x-40c]\n"), "vgpu.firmware"),
}


@pytest.fixture
def on(cli, make_lab, monkeypatch):
    def start(scenario):
        lab = make_lab(scenario)
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
        cli.lab, cli.inventory = lab, cli.file(INVENTORY, "inventory.yml")
        return cli

    return start


def running(lab):
    return {vm["name"] for vm in lab.get("/lab/farm")["vms"] if vm["power"] == "poweredOn"}


def changed(lab):
    """Calls that changed a VM or a host; a run that gives addresses takes its lock before it plans."""
    names = ("esx", "tpl", "t-", "n-", "lic-", "loc-", "g-")
    return [e for e in lab.get("/lab/ledger")["entries"] if e["object"].startswith(names)]


@pytest.mark.parametrize("name", CASES)
def test_what_a_host_would_refuse_is_refused_before_anything_is_done(on, name):
    scenario, playbook, rule_id = CASES[name]
    cli = on(scenario)
    before = running(cli.lab)
    path = cli.file(playbook)
    assert cli("plan", "-i", cli.inventory, path, "-o", "json") == 1
    plan = json.loads(cli.out)
    assert rule_id in {p["rule"] for p in plan["problems"]}, plan["problems"]
    assert cli("apply", "-i", cli.inventory, path, "--yes") == 1
    assert not changed(cli.lab)
    assert running(cli.lab) == before


GROWS = "- vms: t-01\n  hardware: {memory_reservation: full}\n"
POOLS = ", pools: [{path: lean}, {path: kept, memory_reservation_mb: 153600, memory_expandable: false}]"
SHRUNK = (
    farm(vm("t-01", host=2, memory_gb=140, pool="lean"), version="8.0.3", cluster=POOLS),
    DEVICE + FULL.replace("t-[01:02]", "t-01"),
)
"""While esx01 is out of service, esx02 has the memory for the VM, and the pools of the cluster have not."""
FITTING = {
    "in-a-pool-that-has-less-while-a-host-is-out": SHRUNK,
    "a-new-vm-beside-one-that-the-same-plan-lets-reserve-more": (
        farm(
            (TEMPLATE % "efi") + vm("t-01", memory_gb=200) + "".join(vm(f"t-0{n}", host=2, memory_gb=8) for n in (2, 3))
        ),
        made(8, "  hardware: {memory_reservation: full}\n").replace("n-[01:02]", "n-01") + GROWS,
    ),
    "evacuated-once-a-vm-of-another-host-has-given-way": (farm(GIVES_WAY, version="8.0.3"), DEVICE + UNRESERVED),
    "what-stays-off-takes-nothing": (
        farm(vm("t-01", memory_gb=160) + vm("t-02", memory_gb=160, power="off"), hosts=1),
        FULL,
    ),
    "another-host-than-the-one-kept-for-a-failover": (farm(TEMPLATE % "efi", cluster=FAILOVER), made(8)),
    "evacuated-with-a-host-to-spare": (
        farm(vm("t-01", memory_gb=8), version="8.0.3", hosts=3, cluster=ONE_HOST),
        DEVICE,
    ),
    # no public source has a least number of hosts for a percentage: it refuses nothing
    "evacuated-though-ha-keeps-a-part": (
        farm(vm("t-01", memory_gb=8), version="8.0.3", cluster=KEPT),
        DEVICE,
    ),
    "a-swap-file-on-the-datastore-of-its-host": (
        farm(SWAPPED, more=SWAPS % "esx01.lab.local", cluster=", swap: hostLocal").replace(
            "    memory_gb: 256\n", "    memory_gb: 256\n    swap_datastore: own\n", 1
        ),
        UNRESERVED,
    ),
    "more-vcpus-than-its-host-while-off": (
        farm(vm("t-01", power="off"), cores=(8, 8)),
        "- vms: t-01\n  tuning: {cpus: 24}\n",
    ),
    "a-slot-of-ha-is-left": (farm(LARGE, cluster=ONE_HOST, hosts=3), CYCLED),
    "memory-reserved": (farm(vm("t-01", memory_gb=100) + vm("t-02", memory_gb=100), hosts=1), FULL),
    "apart-with-a-third-host": (
        farm(vm("t-01") + vm("t-02", host=2), hosts=3, version="8.0.3", rules=rule("anti-affinity", "'t-[01:02]'")),
        DEVICE,
    ),
    "two-vcpus-share-a-core-that-is-theirs-alone": (
        farm(
            vm(
                "t-01", cpus=20, simultaneous_threads=2, latency="high", cpu_reservation_mhz=40_000, hardware=20
            ).replace("network:", "memory_reservation_locked: true, network:"),
            cores=(64, 64),
            version="8.0.3",
        ),
        "- vms: t-01\n  hardware: {version: 21}\n",
    ),
    "one-host-has-enough-cpus": (farm(TEMPLATE % "efi", cores=(16, 64, 64)), made(64)),
}


@pytest.mark.parametrize("name", FITTING)
def test_what_fits_is_carried_out(on, name):
    scenario, playbook = FITTING[name]
    cli = on(scenario)
    before = running(cli.lab)
    assert cli("apply", "-i", cli.inventory, cli.file(playbook), "--yes") == 0, cli.out + cli.err
    assert running(cli.lab) >= before


def entering(client, name):
    """Let someone bring a host into maintenance mode that its VM does not leave; return the task."""
    task = client.host(name).EnterMaintenanceMode_Task(0, False, None)
    until(lambda: task.info.state == "running")
    return task


def test_a_host_that_enters_maintenance_mode_takes_no_vm(on, new_client):
    """`inMaintenanceMode` is false until the last VM has left."""
    cli = on(farm(vm("t-01") + TEMPLATE % "efi" + vm("g-01", host=2), drs="manual"))
    client = new_client(cli.lab)
    task = entering(client, "esx01")
    upgrade = cli.file(UPGRADE, "upgrade.yml")
    assert cli("plan", "-i", cli.inventory, upgrade, "-o", "json") == 1
    assert [(p["rule"], "entering maintenance mode" in p["message"]) for p in json.loads(cli.out)["problems"]] == [
        ("admission.host-state", True)
    ]
    assert cli("apply", "-i", cli.inventory, cli.file(made(8), "made.yml"), "--yes") == 0, cli.out + cli.err
    assert {v["host"] for v in cli.lab.get("/lab/farm")["vms"] if v["name"].startswith("n-")} == {"esx02.lab.local"}
    task.CancelTask()
    until(lambda: task.info.state == "error")
    assert cli("apply", "-i", cli.inventory, upgrade, "--yes") == 0, cli.out + cli.err


def test_nothing_is_cloned_from_a_host_in_maintenance_mode(on, new_client):
    """vCenter's own check refuses it too, but is not asked where the plan changes the host."""
    cli = on(farm((TEMPLATE % "efi") + vm("t-01", host=2)))
    client = new_client(cli.lab)
    client.wait(client.host("esx01").EnterMaintenanceMode_Task(0, False, None))
    path = cli.file(made(8))
    assert cli("plan", "-i", cli.inventory, path, "-o", "json") == 1
    assert "vm_set.source-host" in {p["rule"] for p in json.loads(cli.out)["problems"]}
    client.wait(client.host("esx01").ExitMaintenanceMode_Task(0))
    assert cli("apply", "-i", cli.inventory, path, "--yes") == 0, cli.out + cli.err


def test_a_power_on_that_its_pool_refuses_beside_a_window_comes_after_it(on):
    cli = on(SHRUNK[0])
    assert cli("plan", "-i", cli.inventory, cli.file(SHRUNK[1]), "-o", "json") == 0, cli.out + cli.err
    order = [(step["target"]["name"], step["summary"].partition(" ")[0]) for step in json.loads(cli.out)["steps"]]
    assert order.index(("t-01", "shut")) > order.index(("esx01.lab.local", "leave"))
