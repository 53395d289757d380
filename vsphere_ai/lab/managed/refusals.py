"""The faults the lab raises, with vCenter's texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyVmomi import vim, vmodl


def invalid_argument(name: str, why: str = "") -> Exception:
    """A parameter vCenter does not accept."""
    text = f"A specified parameter was not correct: {name}"
    error: Exception = vmodl.fault.InvalidArgument(invalidProperty=name, msg=f"{text} ({why})" if why else text)
    return error


def invalid_state(why: str = "") -> Exception:
    """The object is in a state that does not allow the call."""
    text = "The operation is not allowed in the current state."
    error: Exception = vim.fault.InvalidState(
        msg=text, faultMessage=[_message("vsphere-ai.lab.state", why)] if why else []
    )
    return error


def invalid_host_state(ref: Any, why: str) -> Exception:
    """The host is in a state that does not allow the call."""
    error: Exception = vim.fault.InvalidHostState(
        host=ref,
        msg="The operation is not allowed in the current state of the host.",
        faultMessage=[_message("vsphere-ai.lab.state", why)],
    )
    return error


def invalid_power_state(now: str, wanted: str) -> Exception:
    """The VM is on or off and would have to be the other."""
    shown = {"poweredOn": "Powered on", "poweredOff": "Powered off", "suspended": "Suspended"}[now]
    error: Exception = vim.fault.InvalidPowerState(
        requestedState=wanted,
        existingState=now,
        msg=f"The attempted operation cannot be performed in the current state ({shown}).",
    )
    return error


def not_supported(why: str) -> Exception:
    """The lab does not simulate this part of a call and says so."""
    error: Exception = vmodl.fault.NotSupported(msg=f"The operation is not supported on the object. ({why})")
    return error


def power_on_failed(*reasons: str) -> Exception:
    """The virtual machine monitor refused to power on; `reasons` go from the top to the root."""
    module = "Module 'DevicePowerOn' power on failed."
    messages = [_message("msg.moduletable.powerOnFailed", module), *(_message("msg.vmx.reason", r) for r in reasons)]
    error: Exception = vim.fault.GenericVmConfigFault(reason=module, msg=module, faultMessage=messages)
    return error


def migration_failed(why: str) -> Exception:
    """The VM cannot be migrated while it runs, or not to this host."""
    error: Exception = vim.fault.MigrationFault(
        msg="The migration of the virtual machine failed.", faultMessage=[_message("vsphere-ai.lab.migration", why)]
    )
    return error


def bad_device(index: int, text: str, *, backing: bool = False) -> Exception:
    """A device of a specification that cannot be so; `backing` says that what is behind it is wrong."""
    typ = vim.fault.InvalidDeviceBacking if backing else vim.fault.InvalidDeviceSpec
    prefix = f"virtualDeviceSpec.device[{index}]"
    error: Exception = typ(deviceIndex=index, property=f"{prefix}.backing" if backing else prefix, msg=text)
    return error


def too_many_devices() -> Exception:
    """The VM has as many devices of the type as it can."""
    error: Exception = vim.fault.TooManyDevices(
        property="virtualDeviceSpec", msg="The virtual machine has too many devices of this type."
    )
    return error


def host_config_fault(why: str) -> Exception:
    """The host refused a configuration."""
    error: Exception = vim.fault.HostConfigFault(msg=why, faultMessage=[_message("vsphere-ai.lab.host", why)])
    return error


def not_found(what: str) -> Exception:
    """A service, ruleset or the like that the host does not have."""
    error: Exception = vim.fault.NotFound(msg=f"The object or item referred to could not be found. ({what})")
    return error


def no_free_port(group: str) -> Exception:
    """A distributed port group has no port left and does not expand."""
    error: Exception = vim.fault.ResourceNotAvailable(
        containerType=vim.dvs.DistributedVirtualPortgroup,
        containerName=group,
        type=vim.dvs.DistributedVirtualPort,
        msg=f"No free port is available in {group}.",
    )
    return error


def duplicate_name(name: str, ref: Any) -> Exception:
    """The parent has a child of this name."""
    error: Exception = vim.fault.DuplicateName(name=name, object=ref, msg=f"The name '{name}' already exists.")
    return error


def invalid_name(name: str) -> Exception:
    """A name vCenter does not take: empty, or too long."""
    error: Exception = vim.fault.InvalidName(name=name, msg=f"The name '{name}' is not valid.")
    return error


def host_not_connected() -> Exception:
    """VCenter cannot reach the host just now."""
    error: Exception = vmodl.fault.HostNotConnected(
        msg="Unable to communicate with the remote host, since it is disconnected."
    )
    return error


def no_compatible_host(refs: Any, faults: Sequence[Exception] = ()) -> Exception:
    """DRS finds no host that fits a virtual machine; `faults` say of each host why."""
    error: Exception = vim.fault.NoCompatibleHost(
        host=list(refs), error=list(faults), msg="No host is compatible with the virtual machine."
    )
    return error


def no_disk_space(datastore: str, file: str) -> Exception:
    """A datastore has not the space that a file needs."""
    error: Exception = vim.fault.NoDiskSpace(
        file=file, datastore=datastore, msg=f"Insufficient disk space on datastore '{datastore}'."
    )
    return error


def no_permission(ref: Any, privilege: str) -> Exception:
    """The user lacks a privilege."""
    error: Exception = vim.fault.NoPermission(
        object=ref, privilegeId=privilege, msg="Permission to perform this operation was denied."
    )
    return error


def same_version(given: str | None, present: str) -> None:
    """Refuse a change that was made for another version of a configuration."""
    if given and given != present:
        raise vim.fault.ConcurrentAccess(
            msg="The operation cannot be performed because the object has been modified by another operation."
        )


def _message(key: str, text: str) -> Any:
    return vmodl.LocalizableMessage(key=key, message=text)
