"""`nvidia-smi -q -x`: published answers, and what nobody should be able to do with a crafted one."""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from gpu_transcripts import FOLDER

from vsphere_ai.gpu.smi.listings import UnreadableOutput
from vsphere_ai.gpu.smi.smi_xml import GpuInXml, MigDevice, Xml, parse_xml

A100 = (FOLDER / "xml" / "a100.xml").read_text("utf-8")
NO_ID = "GPU-00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("file", "driver", "pci", "name", "mig", "device"),
    [
        ("a100", "570.148.08", "0000:06:00.0", "NVIDIA A100-SXM4-40GB", False, 0x20B0),
        ("b200", "580.105.08", "0000:8f:00.0", "NVIDIA B200", False, 0x2901),
        ("h100", "580.105.08", "0000:53:00.0", "NVIDIA H100 80GB HBM3", False, 0x2330),
        ("l40s", "595.91.07", "0000:30:00.0", "NVIDIA L40S", None, 0x26B9),
        ("t4", "595.91.07", "0000:00:1e.0", "Tesla T4", None, 0x1EB8),
    ],
)
def test_published_answers(file, driver, pci, name, mig, device):
    found = parse_xml(0, (FOLDER / "xml" / f"{file}.xml").read_text("utf-8"))
    assert found == Xml(driver, (GpuInXml(pci, name, NO_ID, mig, mig, (), "Pass-Through", None, None, device),))


def test_every_published_answer_is_tried():
    assert {p.stem for p in (FOLDER / "xml").glob("*.xml")} == {"a100", "b200", "h100", "l40s", "t4"}


DEVICE = """<mig_device><index>{}</index><gpu_instance_id>{}</gpu_instance_id>
<compute_instance_id>{}</compute_instance_id><device_attributes><shared><multiprocessor_count>42</multiprocessor_count>
</shared></device_attributes><ecc_error_count><volatile_count><sram_uncorrectable>0</sram_uncorrectable>
</volatile_count></ecc_error_count></mig_device>"""


def changed(*pairs, text=A100):
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def mig_on():
    start, end = A100.index("<mig_devices>") + len("<mig_devices>"), A100.index("</mig_devices>")
    text = A100[:start] + DEVICE.format(0, 2, 0) + DEVICE.format(1, 7, 1) + A100[end:]
    return changed(
        ("<current_mig>Disabled", "<current_mig>Enabled"),
        ("<virtualization_mode>Pass-Through", "<virtualization_mode>Host VGPU"),
        ("<host_vgpu_mode>N/A", "<host_vgpu_mode>SR-IOV"),
        ("<vgpu_heterogeneous_mode>N/A", "<vgpu_heterogeneous_mode>Enabled"),
        text=text,
    )


def test_a_gpu_with_mig_on_and_a_pending_change():
    (gpu,) = parse_xml(0, mig_on()).gpus
    assert (gpu.mig_current, gpu.mig_pending) == (True, False)
    assert gpu.mig_devices == (MigDevice(0, 2, 0), MigDevice(1, 7, 1))
    assert (gpu.virtualization, gpu.vgpu_mode, gpu.mixed_sizes) == ("Host VGPU", "SR-IOV", True)


def test_several_gpus_are_told_apart():
    start, end = A100.index("<gpu id="), A100.index("</gpu>") + len("</gpu>")
    first = A100[start:end]
    second = first.replace("06:00.0", "07:00.0").replace("A100-SXM4-40GB", "A100-PCIE-40GB")
    found = parse_xml(0, mig_on().replace("</gpu>", f"</gpu>{second}"))
    assert [(g.pci, g.mig_current, len(g.mig_devices)) for g in found.gpus] == [
        ("0000:06:00.0", True, 2),
        ("0000:07:00.0", False, 0),
    ]
    assert found.gpus[1].name == "NVIDIA A100-PCIE-40GB"


def test_a_driver_that_says_less():
    gpu = f"<gpu id='00000000:06:00.0'><product_name>X</product_name><uuid>{NO_ID}</uuid></gpu>"
    text = f"<nvidia_smi_log>{gpu}</nvidia_smi_log>"
    assert parse_xml(0, text) == Xml("", (GpuInXml("0000:06:00.0", "X", NO_ID, None, None, (), None, None, None),))
    assert parse_xml(0, "<nvidia_smi_log/>").gpus == ()


