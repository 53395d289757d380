"""`esxcli system` and `esxcli software`: version, maintenance mode, reboot, settings, modules, packages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from vsphere_ai.lab.hardware import drivers
from vsphere_ai.lab.hardware.host import HostRefused, LabHost
from vsphere_ai.lab.shell import maintenance
from vsphere_ai.lab.shell.columns import block, table
from vsphere_ai.lab.shell.esxcli_command import EsxcliCommand, EsxcliError, Options, boolean, number

_SHORTEST_DELAY = 10
_ATS = "atsSupport"


def _version(host: LabHost, options: Options) -> str:
    update = [*host.version.split("."), "0", "0"][2]
    rows = (
        ("Product", "VMware ESXi"),
        ("Version", host.version),
        ("Build", f"Releasebuild-{host.build}"),
        ("Update", update),
        ("Patch", "0"),
    )
    return block(rows)


def _time(host: LabHost, options: Options) -> str:
    return f"{datetime.now(UTC) + host.clock_ahead + timedelta(seconds=host.clock_wrong):%Y-%m-%dT%H:%M:%SZ}\n"


def _maintenance_get(host: LabHost, options: Options) -> str:
    return "Enabled\n" if host.in_maintenance else "Disabled\n"


def _maintenance_set(host: LabHost, options: Options) -> str:
    try:
        maintenance.request(host, boolean(options["enable"]), number(options.get("timeout", "0")))
    except HostRefused as error:
        raise EsxcliError(str(error)) from error
    return ""


def _reboot(host: LabHost, options: Options) -> str:
    """Reboot. The lab's clock is fast: a delay is checked, and the host goes down after its `shutdown_seconds`."""
    delay = number(options.get("delay", str(_SHORTEST_DELAY)))
    if delay < _SHORTEST_DELAY:
        raise EsxcliError(f"Error: Delay must be at least {_SHORTEST_DELAY} seconds")
    if not host.in_maintenance:
        raise EsxcliError("Unable to reboot. The host is not in maintenance mode.")
    if host.reboot():
        detail = {"delay": delay, "reason": options["reason"]}
        host.ledger.record(host.name, "esxcli system shutdown reboot", detail, channel="ssh")
    return ""


def _hostname(host: LabHost, options: Options) -> str:
    short, _, domain = host.name.partition(".")
    rows = (("Domain Name", domain), ("Fully Qualified Domain Name", host.name), ("Host Name", short))
    return block(rows)


def _advanced_list(host: LabHost, options: Options) -> str:
    path = options.get("option", "")
    keys = sorted(k for k in host.advanced_options if not path or "/" + k.replace(".", "/") == path)
    if not keys:
        raise EsxcliError("Unable to find branch " + path.rsplit("/", 1)[0].lstrip("/") if path else "No options")
    return "\n".join(_advanced(key, host.advanced_options[key]) for key in keys)


def _advanced(key: str, value: str | int) -> str:
    whole = isinstance(value, int)
    rows = (
        ("Path", "/" + key.replace(".", "/")),
        ("Type", "integer" if whole else "string"),
        ("Int Value", value if whole else 0),
        ("Default Int Value", 0),
        ("Min Value", 0),
        ("Max Value", 0),
        ("String Value", "" if whole else value),
        ("Default String Value", ""),
        ("Valid Characters", "" if whole else "*"),
        ("Description", "VMkernel NIC for PVRDMA" if key == "Net.PVRDMAVmknic" else key),
    )
    return block(rows)


def _advanced_set(host: LabHost, options: Options) -> str:
    path = options["option"]
    key = path.lstrip("/").replace("/", ".")
    if key not in host.advanced_options:
        raise EsxcliError("Unable to find branch " + path.rsplit("/", 1)[0].lstrip("/"))
    whole = isinstance(host.advanced_options[key], int)
    name = "int-value" if whole else "string-value"
    if name not in options:
        raise EsxcliError(f"Error: Missing required parameter --{name}")
    value: str | int = number(options[name]) if whole else options[name]
    if host.set_option(key, value):
        host.ledger.record(host.name, "esxcli system settings advanced set", {key: value}, channel="ssh")
    return ""


def _kernel_list(host: LabHost, options: Options) -> str:
    if options.get("option", _ATS) != _ATS:
        raise EsxcliError(f"Invalid Key: {options['option']}")
    titles = ("Name", "Type", "Configured", "Runtime", "Default", "Description")
    row = (_ATS, "Bool", _upper(host.ats_support), _upper(host.ats_support_running), "FALSE")
    return table(titles, [(*row, "Enable Support for PCIe ATS.")], gap=1)


