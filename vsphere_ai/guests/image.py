"""Contract of an image: what a template or source VM has to bring, so that its clones come up as planned.

What vCenter shows is read from it. What is inside of the disk only the builder of the image knows: it is recorded in
the advanced setting `vsphere-ai.image`, or in a line of the notes. What is neither shown nor recorded is *unknown*, and
one VM, the canary, is made first: its ready key shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

from vsphere_ai.guests.cloud_init import METADATA, REDACTED, USERDATA
from vsphere_ai.guests.ready import READY
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding, Verdict
from vsphere_ai.model.names.guest_ids import LINUX, NOT_LINUX
from vsphere_ai.model.plain import Plain, objects
from vsphere_ai.model.state import Target

KEY = "vsphere-ai.image"
"""Advanced setting, or begin of a line of the notes: ``cloud-init=24.1 renderer=netplan machine-id=clean``."""
MARKS = "vsphere-ai."
CLEAN = "clean"
"""State of a machine id that was removed from the image."""
VENDORDATA, OVF = "guestinfo.vendordata", "guestinfo.ovfEnv"
INPUTS = (*(f"{name}{end}" for name in (METADATA, USERDATA, VENDORDATA) for end in ("", ".encoding")), OVF, READY)
"""Settings of a VM that cloud-init in a clone would read, or that a clone is taken for ready by."""
PRIVILEGE = "give the account the privilege to see the template's configuration"
CREATED = "config.createDate"
"""When a VM or template was made (VirtualMachineConfigInfo, since vSphere API 6.7); others patch images in place."""
FIRST_GUESTINFO, FIRST_IMC, FIRST_FALLBACK = (21, 3), (23, 1), (23, 4)
PATHS = (
    "config.annotation",
    CREATED,
    "config.extraConfig",
    "config.guestId",
    "config.hardware.device",
    "config.template",
    "config.tools.toolsVersion",
    "config.vAppConfig",
    "guest.guestFamily",
    "guest.toolsVersionStatus2",
    "snapshot",
)
"""Properties of the source that are looked at."""
DATASOURCE = "cloud-init, doc/rtd/reference/datasources/vmware.rst"
SOURCES: Mapping[str, str] = {
    "age": "vSphere Web Services API, VirtualMachineConfigInfo.createDate",
    "machine-id": "cloud-init, doc/rtd/reference/cli.rst, clean; open-vm-tools issue 240",
    "renderer": "cloud-init, cloudinit/net; github.com/canonical/cloud-init issue 4862",
    "snapshot": "vSphere Web Services API, VirtualMachineRelocateDiskMoveOptions",
    "tools": "vSphere Web Services API, GuestInfo.toolsVersionStatus2",
    "tpm": "vSphere Web Services API, VirtualMachineCloneSpec.tpmProvisionPolicy",
}
"""Source of each rule that has another one than `DATASOURCE`."""


@dataclass(frozen=True)
class Renderer:
    """What a renderer of cloud-init makes of the network file: whether it keeps tables and rules, and what it does."""

    policy_routing: bool
    note: str


RENDERERS: Mapping[str, Renderer] = {
    "netplan": Renderer(True, "the file is handed over unchanged"),
    "networkd": Renderer(False, "tables and rules are dropped: gateways of all NICs become default routes"),
    "sysconfig": Renderer(False, "tables and rules are dropped"),
    "network-manager": Renderer(False, "tables and rules are dropped"),
    "eni": Renderer(False, "tables and rules are dropped"),
}
"""Renderers of cloud-init by their names in ``/etc/cloud/cloud.cfg``; each is a module of ``cloudinit/net``."""


@dataclass(frozen=True)
class Needs:
    """What the clones of an image need: how the guest is set up, routing tables of NICs, and a linked clone's snapshot.

    `api` is the version of the vCenter's API. `without` is how a playbook sets such guests up without cloud-init.
    """

    method: Literal["cloud-init", "linux-prep"] = "cloud-init"
    policy_routing: bool = False
    linked: bool = False
    snapshot: str = ""
    api: tuple[int, ...] = (7, 0, 2, 0)
    most_days: int | None = None
    """Days that may have passed since the image was built; None: any number."""
    today: date = date.max
    without: str = "choose LinuxPrep for the guests"


@dataclass(frozen=True)
class ImageRecord:
    """What the builder of an image has recorded: cloud-init's version, its renderer, the machine id, the day.

    None or empty: not recorded. A version without numbers, ``()``: the image has no cloud-init.
    """

    cloud_init: tuple[int, ...] | None = None
    renderer: str = ""
    machine_id: str = ""
    built: date | None = None


def image_findings(target: Target, source: Facts, needs: Needs) -> tuple[Finding, ...]:
    """Return a finding per rule ``image.*`` about a source of clones; `source` has what `PATHS` names."""
    image = _Image(target, source, needs, recorded(source))
    return tuple(found for rule in _RULES for found in rule(image))


def canary(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return why one VM has to be made, and its guest looked at, before the others; nothing where all is known."""
    return tuple(f.message for f in findings if f.verdict == "unknown" and f.rule != "image.age")


