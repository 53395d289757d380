"""Reading back a VM: only what its kinds are about is read again, and that is taken as it is now, also where unset."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml

from vsphere_ai.app.estate.read_estate import read_everything
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import session_of
from vsphere_ai.cli.main import main
from vsphere_ai.execution.runner import Runner
from vsphere_ai.language.inventories.inventory import CONNECTION, load_inventory
from vsphere_ai.model.facts import Facts
from vsphere_ai.reading.collector import LIGHT
from vsphere_ai.reading.own_paths import paths_of
from vsphere_ai.resources import kinds
from vsphere_ai.resources.makes_vms import MakesVms

OF_VMS = sorted(n for n, k in kinds().items() if k.target == "vm" and not issubclass(k, MakesVms))
VMS, HOSTS = 24, 4
FARM = f"""
name: many changes
timing: {{task_seconds: 0.05}}
clusters: [{{name: gpu-a}}]
switches: [{{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}]
hosts:
  - name: esx[01:{HOSTS:02}].lab.local
    cluster: gpu-a
    nvidia_driver: 535.261.03
    gpus: [{{pci: "0000:3b:00.0", board: a100-80gb}}]
    nics: [{{name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}}]
vms:
  - {{name: "vm-[01:{VMS}]", host: "esx[01:{HOSTS:02}].lab.local", network: dvpg-lan}}
"""
PLAY = "- vms: vm-*\n  tuning: {extra_config: {a.key: '1'}}\n"


class Asked(dict):
    """Properties that note which were asked for."""

    def __init__(self, values):
        super().__init__(values)
        self.paths = set()

    def get(self, path, default=None):
        self.paths.add(path)
        return super().get(path, default)

    def __getitem__(self, path):
        self.paths.add(path)
        return super().__getitem__(path)

    def __contains__(self, path):
        self.paths.add(path)
        return super().__contains__(path)


@pytest.fixture
def estate(lab):
    with session_of(load_inventory(lab.directory / CONNECTION), None, EstateRequest()) as session:
        yield read_everything(session)


def test_a_kind_of_vms_observes_only_what_it_declares(estate):
    """What it does not declare is not read back: it would see that as it was at planning."""
    vms = [vm for vm in estate.vms if estate[vm.ref].get("config.hardware.device")]
    assert len(vms) > 4
    for kind in OF_VMS:
        declared = {*paths_of(frozenset({kind}))["VirtualMachine"], *LIGHT["VirtualMachine"]}
        for vm in vms:
            asked = Asked(estate[vm.ref].properties)
            kinds()[kind].observe(Facts(vm.ref, asked), estate)
            assert {path for path in asked.paths if not path.startswith("query:")} <= declared, (kind, vm.name)


def test_many_changes_cost_few_requests_each(make_lab, monkeypatch, tmp_path, capsys):
    lab = make_lab(FARM)
    document = yaml.safe_load((lab.directory / CONNECTION).read_text("utf-8"))
    document["vcenters"]["lab"]["password"] = f"file:{lab.directory / 'password'}"
    document["vcenters"]["lab"]["tls"] = {"ca_file": str(lab.directory / "ca.pem")}
    del document["ssh"]
    (tmp_path / "inventory.yml").write_text(yaml.safe_dump(document), "utf-8")
    (tmp_path / "play.yml").write_text(PLAY, "utf-8")
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    seen, run = [], Runner.run

    def counted(self):
        seen.append(lab.get("/lab/traffic"))
        result = run(self)
        seen.append(lab.get("/lab/traffic"))
        return result

    monkeypatch.setattr(Runner, "run", counted)
    given = ["-i", str(tmp_path / "inventory.yml"), "--yes", "--parallel", "12"]
    assert main(["apply", *given, str(tmp_path / "play.yml")]) == 0, capsys.readouterr()
    before, after = seen
    calls = Counter(after["calls"]) - Counter(before["calls"])
    assert calls["ReconfigVM_Task"] == VMS
    assert calls["CreatePropertyCollector"] == calls["CreateListView"] == calls["CreateFilter"] == 1
    assert calls["RetrievePropertiesEx"] <= 2 * VMS, "before the change, and after it"
    assert calls.total() <= 8 * VMS, calls
    read = {of: Counter(paths) - Counter(before["read"].get(of, {})) for of, paths in after["read"].items()}
    assert read["VirtualMachine"]["config.extraConfig"] == 2 * VMS
    assert not read["VirtualMachine"]["recentTask"]
    assert not read["VirtualMachine"]["guest.toolsRunningStatus"]
    assert not any(read.get("HostSystem", Counter()).values()), "hosts did not change"
    assert not any(read.get("Task", Counter()).values())
