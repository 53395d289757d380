"""A cluster with vSphere HA whose hosts differ in GPUs, devices and memory, and how a host of it fails."""

from __future__ import annotations

from pyVmomi import vim

DEV = vim.vm.device
PCI = DEV.VirtualPCIPassthrough
WHOLE, GPU = "0000:86:00.0", 0x20F1
WINDOW = {"use64bitMMIO": "TRUE", "64bitMMIOSizeGB": "128"}
FARM = """
name: failover
timing: {boot_seconds: 1.5, task_seconds: 0.005, shutdown_seconds: 0.05, vmotion_seconds: 0.02, guest_seconds: 0.05,
         failover_seconds: 0.2}
vcenter: {version: 8.0.3}
clusters:
  - name: a
    ha: {enabled: true, admission_control: percentage, cpu_percent: 99, memory_percent: 99,
         options: {das.respectVmVmAntiAffinityRules: "true"}}
    rules: [{name: r, kind: anti-affinity, vms: [apart-1, apart-2, apart-3]},
            {name: s, kind: affinity, vms: [plain, apart-2]}]
switches: [{name: dvs, port_groups: [{name: lan}]}]
hosts:
  - name: esx[1:2].lab.local
    cluster: a
    version: 8.0.3
    memory_gb: 256
    rebind: true
    nvidia_driver: 535.261.03
    graphics_default: sharedDirect
    gpus: [{pci: "0000:3b:00.0", board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect},
           {pci: "0000:86:00.0", board: a100-40gb, device_id: 20f1}]
    nics: [{name: vmnic0, pci: "0000:18:00.0", switch: dvs}]
  - {name: esx3.lab.local, cluster: a, version: 8.0.3, memory_gb: 512,
     nics: [{name: vmnic0, pci: "0000:18:00.0", switch: dvs}]}
vms:
  - {name: plain, host: esx1.lab.local, network: lan, memory_gb: 16, power: on}
  - {name: low, host: esx1.lab.local, network: lan, memory_gb: 16, power: on}
  - {name: never, host: esx1.lab.local, network: lan, memory_gb: 16, power: on}
  - {name: "off", host: esx1.lab.local, network: lan, memory_gb: 16}
  - {name: vgpu, host: esx1.lab.local, network: lan, memory_gb: 16, power: on, memory_reservation_locked: true,
     vgpu: [grid_a100-20c]}
  - {name: vgpu-2, host: esx1.lab.local, network: lan, memory_gb: 16, power: on, memory_reservation_locked: true,
     vgpu: [grid_a100-20c]}
  - {name: beside, host: esx2.lab.local, network: lan, memory_gb: 16, power: on, memory_reservation_locked: true,
     vgpu: [grid_a100-20c]}
  - {name: apart-1, host: esx1.lab.local, network: lan, memory_gb: 16, power: on}
  - {name: apart-2, host: esx2.lab.local, network: lan, memory_gb: 16, power: on}
  - {name: apart-3, host: esx3.lab.local, network: lan, memory_gb: 16, power: on}
  - {name: fixed, host: esx1.lab.local, network: lan, memory_gb: 16}
  - {name: dynamic, host: esx2.lab.local, network: lan, memory_gb: 16}
"""


def with_devices(soap, *, held):
    """Give a VM the second GPU of its host by address, and a VM of another host one by its model, if not `held`.

    With `held` the device of the other host is held by a VM that runs there, so that nothing is free.
    """
    for name in ("esx1", "esx2"):
        config = [vim.host.PciPassthruConfig(id=WHOLE, passthruEnabled=True)]
        soap.host(name).configManager.pciPassthruSystem.UpdatePassthruConfig(config)
    host = soap.host("esx1")
    target = host.parent.environmentBrowser.QueryConfigTarget(host)
    system = next(p.systemId for p in target.pciPassthrough if p.pciDevice.id == WHOLE)
    by_address = PCI.DeviceBackingInfo(id=WHOLE, deviceId="20f1", vendorId=0x10DE, deviceName="", systemId=system)
    by_model = PCI.DynamicBackingInfo(allowedDevice=[PCI.AllowedDevice(vendorId=0x10DE, deviceId=GPU)], deviceName="")
    add_device(soap, "fixed" if not held else "low", by_address if not held else by_model)
    if held:
        add_device(soap, "dynamic", by_model)
        soap.wait(soap.vm("dynamic").PowerOnVM_Task())
    else:
        soap.wait(soap.vm("fixed").PowerOnVM_Task())


def add_device(soap, name, backing):
    """Add a passthrough device to a VM that is off, with room for its memory."""
    change = DEV.VirtualDeviceSpec(operation="add", device=PCI(key=-1, backing=backing))
    options = [vim.option.OptionValue(key=f"pciPassthru.{k}", value=v) for k, v in WINDOW.items()]
    spec = vim.vm.ConfigSpec(deviceChange=[change], memoryReservationLockedToMax=True, extraConfig=options)
    soap.wait(soap.vm(name).ReconfigVM_Task(spec))


def fail(lab, soap, name, *, returns=False):
    """Let a host go dark; it boots again only if it `returns`."""
    if not returns:
        lab.set_faults([{"on": "CurrentTime", "do": {"host-never-returns": f"{name}*"}}], seed=1)
        soap.instance.CurrentTime()
    lab.set_faults([{"on": "CurrentTime", "nth": 1, "times": 1, "do": {"power-loss": f"{name}*"}}], seed=1)
    soap.instance.CurrentTime()
    lab.clear_faults()


def events(soap, kind):
    """Return the events of a type, oldest first."""
    found = soap.content.eventManager.QueryEvents(vim.event.EventFilterSpec(eventTypeId=[kind]))
    return sorted(found, key=lambda event: event.createdTime)


def at(soap, *names):
    """Return the host of each VM by its first label, or "" of one that does not run."""

    def home(vm):
        runs = vm.runtime.powerState == "poweredOn" and vm.runtime.connectionState == "connected"
        return vm.runtime.host.name.partition(".")[0] if runs else ""

    return {name: home(soap.vm(name)) for name in names}
