"""The address ledger in the lab's vCenter: kept over logins, under its lock only, with its privileges named."""

from __future__ import annotations

import pytest

from vsphere_ai.connect import vcenter_lock
from vsphere_ai.connect.address_ledger import HEAD, PRIVILEGES, read_text, write_text
from vsphere_ai.connect.soap.outage import WaitLimits
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.errors import Denied, Locked

pytestmark = pytest.mark.lab


def connected(lab):
    password = (lab.directory / "password").read_text(encoding="utf-8").strip()
    endpoint = Endpoint("127.0.0.1", lab.port, "administrator@vsphere.local", password, lab.directory / "ca.pem")
    return VCenter.connect(endpoint, limits=WaitLimits(patience=2, backoff=0.05))


def locked(vcenter):
    holder = vcenter_lock.LockHolder("alice", "build7", 1, "run")
    return vcenter_lock.acquire(vcenter, holder, announce=lambda _: None)


def test_a_ledger_is_kept_in_custom_attributes_of_the_root_folder(lab):
    text = "é" * 50_000
    with connected(lab) as vcenter:
        lock = locked(vcenter)
        before = read_text(vcenter)
        assert before.text == ""
        one = write_text(lock, before, text)
        assert write_text(lock, one, "two").text == "two"
        lock.release()
    with connected(lab) as vcenter:
        assert read_text(vcenter).text == "two"
    made = [e["detail"]["name"] for e in lab.get("/lab/ledger")["entries"] if e["call"] == "AddCustomFieldDef"]
    assert made == [f"{HEAD} a1", HEAD, f"{HEAD} b1"]


def test_without_the_lock_nothing_is_written(lab):
    with connected(lab) as vcenter:
        lock, before = locked(vcenter), read_text(vcenter)
        lock.release()
        with pytest.raises(Locked):
            write_text(lock, before, "one")
        assert read_text(vcenter) == before


@pytest.mark.parametrize("privilege", PRIVILEGES)
def test_a_privilege_that_is_missing_is_named(privilege, make_lab, quick_scenario):
    scenario = quick_scenario.read_text("utf-8") + f"\nprivileges_denied: [{privilege}]\n"
    with connected(make_lab(scenario)) as vcenter:
        lock = locked(vcenter)
        with pytest.raises(Denied) as refusal:
            write_text(lock, read_text(vcenter), "one")
        assert privilege in refusal.value.remedy
        assert read_text(vcenter).text == ""
