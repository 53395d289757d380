"""Every kind alone and all of them together: plan, apply, plan again is empty, and the second apply changes nothing."""

from __future__ import annotations

import pytest
from support.every_kind import ALONE, TOGETHER

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


def test_every_kind_is_here():
    assert set(ALONE) == set(kinds())
    for kind in kinds():
        assert f" {kind}:" in ALONE[kind]
        assert f" {kind}:" in TOGETHER


@pytest.mark.parametrize("kind", sorted(ALONE))
def test_a_kind_alone(cli, ledger, kind):
    playbook = cli.file(ALONE[kind])
    assert cli("plan", playbook, "--detailed-exitcode") == 2, cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert ledger()
    assert all(len(reboots(ledger, host)) <= 1 for host in HOSTS)
    settled(cli, playbook, ledger)


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
