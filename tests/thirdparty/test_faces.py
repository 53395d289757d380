"""The lab as a vCenter 7.0 U2, 8.0 U3 and 9.1: what a release does not have is not there, and the product copes."""

from __future__ import annotations

import os
import ssl
import sys
import urllib.request
from xml.etree import ElementTree

import pytest
from pyVmomi import VmomiSupport, vim, vmodl
from support import prefork
from support.gates import LONG

PC = vmodl.query.PropertyCollector
FACES = {"7.0.2": "7.0.2.0", "8.0.3": "8.0.3.0", "9.1.0": "9.1.0.0"}
FARM = """
name: face
vcenter: {version: VERSION, build: 24022515}
timing: {boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}
clusters: [{name: gpu-a}]
switches: [{name: dvs, version: 7.0.2, port_groups: [{name: lan}]}]
hosts:
  - name: esx01.lab.local
    cluster: gpu-a
    version: VERSION
    nvidia_driver: 550.144.02
    gpus: [{pci: "0000:3b:00.0", board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}]
    nics: [{name: vmnic0, pci: "0000:18:00.0", switch: dvs}]
    ssh: {running: true, policy: on}
vms:
  - {name: "train-[01:02]", host: esx01.lab.local, network: lan}
"""
PLAY = """
- vms: train-01
  vgpu: [grid_a100-20c]
"""


def newest():
    """The newest API the installed pyVmomi knows."""
    version = VmomiSupport.GetServiceVersions("vim25")[0]
    return tuple(int(n) for n in VmomiSupport.versionIdMap[version].split("."))


def known(api):
    return tuple(int(n) for n in api.split(".")) <= newest()


@pytest.fixture(params=FACES.items(), ids=lambda face: face[0])
def face(request, make_lab, new_client):
    version, api = request.param
    if not known(api):
        pytest.skip(f"the installed pyVmomi does not know API {api}")
    lab = make_lab(FARM.replace("VERSION", version))
    client = new_client(lab, version=VmomiSupport.GetServiceVersions("vim25")[0])
    client.face = api
    return client


def has(face, since):
    return tuple(int(n) for n in face.face.split(".")) >= since


def test_about_and_the_versions_document_say_the_same(face):
    about = face.content.about
    assert about.apiVersion == face.face
    assert face.face.startswith(about.version)
    assert about.fullName == f"VMware vCenter Server {about.version} build-{about.build}"
    context = ssl.create_default_context(cafile=str(face.lab.directory / "ca.pem"))
    address = f"https://127.0.0.1:{face.lab.port}/sdk/vimServiceVersions.xml"
    with urllib.request.urlopen(address, context=context, timeout=10) as answer:
        space = ElementTree.fromstring(answer.read()).find("namespace")
    assert space.findtext("version") == face.face
    prior = [e.text for e in space.findall("priorVersions/version")]
    assert "7.0.2.0" in [face.face, *prior]
    assert face.face not in prior


def test_fields_and_methods_of_later_releases_are_not_there(face):
    host, vm = face.host("esx01"), face.vm("train-01")
    (device,) = host.config.graphicsConfig.deviceType
    assert (getattr(device, "vgpuMode", None) is not None) == has(face, (8, 0, 3, 0))
    assert (host.config.network.pnic[0].driverVersion is not None) == has(face, (8, 0, 0, 1))
    assert (getattr(face.content, "directPathProfileManager", None) is not None) <= has(face, (9, 0, 0, 0))
    spec = PC.FilterSpec(
        objectSet=[PC.ObjectSpec(obj=vm)],
        propSet=[PC.PropertySpec(type=vim.VirtualMachine, pathSet=["config.deviceGroups"])],
    )
    hardware = host.configManager.assignableHardwareManager
    if has(face, (8, 0, 0, 1)):
        assert face.content.propertyCollector.RetrieveContents([spec])
        assert hardware.RetrieveVendorDeviceGroupInfo() == []
    else:
        with pytest.raises(vmodl.query.InvalidProperty):
            face.content.propertyCollector.RetrieveContents([spec])
        with pytest.raises(vmodl.fault.MethodNotFound):
            hardware.RetrieveVendorDeviceGroupInfo()


def test_the_product_plans_and_applies_on_every_face(face, tmp_path):
    (tmp_path / "play.yml").write_text(PLAY, encoding="utf-8")
    (tmp_path / "inventory.yml").write_text("lab: true\n", encoding="utf-8")

    def run(*arguments):
        command = [sys.executable, "-m", "vsphere_ai", *arguments, "-i", str(tmp_path / "inventory.yml")]
        environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(face.lab.directory), "COLUMNS": "200"}
        return prefork.run(command, env=environment, capture_output=True, text=True, timeout=LONG, cwd=tmp_path)

    applied = run("apply", "play.yml", "--yes")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert [c for c in face.calls() if c[1] == "ReconfigVM_Task"] == [("train-01", "ReconfigVM_Task")]
    looked = run("doctor")
    assert f"API {face.face}" in looked.stdout, looked.stdout + looked.stderr
    assert "cannot see" not in looked.stdout
