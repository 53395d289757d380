"""What of the API lies beyond the floor, and that it is named where the installed pyVmomi cannot see it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from pyVmomi import VmomiSupport

from vsphere_ai.app.project import doctor_checks as doctor
from vsphere_ai.model.estate import api_fields
from vsphere_ai.model.facts import About

ROOT = Path(__file__).parents[2]
VCENTER = About("vCenter", "8.0.3", "1", "8.0.2.0", "uuid", offered_api="8.0.3.0")


@pytest.mark.parametrize("field", api_fields.api_fields(), ids=str)
def test_a_field_is_in_pyvmomis_tables_with_its_version_and_used_here(field):
    kind = VmomiSupport.GetWsdlType("urn:vim25", field.type)
    try:
        version = kind._GetPropertyInfo(field.name).version
    except AttributeError:
        version = VmomiSupport.GetWsdlMethod("urn:vim25", field.name).info.version
    assert VmomiSupport.versionIdMap[version] == ".".join(map(str, field.since))
    assert field.since > (7, 0, 2, 0)
    places = ["vsphere_ai", ":!vsphere_ai/lab", ":!vsphere_ai/model/estate/api_fields.py"]
    tracked = ["git", "grep", "-lw", field.name, "--", *places]
    assert subprocess.run(tracked, cwd=ROOT, capture_output=True, text=True, check=False).stdout, "nothing uses it"


def test_what_an_older_pyvmomi_cannot_see_is_named():
    hidden = {f"{f.type}.{f.name}" for f in api_fields.unseen(VCENTER)}
    assert hidden == {"HostGraphicsConfigDeviceType.vgpuMode", "HostGraphicsInfo.vgpuMode"}
    (check,) = doctor.library_of(VCENTER)
    assert (str(check.target), check.verdict, check.remedy) == ("vCenter", "warn", "pip install --upgrade pyvmomi")
    assert "offers API 8.0.3.0" in check.message
    assert "knows up to 8.0.2.0 and cannot see HostGraphicsConfigDeviceType.vgpuMode (vGPU modes," in check.message


def test_what_the_vcenter_does_not_have_is_not_blamed_on_pyvmomi():
    old = replace(VCENTER, api="7.0.2.0", offered_api="7.0.2.0")
    assert list(api_fields.unseen(old)) == []
    assert list(doctor.library_of(old)) == []
    assert api_fields.why_missing(old, (8, 0, 3, 0)) == ("vCenter has API 7.0.2.0", "")


def test_a_later_vcenter_with_nothing_hidden_is_fine():
    (check,) = doctor.library_of(replace(VCENTER, api="8.0.3.0", offered_api="9.1.0.0"))
    assert (check.verdict, check.remedy) == ("pass", "")
    assert "everything this release uses" in check.message


@pytest.mark.parametrize("odd", ["", "uA046D008", "8.0.1.0"])
def test_an_offer_that_says_nothing_more_is_no_finding(odd):
    assert list(doctor.library_of(replace(VCENTER, offered_api=odd))) == []