def _kernel_set(host: LabHost, options: Options) -> str:
    if options["setting"] != _ATS:
        raise EsxcliError(f"Invalid Key: {options['setting']}")
    value = boolean(options["value"])
    with host.changing():
        if host.ats_support != value:
            host.ats_support = value
            host.notify("kernel")
            host.ledger.record(host.name, "esxcli system settings kernel set", {_ATS: value}, channel="ssh")
    return ""


def _upper(value: bool) -> str:
    return str(value).upper()


def _parameters(host: LabHost, options: Options) -> str:
    name = options["module"]
    module = host.kernel_modules.get(name)
    if module is None:
        raise EsxcliError(f"Unable to find module file for {name}")
    known = _MODULE_PARAMETERS.get(name, {})
    rows = [(key, kind, module.parameters.get(key, ""), text) for key, (kind, text) in sorted(known.items())]
    return table(("Name", "Type", "Value", "Description"), rows)


def _set_parameters(host: LabHost, options: Options) -> str:
    """Replace the whole option string, as ESXi does unless it is asked to append; it is read at the next load."""
    name, words = options["module"], options["parameter-string"].split()
    module, known = host.kernel_modules.get(name), _MODULE_PARAMETERS.get(name, {})
    if module is None:
        raise EsxcliError(f"Unable to find module file for {name}")
    unknown = [word for word in words if known and word.partition("=")[0] not in known]
    if unknown:
        raise EsxcliError(f"Unable to set module parameters the following params are invalid: {', '.join(unknown)}")
    if boolean(options.get("append", "false")):
        words = [f"{k}={v}" for k, v in {**module.parameters, **dict(w.partition("=")[::2] for w in words)}.items()]
    if drivers.set_options(host, name, " ".join(words)):
        detail = {"module": name, "options": " ".join(words)}
        host.ledger.record(host.name, "esxcli system module parameters set", detail, channel="ssh")
    return ""


_MODULE_PARAMETERS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "nvidia": {"NVreg_RegistryDwords": ("string", "NVIDIA driver registry keys")},
    "nmlx5_core": {
        "ecn": ("uint", "Explicit Congestion Notification: 0 off, 1 on"),
        "max_vfs": ("array of uint", "Number of PCI VFs to initialize"),
        "pfctx": ("uint", "Priority based Flow Control policy on TX, a bit mask of priorities"),
        "pfcrx": ("uint", "Priority based Flow Control policy on RX, a bit mask of priorities"),
        "trust_state": ("uint", "Port policy to calculate the switch priority: 1 PCP, 2 DSCP"),
    },
    "nmlx5_rdma": {
        "dscp_force": ("int", "DSCP value to force on outgoing RoCE traffic, -1 for none"),
        "pcp_force": ("int", "PCP value to force on outgoing RoCE traffic, -1 for none"),
    },
}


def _vib_list(host: LabHost, options: Options) -> str:
    titles = ("Name", "Version", "Vendor", "Acceptance Level", "Install Date")
    vibs = sorted(host.vibs, key=lambda v: v.name.lower())
    return table(titles, [(v.name, v.version, v.vendor, v.acceptance, v.installed) for v in vibs])


_OPTION = {"o": "option"}
COMMANDS: Mapping[str, EsxcliCommand] = {
    "system version get": EsxcliCommand(_version),
    "system hostname get": EsxcliCommand(_hostname),
    "system maintenanceMode get": EsxcliCommand(_maintenance_get),
    "system time get": EsxcliCommand(_time),
    "system maintenanceMode set": EsxcliCommand(_maintenance_set, {"e": "enable", "t": "timeout"}, ("enable",)),
    "system shutdown reboot": EsxcliCommand(_reboot, {"d": "delay", "r": "reason"}, ("reason",)),
    "system settings advanced list": EsxcliCommand(_advanced_list, _OPTION),
    "system settings advanced set": EsxcliCommand(
        _advanced_set, {"o": "option", "s": "string-value", "i": "int-value"}, ("option",)
    ),
    "system settings kernel list": EsxcliCommand(_kernel_list, _OPTION),
    "system settings kernel set": EsxcliCommand(_kernel_set, {"s": "setting", "v": "value"}, ("setting", "value")),
    "system module parameters list": EsxcliCommand(_parameters, {"m": "module"}, ("module",)),
    "system module parameters set": EsxcliCommand(
        _set_parameters,
        {"m": "module", "p": "parameter-string", "a": "append"},
        ("module", "parameter-string"),
    ),
    "software vib list": EsxcliCommand(_vib_list),
}