BOMB = """<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>
<nvidia_smi_log><driver_version>&b;</driver_version></nvidia_smi_log>"""
OUTSIDE = """<!DOCTYPE nvidia_smi_log [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<nvidia_smi_log><driver_version>&x;</driver_version></nvidia_smi_log>"""
PARAMETER = """<!DOCTYPE nvidia_smi_log [<!ENTITY % x SYSTEM "http://localhost/x.dtd"> %x;]>
<nvidia_smi_log><driver_version>1</driver_version></nvidia_smi_log>"""


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0, ""),
        (9, A100),
        (0, "NVIDIA-SMI has failed"),
        (0, A100[:4000]),
        (0, "<html/>"),
        (0, BOMB),
        (0, OUTSIDE),
        (0, PARAMETER),
        (0, "<nvidia_smi_log>" + "<a>" * 40 + "</a>" * 40 + "</nvidia_smi_log>"),
        (0, "<nvidia_smi_log>" + " " * 9_000_000 + "</nvidia_smi_log>"),
        (0, changed(('<gpu id="00000000:06:00.0">', "<gpu>"))),
        (0, changed(('<gpu id="00000000:06:00.0">', '<gpu id="here">'))),
        (0, changed(("<product_name>NVIDIA A100-SXM4-40GB</product_name>", ""))),
        (0, changed(("<index>1</index>", "<index>one</index>"), text=mig_on())),
        (0, changed(("<index>1</index>", ""), text=mig_on())),
        (0, "<nvidia_smi_log>\ud800</nvidia_smi_log>"),
    ],
)  # fmt: skip
def test_anything_else_is_an_error_with_the_text(status, text):
    with pytest.raises(UnreadableOutput) as error:
        parse_xml(status, text)
    assert text.strip()[:20] in error.value.message or "(no output)" in error.value.message


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, len(A100)), st.integers(0, 60), st.text(max_size=8))
def test_no_damage_makes_the_parser_fall_over(at, length, instead):
    try:
        found = parse_xml(0, A100[:at] + instead + A100[at + length :])
    except UnreadableOutput:
        return
    assert len(found.gpus) <= 1


SICK = [
    (("<serial>", "<state>[GPU is lost]</state><serial>"), "GPU is lost"),
    (("<product_name>NVIDIA A100-SXM4-40GB", "<product_name>[Unknown Error]"), "Unknown Error"),
    (("<current_mig>Disabled", "<current_mig>ERR!"), "ERR!"),
    (("<current_mig>Disabled", "<current_mig>Perhaps"), "its MIG mode is shown as 'Perhaps'"),
    (("<fan_speed>N/A", "<fan_speed>Unknown Error"), ""),
    (("<vgpu_heterogeneous_mode>N/A", "<vgpu_heterogeneous_mode>Perhaps"), ""),
    (("20B010DE", "an A100"), ""),
]


@pytest.mark.parametrize(("change", "fault"), SICK)
def test_a_gpu_in_trouble_leaves_the_others_readable(change, fault):
    start, end = A100.index("<gpu id="), A100.index("</gpu>") + len("</gpu>")
    second = A100[start:end].replace("06:00.0", "07:00.0")
    sick = A100.replace(*change, 1)
    assert sick != A100
    found = parse_xml(0, sick.replace("</gpu>", f"</gpu>{second}", 1))
    assert [(g.pci, g.fault) for g in found.gpus] == [("0000:06:00.0", fault), ("0000:07:00.0", "")]
    assert (found.gpus[1].name, found.gpus[1].mig_current) == ("NVIDIA A100-SXM4-40GB", False)


def test_a_gpu_that_cannot_be_told_is_counted():
    start, end = A100.index("<gpu id="), A100.index("</gpu>") + len("</gpu>")
    second = A100[start:end].replace('id="00000000:06:00.0"', 'id="here"')
    found = parse_xml(0, A100.replace("</gpu>", f"</gpu>{second}", 1))
    assert ([g.pci for g in found.gpus], found.unread) == (["0000:06:00.0"], 1)
