"""Every place where a PCI address is entered or read takes every spelling of it; all faults in one message."""

from __future__ import annotations

from model.test_pci_address import READERS, SPELLINGS, WANTED
from support.estates import ESX1, estate, guest, vm
from support.judging import judge
from support.machines import fixed, machine

from vsphere_ai.admission.machine import _function
from vsphere_ai.app.gpus.mig_host import _pci
from vsphere_ai.benchmarks.programs.burn import FIELDS, samples_in
from vsphere_ai.execution.actions.relocation import _part
from vsphere_ai.fabric.pci import FIXED, claim_of
from vsphere_ai.gpu.smi.device_paths import parse_gpu_list
from vsphere_ai.gpu.smi.listings import parse_gpus
from vsphere_ai.health.kernel.kernel_log import events
from vsphere_ai.lab import scenario_file
from vsphere_ai.lab.build import _gpus, _pnic
from vsphere_ai.lab.faults import rule_file
from vsphere_ai.lab.guest import defects
from vsphere_ai.resources._helpers.ethernet import TYPES, function_of
from vsphere_ai.resources._helpers.network_adapter import NetworkAdapter
from vsphere_ai.resources.mig import Mig
from vsphere_ai.resources.passthrough import Passthrough
from vsphere_ai.resources.pci_devices.device import PassthroughDevice
from vsphere_ai.resources.sriov import Sriov

VM = vm(1)
BACKING = "VirtualPCIPassthroughDeviceBackingInfo"
OTHER = {"0001:c1:1f.7": ("0001:C1:1f.7", "00000001:C1:1F.7", "00001:193:31.7", "PCI 1:193:31:7")}
HEXADECIMAL = ("0000:3b:00.0", "0000:3B:00.0", "3b:00.0", "00000000:3B:00.0")


def scenario(text, part):
    board = "{pci: '%s', board: a100-40gb}" if part == "gpus" else "{name: vmnic0, pci: '%s', model: X710}"
    host = f"name: s\nhosts: [{{name: a.b, cluster: '', {part}: [{board % text}]}}]\n"
    return scenario_file.parse(host, "s.yml").hosts[0]


def taken(text):
    """The address for which a VM keeps a device that its backing names with another spelling."""
    of = estate(machine(ESX1, passed={WANTED: ""}), guest(VM, ESX1, config__hardware__device=(fixed(13000, text),)))
    return WANTED if "passthrough.vm" in judge(Passthrough(devices={WANTED: False}), ESX1, of).problems else ""


def sriov(text):
    return {
        "_typeName": TYPES["sriov"],
        "sriovBacking": {"physicalFunctionBacking": {"_typeName": BACKING, "id": text}},
    }


def lost(text):
    """The GPU that nvidia-smi lists no row for, beside one that works."""
    row = "1, 00000000:5E:00.0, A100, GPU-2, Disabled, Disabled, 40960, 535.1"
    listed = parse_gpus(15, f"Unable to determine the device handle for GPU {text}: GPU is lost.\n{row}\n")
    return next(gpu.pci for gpu in listed if gpu.uuid != "GPU-2")


ENTERED = {
    "passthrough": lambda text: next(iter(Passthrough(devices={text: True}).devices)),
    "sriov": lambda text: next(iter(Sriov(functions={text: 4}).functions)),
    "mig": lambda text: next(iter(Mig(gpus={text: {"mode": "enabled"}}).gpus)),
    "pci_devices": lambda text: PassthroughDevice(host_device=text).host_device,
    "adapters": lambda text: NetworkAdapter(port_group="p", physical_function=text).physical_function,
    "mig --gpu": _pci,
    "lab, gpus of a scenario": lambda text: next(_gpus(scenario(text, "gpus"), "a.b")).pci,
    "lab, nics of a scenario": lambda text: _pnic(scenario(text, "nics").nics[0], 1, 0).pci,
    "lab, rules of faults": lambda text: (
        rule_file.parse(f"{{on: RebootHost_Task, do: {{gpu-missing: '{text}'}}}}", "f.yml")[0].do.value
    ),
    "lab, defects": lambda text: defects.read([{"kind": "ecc", "gpu": text}])[0].text("gpu"),
}
OF_VMS = {
    "whole device": lambda text: claim_of({"backing": {"_typeName": FIXED, "id": text}}).address,
    "device of a move": lambda text: _part({"backing": {"id": text}})[0],
    "virtual function": lambda text: function_of(sriov(text)),
    "virtual function, admission": lambda text: _function(sriov(text)).function,
}
PRINTED = {
    **{reader.__name__: reader for reader in READERS},
    "GPU without a handle": lost,
    "nvidia-smi -L": lambda text: parse_gpu_list(
        0, f"Unable to determine the device handle for GPU{text}: GPU is lost."
    ).lost[0],
    "samples of burn": lambda text: next(iter(samples_in(", ".join([text, *["1"] * (len(FIELDS) - 1)])))),
    "GPU off the bus": lambda text: next(events([f"NVRM: GPU {text}: GPU has fallen off the bus."])).device,
    "NVSwitch": lambda text: next(events([f"nvidia-nvswitch0: SXid (PCI:{text}): 20034, Fatal, Link 1 x"])).device,
}


def faults(places, texts, wanted):
    for name, place in places.items():
        for text in texts:
            try:
                shown = place(text)
            except Exception as error:  # whatever refuses it
                shown = f"{type(error).__name__}: {error}"
            if shown != wanted:
                yield f"{name}: {text!r} gives {shown!r}"


def test_every_spelling_is_the_same_device_everywhere():
    typed = [text for name, text in SPELLINGS.items() if "blanks" not in name]
    wrong = [*faults({**ENTERED, **OF_VMS}, typed, WANTED), *faults({"a VM's own": taken}, typed, WANTED)]
    wrong += faults(PRINTED, HEXADECIMAL, WANTED)
    for wanted, texts in OTHER.items():
        wrong += faults({**ENTERED, **OF_VMS}, texts, wanted)
    assert not wrong, "\n".join(wrong)


def test_what_is_none_is_refused_where_it_is_entered():
    accepted = []
    for name, place in ENTERED.items():
        for text in ("3b:00", "0000:3b:00.8", "0000:3b:20.0", "12340000:3b:00.0", "00000:300:00.0", "vmnic4", "3b"):
            shown = [*faults({name: place}, [text], "")]
            accepted += [f"{name}: {text!r}" for each in shown if "Error" not in each and "defects" not in name]
    assert not accepted, "\n".join(accepted)
