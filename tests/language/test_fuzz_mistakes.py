"""T-63, T-62: fifty slips of the hand, and how many of them are answered with what was meant; scalars as written."""

from __future__ import annotations

import pytest
from support.places import PLAYBOOKS

from vsphere_ai.errors import InputError
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.language.inventories.patterns import parse as parse_pattern
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.language.yaml_files.document import parse
from vsphere_ai.resources import kinds

PLAYBOOK = """- name: hosts
  hosts: gpu_hosts
  graphics: {default_type: shared_direct, assignment_policy: performance}
  mig: {mode: enabled, layout: [3g.20gb, 2g.10gb]}
  rolling: {max_unavailable: 1, evacuate: power_off, reboot: ssh, timeout: 30m}
- name: vms
  vms: train-[01:04]
  hardware: {version: 19, firmware: efi, memory_reservation: full}
  vgpu: {profiles: [grid_a100-3-20c]}
  pvrdma: [{port_group: dvpg-rdma, protocol: rocev2}]
  power: {shutdown_timeout: 2m, force: true}
"""
INVENTORY = """vcenters:
  prod: {address: vc.example.com, port: 443, username: svc, password: "env:VC", tls: {ca_file: ca.pem}}
hosts:
  gpu_hosts: {cluster: gpu-a}
vms:
  training: {folder: ai/training}
ssh: {username: root, password: "env:SSH", known_hosts: known_hosts, start_service: apply}
"""
# what was typed, instead of what, and a word of the answer that says what is right
TYPED = [
    ("playbook", "graphcis:", "graphics:", "did you mean 'graphics'"),
    ("playbook", "  Graphics:", "  graphics:", "did you mean 'graphics'"),
    ("playbook", "defaulttype:", "default_type:", "did you mean 'default_type'"),
    ("playbook", "default-type:", "default_type:", "did you mean 'default_type'"),
    ("playbook", "assignment_polcy:", "assignment_policy:", "did you mean 'assignment_policy'"),
    ("playbook", "shared-direct", "shared_direct", "did you mean 'shared_direct'"),
    ("playbook", "sharedDirect", "shared_direct", "did you mean 'shared_direct'"),
    ("playbook", "Performance", "performance", "did you mean 'performance'"),
    ("playbook", "mgi:", "mig:", "did you mean 'mig'"),
    ("playbook", "mod:", "mode:", "did you mean 'mode'"),
    ("playbook", "mode: on", "mode: enabled", "enabled"),
    ("playbook", "mode: enable", "mode: enabled", "did you mean 'enabled'"),
    ("playbook", "layuot:", "layout:", "did you mean 'layout'"),
    ("playbook", "[3g.20g,", "[3g.20gb,", "3g.20gb"),
    ("playbook", "[3g20gb,", "[3g.20gb,", "3g.20gb"),
    ("playbook", "roling:", "rolling:", "did you mean 'rolling'"),
    ("playbook", "max_unavailble:", "max_unavailable:", "did you mean 'max_unavailable'"),
    ("playbook", "max_unavailable: 0", "max_unavailable: 1", "1 or more"),
    ("playbook", "max_unavailable: 25", "max_unavailable: 1", None),
    ("playbook", "max_unavailable: 25 %", "max_unavailable: 1", "25%"),
    ("playbook", "evacuate: poweroff", "evacuate: power_off", "did you mean 'power_off'"),
    ("playbook", "evacuate: vMotion", "evacuate: power_off", "did you mean 'vmotion'"),
    ("playbook", "reboot: api_", "reboot: ssh", "api"),
    ("playbook", "timeout: 30 ", "timeout: 30m", "30m"),
    ("playbook", "timeout: 30min", "timeout: 30m", "30m"),
    ("playbook", "- name: hosts\n  host:", "- name: hosts\n  hosts:", "did you mean 'hosts'"),
    ("playbook", "vm:", "vms:", "did you mean 'vms'"),
    ("playbook", "train-[01:4]", "train-[01:04]", "both ends equally wide"),
    ("playbook", "train-[04:01]", "train-[01:04]", "low end first"),
    ("playbook", "version: vmx-19", "version: 19", "a whole number"),
    ("playbook", 'version: "19"', "version: 19", "a whole number"),
    ("playbook", "version: 190", "version: 19", "at most"),
    ("playbook", "firmware: uefi", "firmware: efi", "did you mean 'efi'"),
    ("playbook", "memory_reservation: fulll", "memory_reservation: full", "full"),
    ("playbook", "memory_reservations:", "memory_reservation:", "did you mean 'memory_reservation'"),
    ("playbook", "profile:", "profiles:", "did you mean 'profiles'"),
    ("playbook", "vGPU:", "vgpu:", "did you mean 'vgpu'"),
    ("playbook", "portgroup:", "port_group:", "did you mean 'port_group'"),
    ("playbook", "protocol: RoCEv2", "protocol: rocev2", "did you mean 'rocev2'"),
    ("playbook", "force: yes", "force: true", "true"),
    ("playbook", "  power:", "  power_:", None),
    ("inventory", "vcenter:", "vcenters:", "did you mean 'vcenters'"),
    ("inventory", "adress:", "address:", "did you mean 'address'"),
    ("inventory", "https://vc.example.com/sdk", "vc.example.com", "only: vc.example.com"),
    ("inventory", "vc.example.com:443", "vc.example.com", "port"),
    ("inventory", "password: $VC", 'password: "env:VC"', '"env:NAME"'),
    ("inventory", "user:", "username:", "did you mean 'username'"),
    ("inventory", "cafile:", "ca_file:", "did you mean 'ca_file'"),
    ("inventory", "verify: false", "ca_file: ca.pem", "ca_file, fingerprint"),
    ("inventory", "clsuter:", "cluster:", "did you mean 'cluster'"),
    ("inventory", "floder:", "folder:", "did you mean 'folder'"),
    ("inventory", "known_host:", "known_hosts:", "did you mean 'known_hosts'"),
    ("inventory", "start_service: alway", "start_service: apply", "did you mean 'always'"),
]
MISTAKES = [m for m in TYPED if m[3] is not None and m[2] in (PLAYBOOK if m[0] == "playbook" else INVENTORY)]


