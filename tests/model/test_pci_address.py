"""PCI addresses: every spelling that a tool of the field prints is one address, in every reader."""

import pytest

from vsphere_ai.gpu import commands
from vsphere_ai.gpu.smi.listings import parse_gpus
from vsphere_ai.gpu.smi.running import parse_running
from vsphere_ai.gpu.smi.smi_xml import parse_xml
from vsphere_ai.health.answers import GPU_FIELDS, gpus_in, replays_in
from vsphere_ai.health.kernel.kernel_log import events
from vsphere_ai.model.names.pci_address import distinct, normal_pci, read_pci

WANTED = "0000:3b:00.0"
SPELLINGS = {
    "vSphere": "0000:3b:00.0",
    "vSphere Client": "0000:3B:00.0",
    "lspci": "3b:00.0",
    "nvidia-smi": "00000000:3B:00.0",
    "a VM's file": "00000:059:00.0",
    "lspci of ESXi 5": "000:059:00.0",
    "esxcli, without a name": "0:59:0:0",
    "esxcli, dependent device": "PCI 0:59:0:0",
    "pasted with blanks": " 0000:3b:00.0\n",
}


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(text):
    assert normal_pci(text) == read_pci(text) == WANTED


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("PCI 0:134:0:0", "0000:86:00.0"),  # the A100 of NVIDIA's guide is 0000:86:00.0 in the same listing
        ("10000:e1:00.0", "10000:e1:00.0"),  # lspci: behind Intel's VMD
        ("00010000:E1:00.0", "10000:e1:00.0"),
        ("0001:00:00.0", "0001:00:00.0"),
    ],
)
def test_other_addresses(text, address):
    assert normal_pci(text) == address


@pytest.mark.parametrize(
    "text",
    ["", "3b:00", "0000:3b:00.8", "0000:3b:20.0", "00000:300:00.0", "0:300:0:0", "12340000:3b:00.0", "0x3b", "3b"],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="not a PCI address"):
        normal_pci(text)


def test_two_spellings_of_a_device_are_one():
    with pytest.raises(ValueError, match="the same device"):
        distinct({"3b:00.0": 1, "PCI 0:59:0:0": 2})


@pytest.mark.parametrize(
    ("text", "address"),
    [("PCI:0000:3b:00", "0000:3b:00"), ("0000:3B:00.0", WANTED), ("3b:00", "0000:3b:00"), ("Strange", "strange")],
)
def test_a_log_may_leave_the_function_out(text, address):
    assert read_pci(text) == address


def _of_query(text):
    return parse_gpus(0, f"0, {text}, A100, GPU-1, Disabled, Disabled, 40960, 535.1")[0].pci


def _of_health(text):
    row = {name: "0" for name in GPU_FIELDS} | {"pci.bus_id": text}
    return next(gpus_in(", ".join(row.values()))).bus


def _of_xml(text):
    gpu = f"<gpu id='{text}'><product_name>X</product_name><uuid>GPU-1</uuid></gpu>"
    return parse_xml(0, f"<nvidia_smi_log>{gpu}</nvidia_smi_log>").gpus[0].pci


def _of_replays(text):
    (path,) = replays_in(f'<gpu id="{text}"><replay_counter>3</replay_counter></gpu>')
    return path.split("/")[2]


def _of_vgpus(text):
    head = f"GPU {text}\n    Active vGPUs : 1\n    vGPU ID : 1\n"
    return parse_running(0, f"{head}        VM Name : a\n        vGPU Name : GRID A100-4C\n")[0].pci


def _of_log(text):
    return next(events([f"NVRM: Xid (PCI:{text}): 79, GPU has fallen off the bus."])).device


def _of_command(text):
    return normal_pci(commands.set_mig_mode(text, True)[2])


READERS = [_of_query, _of_health, _of_xml, _of_replays, _of_vgpus, _of_log, _of_command]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", ["0000:3b:00.0", "00000000:3B:00.0", "3b:00.0"])
def test_every_reader_takes_the_spellings_of_nvidia_and_lspci(reader, text):
    assert reader(text) == WANTED
