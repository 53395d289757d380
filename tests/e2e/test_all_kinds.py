"""Every kind alone and all of them together: plan, apply, plan again is empty, and the second apply changes nothing."""

from __future__ import annotations

import pytest
from support.every_kind import ALONE, APART, FARMS, TOGETHER, file_of

from vsphere_ai.resources import kinds

pytestmark = pytest.mark.lab
HOSTS = ("esx01.lab.local", "esx02.lab.local", "esx03.lab.local")


def settled(cli, playbook, ledger):
    before = len(ledger())
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert ledger()[before:] == []


def reboots(ledger, host):
    return [e for e in ledger(host) if "reboot" in e["call"].casefold()]


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_every_kind_is_here(kind):
    path = file_of(kind).name
    assert f" {kind}:" in ALONE.get(kind, ""), f"{path}: declare ALONE, a playbook with {kind}"
    together = f" {kind}:" in TOGETHER
    assert together or APART.get(kind), f"{path}: {kind} is not in TOGETHER; say in APART why"
    assert not (together and kind in APART), f"{path}: {kind} is in TOGETHER, so APART is not true"


def alone(cli, ledger, playbook):
    assert cli("plan", playbook, "--detailed-exitcode") == 2, cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert ledger()
    assert all(len(reboots(ledger, host)) <= 1 for host in {e["object"] for e in ledger()})
    settled(cli, playbook, ledger)


@pytest.mark.parametrize("kind", sorted({*ALONE} - {*FARMS}))
def test_a_kind_alone(cli, ledger, kind):
    alone(cli, ledger, cli.file(ALONE[kind]))


@pytest.mark.parametrize("kind", sorted({*ALONE} & {*FARMS}))
def test_a_kind_alone_on_a_farm_of_its_own(cli, make_lab, monkeypatch, kind):
    farm = make_lab(FARMS[kind])
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(farm.directory))

    def entries(target=None, call=None):
        found = farm.get("/lab/ledger")["entries"]
        return [e for e in found if target in (None, e["object"]) and call in (None, e["call"])]

    alone(cli, entries, cli.file(ALONE[kind]))


def test_all_kinds_together(cli, ledger):
    playbook = cli.file(TOGETHER)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert [len(reboots(ledger, host)) for host in HOSTS] == [1, 1, 0]
    for name, cycles in (("train-01", 1), ("train-04", 0)):  # the second was off, and is left off
        assert len(ledger(name, "ReconfigVM_Task")) == 1
        assert len(ledger(name, "PowerOnVM_Task")) == cycles
    (entry,) = ledger("train-01", "ReconfigVM_Task")
    assert sorted(d["type"] for d in entry["detail"]["devices"]) == [
        "VirtualPCIPassthrough",
        "VirtualSriovEthernetCard",
        "VirtualVmxnet3",
        "VirtualVmxnet3Vrdma",
    ]  # the fifth, the first vmxnet3, was there
    settled(cli, playbook, ledger)
    assert cli("rdma", "trace", "train-01") == 0, cli.out
