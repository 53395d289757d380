"""T-60: whatever is in a file, reading it ends in a value or in faults with file, line and column. Never a traceback.

40,000 files per run, 100,000 with RELIABILITY=full, 1,000,000 with RELIABILITY=all.
A failing file is replayed from its own name: `RELIABILITY_SEED=N pytest tests/language/test_fuzz.py -k NAME`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time

import pytest
from support.fuzzing import SEED, made_up, one_by_one, originals, skeletons, spoilt
from support.places import ROOT
from support.seeds import by_level

from vsphere_ai.errors import InputError, UsageError
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.language.playbooks.variables import Overrides
from vsphere_ai.language.yaml_files.document import parse
from vsphere_ai.resources import kinds

FILES, PARTS = by_level((2_000, 1), (50_000, 2), (500_000, 10))
"""How many of each way of making them, and in how many tests, so that every core has some."""
SHARE = {"playbook": 0.45, "inventory": 0.3, "values": 0.05, "scenario": 0.05, "faults": 0.15}
PLAYBOOKS, INCLUDED = ROOT / "playbooks", "sites/time.yml"
"""The file that one of the playbooks includes."""
VARIABLES = ROOT / "tests" / "language" / "variables.yml"
SLOWEST = 2.0
"""CPU seconds for one file."""


def read_scenario(path):
    from vsphere_ai.lab import scenario_file

    return scenario_file.load(path)


def read_faults(path):
    from vsphere_ai.lab.faults import rule_file

    return rule_file.load(path)


def read_values(path):
    overrides = Overrides(files=(path,))
    return load_playbook(VARIABLES, kinds(), overrides=overrides)


READERS = {
    "values": read_values,
    "playbook": lambda path: load_playbook(path, kinds()),
    "inventory": load_inventory,
    "scenario": read_scenario,
    "faults": read_faults,
}


def overwrite(path, content):
    """Write a file in place; one that is made empty first is flushed to the disk when it is closed (ext4)."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(file, content)
    os.ftruncate(file, len(content))
    os.close(file)


def judged(kind, path, content):
    """Read a file; say 'read' or 'refused', or raise AssertionError when it is refused without a place."""
    overwrite(path, content)
    begun, refusal = time.process_time(), None
    try:
        READERS[kind](path)
        outcome = "read"
    except InputError as error:
        outcome, refusal = "refused", error
    except UsageError as error:
        outcome, refusal = "read", error
    took = time.process_time() - begun
    if outcome == "refused":
        well_placed(refusal, path, content)
    elif refusal:
        assert "no lab is running" in refusal.message  # it says `lab: true`
    assert took < SLOWEST, f"took {took:.1f} s"
    return outcome


def well_placed(error, path, content):
    """Every fault names the file, a line and a column that are in it."""
    texts = {str(path): content, str(path.parent / INCLUDED): (PLAYBOOKS / INCLUDED).read_bytes()}
    assert error.exit_code == 65
    assert error.diagnostics
    for diagnostic in error.diagnostics:
        mark = diagnostic.mark
        lines = texts[mark.file].decode("utf-8", "replace").splitlines()
        assert 1 <= mark.line <= len(lines) + 1, diagnostic
        assert 1 <= mark.column <= max(map(len, lines), default=0) + 2, diagnostic
        assert diagnostic.message


@pytest.fixture(autouse=True)
def _no_lab(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(tmp_path / "no-lab"))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("way", ["spoilt", "made-up"])
def test_every_file_is_read_or_refused_with_its_place(kind, way, part, tmp_path):
    make, sources = (spoilt, originals(kind)) if way == "spoilt" else (made_up, skeletons(kind))
    each = int(FILES * SHARE[kind]) // PARTS
    path, outcomes = tmp_path / "file.yml", {"read": 0, "refused": 0}
    shutil.copytree(PLAYBOOKS / "sites", tmp_path / "sites")
    for number in range(part * each, (part + 1) * each):
        content = make(random.Random(f"{SEED} {kind} {way} {number}"), sources)
        try:
            outcomes[judged(kind, path, content)] += 1
        except Exception as error:
            kept = tmp_path / f"{kind}-{way}-{number}.yml"
            kept.write_bytes(content)
            pytest.fail(f"seed {SEED}, file {number}, kept as {kept}: {type(error).__name__}: {error}\n{content!r}")
    print(f"fuzz {kind} {way}: {each} files, {outcomes['read']} read, seed {SEED}")
    assert outcomes["refused"] > each * 0.2, "the files are too good to find anything"
    assert outcomes["read"] > each * 0.005, "the files are too bad to get beyond the parser"


