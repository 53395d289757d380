"""`doctor`: each check against what makes it fail."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from importlib import metadata, resources

import pytest

from vsphere_ai.app.project import doctor_checks as doctor
from vsphere_ai.model.facts import About, Estate, Facts

NOT_REACHED = ("vCenter", "unknown")
"""The remark that ends what is shown where no vCenter can be asked."""


def by_verdict(checks):
    return {(c.verdict, c.message) for c in checks}


def test_libraries_are_compared_with_what_this_release_needs(monkeypatch):
    assert {c.verdict for c in doctor.libraries()} == {"pass"}
    names = {c.message.partition(" ")[0] for c in doctor.libraries()}
    assert {"pyvmomi", "paramiko", "pydantic", "PyYAML"} <= names
    assert "pytest" not in names, "extras are nobody's need"

    real = metadata.version

    def version(name):
        if name == "rich":
            raise metadata.PackageNotFoundError(name)
        return {"paramiko": "3.4.1", "click": "8.1"}.get(name) or real(name)

    monkeypatch.setattr(metadata, "version", version)
    found = {c.message: c for c in doctor.libraries() if c.verdict == "fail"}
    assert set(found) == {"click 8.1 is older than 8.4.2", "paramiko 3.4.1 is older than 3.5", "rich is not installed"}
    assert found["rich is not installed"].remedy.startswith("pip install 'rich")


@pytest.mark.parametrize(
    ("ahead", "verdict"),
    [(0, "pass"), (4, "pass"), (-4, "pass"), (20, "warn"), (-20, "warn"), (600, "fail"), (-600, "fail")],
)
def test_clocks(ahead, verdict):
    check = doctor.clock(lambda: datetime.now(UTC) + timedelta(seconds=ahead))
    assert check.verdict == verdict
    assert bool(check.remedy) is (verdict != "pass")
    if ahead:
        assert ("ahead of" if ahead > 0 else "behind") in check.message


@pytest.mark.parametrize(
    ("api", "drs", "verdict", "said"),
    [
        ("7.0.2.0", {"enabled": False}, "pass", "DRS is off"),
        ("7.0.2.0", {"enabled": True}, "pass", "does not migrate"),
        ("7.0.2.0", {"enabled": True, "option": [{"key": doctor.EVACUATION, "value": "-1"}]}, "warn", "no effect"),
        ("8.0.2.0", {"enabled": True, "option": [{"key": doctor.EVACUATION, "value": "-1"}]}, "pass", "may migrate"),
    ],
)
def test_what_drs_does_with_vgpu_vms(api, drs, verdict, said):
    cluster = Facts("ClusterComputeResource:c1", {"name": "gpu-a", "configurationEx": {"drsConfig": drs}})
    (check,) = doctor.clusters(Estate(About("vc", "7", "1", api, "i"), {cluster.ref: cluster}))
    assert (check.verdict, str(check.target)) == (verdict, "gpu-a")
    assert said in check.message


@pytest.mark.parametrize(("one", "two"), [("3.5", "3.5.0"), ("10", "9.9"), ("8.1.7", "8.1"), ("9.1.1.0", "8.0.3")])
def test_versions_are_compared_by_number(one, two):
    assert doctor._numbers(one) >= doctor._numbers(two)


@pytest.fixture
def looked(tool):
    """Run `doctor`; return its exit code, and its checks that are not well as (name, verdict) -> message and remedy."""

    def look(*arguments):
        code = tool("doctor", *arguments, "-o", "json")
        checks = json.loads(tool.out)["findings"]
        return code, {
            (c["target"]["name"], c["verdict"]): f"{c['message']}\n{c['remedy']}"
            for c in checks
            if c["verdict"] != "pass"
        }

    return look


@pytest.mark.lab
class TestOnTheLab:
    def test_all_is_well_but_the_odd_host(self, lab, looked, inventory_of):
        code, found = looked("-i", inventory_of(lab))
        assert (code, set(found)) == (2, {("esx-odd.lab.local", "fail")})
        assert "NVIDIA host driver" in found["esx-odd.lab.local", "fail"]
        farm = lab.get("/lab/farm")
        assert (farm["logins"], farm["sessions"]) == (2, 0), "a login, one for the tags, and two logouts"
        assert sum(h["ssh"]["login_attempts"] for h in farm["hosts"]) == 0
        assert lab.get("/lab/ledger")["entries"] == []

    def test_limited_to_good_hosts_it_exits_0(self, lab, tool, inventory_of):
        assert tool("doctor", "-i", inventory_of(lab), "--limit", "gpu_hosts", "-o", "json") == 0
        document = json.loads(tool.out)
        assert document["schema_version"] == 1
        areas = {c["target"]["name"] for c in document["findings"]}
        assert {"software", "files", "address", "certificate", "login", "clock", "esx01.lab.local"} <= areas
        assert "esx-odd.lab.local" not in areas
        drivers = [c["message"] for c in document["findings"] if "driver" in c["message"]]
        assert drivers == ["2 GPUs; NVIDIA AI Enterprise driver 470.256.02"] * 2

    def test_an_untrusted_certificate_ends_it_before_a_login(self, lab, looked, tool, inventory_of):
        code, found = looked("-i", inventory_of(lab, tls={}))
        assert (code, set(found)) == (2, {("certificate", "fail"), NOT_REACHED})
        assert "vsphere-ai trust vcenter lab" in found["certificate", "fail"]
        assert "login" not in {c["target"]["name"] for c in json.loads(tool.out)["findings"]}
        farm = lab.get("/lab/farm")
        assert farm["logins"] + farm["refused_logins"] == 0

    def test_a_wrong_password_is_tried_once(self, lab, looked, inventory_of, monkeypatch):
        monkeypatch.setenv("WRONG", "not the password")
        code, found = looked("-i", inventory_of(lab, password="env:WRONG"))
        assert (code, set(found)) == (2, {("login", "fail")})
        assert lab.get("/lab/farm")["refused_logins"] == 1

    def test_files_that_others_may_change(self, lab, looked, inventory_of, tmp_path):
        inventory = inventory_of(lab, known_hosts="keys")
        (tmp_path / "keys").write_text("")
        (tmp_path / "keys").chmod(0o666)
        code, found = looked("-i", inventory, "--limit", "gpu_hosts")
        assert code == 2
        assert f"chmod go-w {tmp_path / 'keys'}" in found["files", "fail"]
        assert "vsphere-ai trust host esx01.lab.local" in "".join(found.values())

    def test_what_others_may_have_written_is_not_done(self, lab, looked, tool, inventory_of, tmp_path):
        """Neither is a program run that such an inventory names, nor is a password sent where it says."""
        inventory = inventory_of(lab, ssh_password="cmd:touch was-run")
        inventory.chmod(0o664)
        code, found = looked("-i", inventory)
        assert (code, set(found)) == (2, {("files", "fail"), NOT_REACHED})
        assert {str(inventory), "664", "go-w"} <= set(re.findall(r"[\w./-]+", found["files", "fail"]))
        assert not (tmp_path / "was-run").exists()
        assert lab.get("/lab/farm")["logins"] == 0
        inventory.chmod(0o644)
        tool("doctor", "-i", inventory)
        assert (tmp_path / "was-run").exists(), "else this test says nothing"

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")
    @pytest.mark.parametrize("what", ["file", "folder"])
    def test_nor_is_what_another_user_has_written(self, lab, looked, inventory_of, tmp_path, what):
        inventory = inventory_of(lab, ssh_password="cmd:touch was-run")
        os.chown({"file": inventory, "folder": tmp_path}[what], 4711, 4711)
        code, found = looked("-i", inventory)
        assert (code, set(found)) == (2, {("files", "fail"), NOT_REACHED})
        assert "4711" in found["files", "fail"]
        assert not (tmp_path / "was-run").exists()
        assert lab.get("/lab/farm")["logins"] == 0

    def test_a_missing_password_and_an_unknown_name(self, lab, looked, inventory_of, monkeypatch):
        monkeypatch.delenv("NOT_SET", raising=False)
        inventory = inventory_of(lab, ssh_password="env:NOT_SET")
        text = inventory.read_text().replace('"address": "127.0.0.1"', '"address": "no.such.host.invalid"')
        inventory.write_text(text)
        code, found = looked("-i", inventory)
        assert (code, set(found)) == (2, {("SSH", "fail"), ("address", "fail"), ("certificate", "fail"), NOT_REACHED})
        assert "NOT_SET" in found["SSH", "fail"]
        assert "no.such.host.invalid" in found["address", "fail"]

    def test_lockdown_and_stopped_services(self, make_lab, looked, inventory_of):
        default = resources.files("vsphere_ai.lab").joinpath("scenarios", "default.yml").read_text(encoding="utf-8")
        lab = make_lab(
            default.replace("  - name: esx03.lab.local\n", "  - name: esx03.lab.local\n    lockdown: normal\n")
        )
        _, found = looked("-i", inventory_of(lab), "--limit", "esx03.lab.local")
        assert "lockdownNormal" in found["esx03.lab.local", "warn"]
        _, found = looked("-i", inventory_of(lab, start="never"), "--limit", "esx-odd.lab.local")
        assert "SSH" in found["esx-odd.lab.local", "warn"]
