"""OptionManager: advanced settings of a host, and settings of vCenter itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, demand, reads
from vsphere_ai.lab.managed.host_managers import host_of_manager, shows
from vsphere_ai.lab.managed.refusals import invalid_argument
from vsphere_ai.lab.store import ManagedObject

HOT_VGPU = "vgpu.hotmigrate.enabled"
LOG_HOST = "Syslog.global.logHost"
_LONG = Vmomi.vmodlTypes["long"]
VCENTER_SETTINGS: dict[str, Any] = {
    "config.vpxd.sso.sts.uri": "https://127.0.0.1/sts/STSService/vsphere.local",
    "config.vpxd.sso.admin.uri": "https://127.0.0.1/sso-adminserver/sdk/vsphere.local",
    HOT_VGPU: False,
    "event.maxAge": 30,
    "event.maxAgeEnabled": True,
}


@shows("advancedOption")
def project(farm: Farm, mo: ManagedObject) -> None:
    """Write the advanced settings of a host into its manager and into ``config``."""
    options = dict(farm.host(mo).advanced_options)
    values, supported = mo.shown("options", options, lambda: _settings(options))
    farm.store.set(mo.extra["advancedOption"], setting=values, supportedOption=supported)
    if mo["config"] is not None:
        mo["config"].option, mo["config"].optionDef = values, supported


def _settings(options: Mapping[str, str | int]) -> tuple[list[Any], list[Any]]:
    values = [vim.option.OptionValue(key=k, value=_LONG(v) if isinstance(v, int) else v) for k, v in options.items()]
    return values, [_definition(key, value) for key, value in options.items()]


def _definition(key: str, value: str | int) -> Any:
    typ = (
        vim.option.LongOption(min=0, max=(1 << 31) - 1, defaultValue=0)
        if isinstance(value, int)
        else vim.option.StringOption(defaultValue="")
    )
    return vim.option.OptionDef(key=key, label=key.rpartition(".")[2], summary=key, optionType=typ)


@reads(vim.option.OptionManager, "QueryOptions")
def query_options(call: Call, name: str | None = None) -> Any:
    """Return one setting, a subtree (name ending in a dot), or all; InvalidName when there is none."""
    settings = list(call.mo["setting"])
    if name:
        settings = [s for s in settings if s.key == name or (name.endswith(".") and s.key.startswith(name))]
        if not settings:
            raise vim.fault.InvalidName(name=name, msg=f"The name '{name}' is not valid.")
    return settings


@changes(vim.option.OptionManager, "UpdateOptions")
def update_options(call: Call, changedValue: Any) -> None:
    """Change settings; an unknown key is InvalidName, a value of the wrong type InvalidArgument."""
    present = {s.key: s.value for s in call.mo["setting"]}
    for option in changedValue:
        if option.key not in present:
            raise vim.fault.InvalidName(name=option.key, msg=f"The name '{option.key}' is not valid.")
        if type(option.value) is not type(present[option.key]):
            raise invalid_argument("changedValue.value", f"{option.key}: {type(option.value).__name__}")
    if "host" in call.mo.extra:
        _update_host(call, changedValue)
    else:
        _update_vcenter(call, changedValue)


def _update_host(call: Call, changed: Any) -> None:
    demand(call, "Host.Config.AdvancedConfig")
    mo, host = host_of_manager(call)
    effective = {}
    for option in changed:
        value = int(option.value) if isinstance(option.value, int) else str(option.value)
        if option.key == "Net.PVRDMAVmknic" and value and not _has_vmknic(mo, str(value)):
            raise invalid_argument("changedValue.value", f"no VMkernel adapter {value}")
        if option.key == LOG_HOST and not _are_log_hosts(str(value)):
            raise invalid_argument("changedValue.value", f"{LOG_HOST}: {value}")
        if host.set_option(option.key, value):
            effective[option.key] = value
    if effective:
        call.farm.record(mo, "UpdateOptions", **{"options": effective})


def _update_vcenter(call: Call, changed: Any) -> None:
    demand(call, "Global.Settings")
    new = {o.key: o.value for o in changed}
    kept = {s.key: s.value for s in call.mo["setting"]}
    effective = {k: v for k, v in new.items() if kept[k] != v}
    if effective:
        merged = [vim.option.OptionValue(key=k, value=v) for k, v in {**kept, **new}.items()]
        call.farm.store.set(call.mo, setting=merged)
        call.farm.ledger.record("vCenter", "UpdateOptions", {"options": effective}, channel="soap")


def _are_log_hosts(text: str) -> bool:
    """Return whether ESXi's syslog service can send to what a text lists; an empty one lists nothing."""
    entries = [entry.strip() for entry in text.split(",")] if text else []
    return all(entry.partition("://")[0] in ("udp", "tcp", "ssl") if "://" in entry else entry for entry in entries)


def _has_vmknic(mo: ManagedObject, name: str) -> bool:
    return any(v.device == name for v in mo["config"].network.vnic or ())