GOOD = {
    "values": "site: Berlin\ngpu_hosts: [a, b]\ntraining_vms: c\ntime_servers: [10.0.0.1]\ncpu_mhz: 7\nx-a: {b: [c]}\n",
    "playbook": """
- vars:
    version: {type: integer, default: 19, allowed: [19, 20], description: of the hardware}
    mode: enabled
    groups: [grid_a100-3-20c]
- x-power: &power {shutdown_timeout: 2m, force: true}
- name: hosts
  hosts: gpu_hosts
  vcenter: vc
  graphics: {default_type: shared_direct, assignment_policy: performance}
  vars: {mode: disabled}
  mig: {mode: "${mode}", layout: [3g.20gb], gpus: {"0000:3b:00.0": {mode: enabled, layout: [9]}}}
  rolling: {max_unavailable: 1, evacuate: power_off, reboot: ssh, timeout: 30m}
- vms: train-[01:04]
  spare_hosts: 1
  hardware: {version: "${version}", firmware: efi, memory_reservation: full, cpu_reservation_mhz: 1000}
  vgpu: {profiles: "${groups}", memory_locked: true}
  pvrdma: [{port_group: dvpg-rdma, protocol: rocev2}]
  power: {<<: *power, force: false}
""",
    "inventory": """
vcenters:
  vc: {address: vc.example.com, port: 443, username: u, password: "env:VC", tls: {ca_file: ca.pem}}
vars: {a: 1, b: [c]}
x-a: &a {d: true}
host_vars: {a: {<<: *a, b: 2}}
hosts: {gpu_hosts: {cluster: gpu-a, vars: {a: x}}, named: [a, b]}
vms: {training: {folder: ai, names: [a]}}
ssh: {username: root, password: "env:SSH", known_hosts: known_hosts, start_service: apply, addresses: {a: "b:22"}}
""",
    "scenario": """
name: x
vcenter: {version: 7.0.2, build: 1, api: 7.0.2.0}
timing: {boot_seconds: 1}
clusters: [{name: c}]
switches: [{name: s, uplinks: 2, port_groups: [{name: g, vlan: 7}]}]
hosts: [{name: h, cluster: c, memory_gb: 8, gpus: [{pci: "0000:3b:00.0", board: a100-40gb, link: a}],
         ssh: {running: true}, device_groups: [{name: "Nvidia:2@x%NVLink", vgpu: nvidia_h100l-94c, count: 2}]}]
vms: [{name: v, host: h, cpus: 1, memory_gb: 1, vgpu: [grid_a100-40c]}]
""",
    "faults": """
- {on: ReconfigVM_Task, target: x, nth: 2, when: after, do: {restart: 2s, starting: 1s}}
- {on: any, probability: 0.5, seed: 3, times: 4, do: {delay: 200ms}}
""",
}


@pytest.mark.parametrize("kind", READERS)
def test_every_value_of_every_kind_at_every_place(kind, tmp_path):
    path, refused, made = tmp_path / "file.yml", 0, 0
    value = parse(GOOD[kind], kind).data
    for what, changed in one_by_one(value):
        content = json.dumps(changed).encode()
        try:
            refused += judged(kind, path, content) == "refused"
        except Exception as error:
            pytest.fail(f"{what}: {type(error).__name__}: {error}\n{content!r}")
        made += 1
    assert made > (60 if kind == "values" else 400)
    assert refused > made // (3 if kind == "values" else 2)