def answers(kind, text, folder):
    path = folder / f"{kind}.yml"
    path.write_text(text, encoding="utf-8")
    try:
        load_playbook(path, kinds()) if kind == "playbook" else load_inventory(path)
    except InputError as error:
        return error.diagnostics
    return ()


def test_the_files_without_mistakes_are_good(tmp_path):
    assert answers("playbook", PLAYBOOK, tmp_path) == ()
    assert answers("inventory", INVENTORY, tmp_path) == ()


def test_of_fifty_mistakes_nine_in_ten_are_answered_with_what_was_meant(tmp_path):
    wrong = []
    for kind, typed, meant, answer in MISTAKES:
        good = PLAYBOOK if kind == "playbook" else INVENTORY
        text = good.replace(meant, typed, 1)
        found = answers(kind, text, tmp_path)
        assert found, f"{typed!r} was not noticed"
        said = " ".join(f"{d.message} {d.help}" for d in found)
        line = text[: text.index(typed)].count("\n") + 1 + typed.count("\n")
        if answer not in said or line not in {d.mark.line for d in found}:
            wrong.append((typed, [f"{d.mark.line}: {d.message} / {d.help}" for d in found]))
    assert len(MISTAKES) >= 50
    assert len(wrong) <= len(MISTAKES) // 10, wrong


def test_every_mistake_of_a_file_is_named_in_one_run(tmp_path):
    inner = ["defaulttype:", "shared-direct", "layuot:", "[3g20gb,", "max_unavailble:", "timeout: 30min", "uefi",
             "memory_reservations:", "train-[04:01]", "profile:", "portgroup:", "protocol: RoCEv2"]  # fmt: skip
    text = PLAYBOOK
    for _, typed, meant, _ in MISTAKES:
        if any(word in typed for word in inner):
            text = text.replace(meant, typed, 1)
    assert all(word in text for word in inner)
    # what a misspelt key holds is not looked into
    hidden = {"shared-direct", "[3g20gb,"}
    places = {text[: text.index(w)].count("\n") + 1 for w in inner if w not in hidden}
    found = answers("playbook", text, tmp_path)
    assert {d.mark.line for d in found} == places
    assert len(found) >= len(inner) - len(hidden)


# -- T-62

SCALARS = [
    *("0000:04:00.0", "0000:00:02.0", "52:54:00:12:34:56", "12:30", "017", "no", "on", "off", "yes"),
    *("20e0", "1_000", "2001-99-99", "7.0.2", "0b101"),
]


def test_there_are_fourteen():
    assert len(set(SCALARS)) == 14


@pytest.mark.parametrize("text", SCALARS)
def test_a_tricky_scalar_stays_text_everywhere(text, tmp_path):
    assert parse(f"a: {text}\nb: [{text}]\n{text}: c\n", "a.yml").data == {"a": text, "b": (text,), text: "c"}
    path = tmp_path / "play.yml"
    path.write_text(f"- name: {text}\n  vms: {text.replace(':', '-')}\n  vgpu: [{text}]\n", encoding="utf-8")
    (play,) = load_playbook(path, kinds()).plays
    assert play.name == text
    assert play.states[0].state.profiles == (text,)


@pytest.mark.parametrize("text", ["0000:04:00.0", "52:54:00:12:34:56"])
def test_a_pattern_with_colons_is_its_parts(text):
    assert [t.name for t in parse_pattern(text)] == text.split(":")


@pytest.mark.parametrize(
    ("written", "help"),
    [("19", 'quote it: "19"'), ("1.5", 'quote it: "1.5"'), ("true", 'quote it: "true"'), ("0x1F", 'quote it: "0x1F"')],
)
def test_what_is_no_text_is_never_made_one(written, help, tmp_path):
    (found,) = answers("playbook", f"- vms: a\n  vgpu: [{written}]\n", tmp_path)
    assert (found.mark.line, found.mark.column) == (2, 10)
    assert help in found.help


def test_the_examples_read_the_same_quoted_and_not():
    for path in sorted(PLAYBOOKS.glob("*.yml")):
        assert load_playbook(path, kinds()).plays
