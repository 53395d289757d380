"""Verdicts of the rules about the states of a VM: rule, changed properties, planned states, verdict, words."""

VCPUS = {"hardware": {"cpus": 8, "version": None}}
UPGRADE = {"hardware": {"version": 20}}
TREE = {"rootSnapshotList": ({"name": "before"},)}
TPM = {"_typeName": "VirtualTPM", "key": 11000}
VERDICTS = [
    ("vm.suspended", {}, {}, "pass", "poweredOn"),
    ("vm.suspended", {"runtime.powerState": "suspended"}, {}, "warn", "suspended"),
    ("vm.suspended", {"runtime.powerState": "suspended"}, VCPUS, "fail", "cannot be changed"),
    ("vm.connected", {}, {}, "pass", "reaches"),
    ("vm.connected", {"runtime.connectionState": "orphaned"}, {}, "fail", "VM is orphaned"),
    ("vm.snapshots", {}, UPGRADE, "pass", "0 snapshots"),
    ("vm.snapshots", {"snapshot": TREE}, VCPUS, "pass", "1 snapshots"),
    ("vm.snapshots", {"snapshot": TREE}, UPGRADE, "warn", "undoes the hardware version"),
    ("vm.snapshots", {"snapshot": TREE}, {"vgpu": {}}, "warn", "undoes the devices"),
    ("vm.fault-tolerance", {}, {}, "pass", "off"),
    ("vm.fault-tolerance", {"runtime.faultToleranceState": "running"}, {}, "warn", "secondary"),
    ("vm.fault-tolerance", {"runtime.faultToleranceState": "enabled"}, VCPUS, "fail", "does not allow"),
    ("vm.encrypted", {}, {}, "pass", "not encrypted"),
    ("vm.encrypted", {"config.keyId": {"keyId": "1"}}, {}, "warn", "is encrypted"),
    ("vm.encrypted", {"config.hardware.device": (TPM,)}, {}, "warn", "virtual TPM"),
    ("vm.encrypted", {"config.keyId": {"keyId": "1"}, "runtime.cryptoState": "locked"}, {}, "fail", "key is missing"),
    ("vm.encrypted", {"runtime.cryptoState": "locked"}, {}, "pass", "not encrypted"),
    ("vm.vapp", {}, {}, "pass", "no vApp"),
    ("vm.vapp", {"parentVApp": "VirtualApp:gone"}, {}, "warn", "in the vApp VirtualApp:gone"),
    ("vm.methods", {}, {}, "pass", "nothing else"),
    ("vm.methods", {"disabledMethod": ("ReconfigVM_Task",)}, VCPUS, "fail", "ReconfigVM_Task"),
    ("vm.methods", {"disabledMethod": ("ReconfigVM_Task",)}, {}, "pass", "nothing else"),
]
ELSEWHERE = {("vm.connected", "unknown"), ("vm.methods", "warn")}
"""What depends on other objects: see test_vm_states.py."""
OPTIONAL = {
    "vm.snapshots": {"snapshot", "config.version"},
    "vm.fault-tolerance": {"runtime.faultToleranceState", "config.ftInfo"},
    "vm.encrypted": {"config.keyId", "runtime.cryptoState"},
    "vm.vapp": {"parentVApp"},
    "vm.methods": {"disabledMethod", "recentTask", "config.version"},
}