def cleared_settings(source: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a clone has to get as empty ones: a clone takes those of its source with it.

    They are the inputs of cloud-init and the marks of this tool that `given`, the clone's own settings, do not replace.
    """
    return {key: "" for key, value in source.items() if value and key not in given and _is_ours(key)}


def recorded(source: Facts) -> ImageRecord:
    """Return what the builder of an image has recorded, in the advanced setting before the notes."""
    notes = str(source.get("config.annotation") or "")
    line = re.search(rf"^\s*{re.escape(KEY)}\s*[:=]\s*(.*)$", notes, re.M)
    text = _settings(source).get(KEY) or (line[1] if line else "")
    words = dict(word.partition("=")[::2] for word in text.split() if "=" in word)
    version = words.get("cloud-init", "").lower()
    numbers = re.match(r"\d+(\.\d+)*", version)
    return ImageRecord(
        tuple(map(int, numbers[0].split("."))) if numbers else () if version == "none" else None,
        words.get("renderer", "").lower(),
        words.get("machine-id", "").lower(),
        _day(words.get("built", "")),
    )


@dataclass(frozen=True)
class _Image:
    target: Target
    source: Facts
    needs: Needs
    recorded: ImageRecord

    def found(self, rule: str, verdict: Verdict, message: str, evidence: tuple[str, object], help: str = "") -> Finding:
        shown, source = (evidence[0], str(evidence[1])), SOURCES.get(rule, DATASOURCE)
        return Finding(self.target, f"image.{rule}", verdict, message, help, (shown,), source, verdict == "fail")

    def unknown(self, rule: str, path: str, message: str, help: str) -> Finding:
        reason = self.source.unreadable.get(path, "")
        message = f"{message} ({reason})" if reason else message
        return Finding(self.target, f"image.{rule}", "unknown", message, help, (), SOURCES.get(rule, DATASOURCE))


def _guest(image: _Image) -> Iterator[Finding]:
    path, family = "guest.guestFamily", str(image.source.get("guest.guestFamily") or "")
    guest = str(image.source.get("config.guestId") or "")
    if family == "linuxGuest" or (not family and LINUX.match(guest)):
        yield image.found(
            "guest", "pass", "the guest is Linux", (path if family else "config.guestId", family or guest)
        )
    elif family or NOT_LINUX.match(guest):
        seen = (path, family) if family else ("config.guestId", guest)
        yield image.found("guest", "fail", "the guest is not Linux", seen, "choose a template with Linux")
    else:
        help = "set the guest operating system of the template"
        yield image.unknown("guest", "config.guestId", "it is not known whether the guest is Linux", help)


def _tools(image: _Image) -> Iterator[Finding]:
    status = str(image.source.get("guest.toolsVersionStatus2") or "")
    version = image.source.get("config.tools.toolsVersion")
    help = "install open-vm-tools in the template: it hands guestinfo over, and reports addresses"
    if status == "guestToolsNotInstalled" or (not status and version == 0):
        seen = ("guest.toolsVersionStatus2", status) if status else ("config.tools.toolsVersion", version)
        yield image.found("tools", "fail", "VMware Tools are not installed", seen, help)
    elif status or version:
        seen = ("guest.toolsVersionStatus2", status) if status else ("config.tools.toolsVersion", version)
        yield image.found("tools", "pass", "VMware Tools are installed", seen)
    else:
        yield image.unknown(
            "tools", "config.tools.toolsVersion", "it is not known whether VMware Tools are installed", help
        )


def _cloud_init(image: _Image) -> Iterator[Finding]:
    version, needs = image.recorded.cloud_init, image.needs
    if version is None:
        help = f"record it in the template: {KEY} = cloud-init=VERSION renderer=NAME machine-id=clean"
        yield image.unknown("cloud-init", "config.extraConfig", "the version of cloud-init is not recorded", help)
        return
    text = ".".join(map(str, version)) or "none"
    seen = (KEY, f"cloud-init={text}")
    if not version and needs.method == "cloud-init":
        help = f"{needs.without}, or install cloud-init 21.3 or later in the template"
        yield image.found("cloud-init", "fail", "the image has no cloud-init", seen, help)
    elif not version:
        yield image.found("cloud-init", "pass", "the image has no cloud-init, which LinuxPrep does without", seen)
    elif needs.method == "cloud-init" and version < FIRST_GUESTINFO:
        help = "update cloud-init in the template to 21.3 or later, better 23.4, or use LinuxPrep"
        yield image.found("cloud-init", "fail", f"cloud-init {text} does not read guestinfo", seen, help)
    elif needs.method == "linux-prep" and version < FIRST_IMC:
        help = "update cloud-init in the template to 23.1 or later"
        words = f"cloud-init {text} does customization in its OVF source, and may fall back to DHCP at the next boot"
        yield image.found("cloud-init", "warn", words, seen, help)
    elif needs.method == "cloud-init" and version < FIRST_FALLBACK:
        words = f"cloud-init {text} cannot read guestinfo where the host asks vmware-rpctool for authentication"
        yield image.found("cloud-init", "warn", words, seen, "update cloud-init in the template to 23.4 or later")
    else:
        yield image.found("cloud-init", "pass", f"cloud-init {text}", seen)


def _renderer(image: _Image) -> Iterator[Finding]:
    name = image.recorded.renderer
    known = RENDERERS.get(name)
    if not image.needs.policy_routing:
        return
    help = "use an image with netplan, or leave out gateways and routes of NICs that are not primary"
    if known is None:
        words = (
            f"what the renderer '{name}' makes of routing rules is not known"
            if name
            else "its renderer is not recorded"
        )
        yield image.unknown("renderer", "config.extraConfig", words, help)
        return
    verdict: Verdict = "pass" if known.policy_routing else "fail"
    seen = (KEY, f"renderer={name}")
    yield image.found("renderer", verdict, f"{name}: {known.note}", seen, "" if verdict == "pass" else help)


def _machine_id(image: _Image) -> Iterator[Finding]:
    state = image.recorded.machine_id
    help = "run `cloud-init clean --machine-id --logs` as the last command before the template is made"
    if not state:
        yield image.unknown(
            "machine-id", "config.extraConfig", "it is not recorded that the machine id was removed", help
        )
    elif state == CLEAN:
        yield image.found("machine-id", "pass", "each clone makes its own machine id", (KEY, f"machine-id={state}"))
    else:
        words = "clones have the same machine id: the same DHCP client, and one journal"
        yield image.found("machine-id", "warn", words, (KEY, f"machine-id={state}"), help)


def _guestinfo(image: _Image) -> Iterator[Finding]:
    settings = _settings(image.source)
    if "config.extraConfig" in image.source.unreadable:
        yield image.unknown("guestinfo", "config.extraConfig", "its advanced settings cannot be read", PRIVILEGE)
        return
    stale = [key for key in sorted(settings) if key in INPUTS and settings[key].strip() not in ("", REDACTED)]
    if stale:
        words = f"it carries settings of another machine: {', '.join(stale)}"
        help = "they are emptied in each clone; remove them from the template"
        yield image.found("guestinfo", "warn", words, ("config.extraConfig", stale[0]), help)
    else:
        yield image.found("guestinfo", "pass", "no settings of another machine", ("config.extraConfig", "none"))
    marks = [key for key in sorted(settings) if key.startswith(MARKS) and key != KEY and settings[key]]
    if marks:
        words = f"it carries the mark of a VM that a set has made: {', '.join(marks)}"
        help = "it is replaced in each clone; remove it from the template"
        yield image.found("mark", "warn", words, ("config.extraConfig", marks[0]), help)


def _vapp(image: _Image) -> Iterator[Finding]:
    if "config.vAppConfig" in image.source.unreadable:
        yield image.unknown("vapp", "config.vAppConfig", "its vApp options cannot be read", PRIVILEGE)
        return
    if image.source.get("config.vAppConfig"):
        help = "each clone is made with vAppConfigRemoved; convert the template likewise"
        words = "it has vApp options, and cloud-init would read them instead of guestinfo"
        yield image.found("vapp", "warn", words, ("config.vAppConfig", "set"), help)
    else:
        yield image.found("vapp", "pass", "no vApp options", ("config.vAppConfig", "unset"))


def _tpm(image: _Image) -> Iterator[Finding]:
    if "config.hardware.device" in image.source.unreadable:
        yield image.unknown("tpm", "config.hardware.device", "its devices cannot be read", PRIVILEGE)
        return
    devices = objects(image.source.get("config.hardware.device"))
    if not any(device.get("_typeName") == "VirtualTPM" for device in devices):
        return
    seen = ("config.hardware.device", "VirtualTPM")
    if image.needs.api >= (8, 0):
        yield image.found("tpm", "pass", "each clone gets a TPM of its own (tpmProvisionPolicy replace)", seen)
    else:
        words = "before vSphere 8.0 clones have the secrets of the template's TPM"
        yield image.found("tpm", "warn", words, seen, "take the TPM out of the template")


def _snapshot(image: _Image) -> Iterator[Finding]:
    if not image.needs.linked:
        return
    if "snapshot" in image.source.unreadable:
        yield image.unknown("snapshot", "snapshot", "its snapshots cannot be read", PRIVILEGE)
        return
    tree = image.source.get("snapshot")
    names = sorted(_snapshots(tree.get("rootSnapshotList"))) if isinstance(tree, Mapping) else []
    wanted, seen = image.needs.snapshot, ("snapshot", ", ".join(names) or "none")
    if image.source.get("config.template"):
        if wanted:
            words = "a linked clone of a template is made without a snapshot"
            yield image.found("snapshot", "fail", words, seen, "leave the snapshot out")
        return
    help = f"name one of: {', '.join(names)}" if names else "take a snapshot of the source while it is off"
    if not wanted:
        yield image.found("snapshot", "fail", "a linked clone of a VM needs one of its snapshots", seen, help)
    elif names.count(wanted) != 1:
        words = f"it has {names.count(wanted)} snapshots of the name '{wanted}'"
        yield image.found("snapshot", "fail", words, seen, help)
    else:
        yield image.found("snapshot", "pass", f"snapshot '{wanted}'", seen)


def _age(image: _Image) -> Iterator[Finding]:
    most, own = image.needs.most_days, image.recorded.built
    if most is None:
        return
    built = own or _day(str(image.source.get(CREATED) or "")[:10])
    if built is None:
        help = f"record it in the template: {KEY} = built=2026-01-31"
        yield image.unknown("age", CREATED, "it is not known when the image was built", help)
        return
    days, seen = (image.needs.today - built).days, (KEY if own else CREATED, built.isoformat())
    if days > most:
        words = f"the image was built on {built.isoformat()}, {days} days ago: more than {most}"
        yield image.found("age", "fail", words, seen, f"rebuild it, or record its day: {KEY} = built=DATE")
    else:
        yield image.found("age", "pass", f"the image was built on {built.isoformat()}", seen)


_RULES: tuple[Callable[[_Image], Iterator[Finding]], ...] = (
    _guest,
    _tools,
    _cloud_init,
    _renderer,
    _machine_id,
    _guestinfo,
    _vapp,
    _tpm,
    _snapshot,
    _age,
)


def _day(text: str) -> date | None:
    """Return a date that is written 2026-01-31; None for anything else."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _snapshots(value: Plain) -> Iterator[str]:
    for each in objects(value):
        yield str(each.get("name", ""))
        yield from _snapshots(each.get("childSnapshotList"))


def _settings(source: Facts) -> dict[str, str]:
    return {str(o["key"]): str(o.get("value", "")) for o in objects(source.get("config.extraConfig"))}


def _is_ours(key: str) -> bool:
    return key in INPUTS or key.startswith(MARKS)
