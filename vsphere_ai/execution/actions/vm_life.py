"""Life of a VM of a set: its clone, its guest's first boot, and its end."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from vsphere_ai.errors import Conflict, NotVerified, OutcomeUnknown, StepFailed, VimFault
from vsphere_ai.execution.actions.configure import config_spec
from vsphere_ai.execution.actions.context import Context, Say, polling
from vsphere_ai.execution.actions.resolve import looked_up
from vsphere_ai.execution.disk_children import children_of, may_have_children, words
from vsphere_ai.guests.cloud_init import LEFT, USERDATA, given_network, holds_password, with_passwords
from vsphere_ai.guests.customization import FAILED
from vsphere_ai.guests.netplan import file_text, read_network
from vsphere_ai.guests.ready import READY, Ready, machine_problems, ready_problems, unprobed, verdict
from vsphere_ai.guests.reported import what_is_missing
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.plain import PlainObject
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Clone, Destroy, GuestReady, Reconfigure
from vsphere_ai.model.vm_sets import MemberMark, disk_files, disks_by_file, mark_of, options_of, settings_of
from vsphere_ai.security import redaction

FINAL = ("guest.conflict", "guest.address-missing", "guest.nic-missing")
REPORTED = 120.0
"""Seconds that VMware Tools, which look every 30 s, have to report the addresses of a guest that has come up."""
_USERDATA = (USERDATA, f"{USERDATA}.encoding")
CLONE_TIMEOUT = 7200
"""Seconds that a clone may take; it is never cancelled for being slow."""
LOST_CLONE = 1800.0
"""Seconds that a clone is waited for whose answer was lost, while a task runs on its source."""
_UNDER_WAY = ("queued", "running")
CHANGE = "VirtualDeviceConfigSpec"
_GOING = (
    "config.changeVersion",
    "config.hardware.device",
    "config.template",
    "runtime.connectionState",
    "runtime.powerState",
    "snapshot",
)
"""What is read of a VM right before it is destroyed, beside its mark."""
_OF_GUEST = ("config.extraConfig", "config.instanceUuid", "guest.net", "runtime.powerState")
_CUSTOMIZED = ("config.tools.pendingCustomization", "guest.customizationInfo")
"""What shows a customization as well: GuestInfo.customizationInfo since API 7.0.2; the events say the same."""
_MARKED = ("name", "config.instanceUuid", "config.extraConfig")


class VmLife:
    """Makes and destroys VMs; each is known by its mark, never by its name."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ready: dict[str, tuple[Target, Ready]] = {
            mark.uuid: (Target("vm", facts.name, facts.ref), said)
            for facts in context.planned.values()
            if (mark := mark_of(facts)) is not None and (said := _verdict(facts)) is not None
        }
        """What the guests of marked VMs have reported, by instanceUuid: at planning, and in this run."""
        self._lock = threading.Lock()

    def clone(self, step: Clone, say: Say) -> None:
        """Send one CloneVM_Task, unless the VM is there; read back that the new VM has its identity and its mark."""
        if self.exists(step.target):
            return
        spec = looked_up(self._spec(step), self._context.vcenter)  # port groups that this plan has made
        args: PlainObject = {"folder": step.folder, "name": step.name, "spec": spec}
        source = Target("vm", step.target.name, step.source)
        try:
            self._context.task(source, "CloneVM_Task", args, say, CLONE_TIMEOUT)
        except OutcomeUnknown:
            if not self._came_all_the_same(step, say):
                raise
        except VimFault as refused:
            # it exists: made by an earlier call whose answer was lost, or another VM has the name
            if refused.fault != "DuplicateName" or not self._came_all_the_same(step, say):
                raise
        if not self.exists(step.target):
            raise StepFailed(
                f"{step.target.name} was cloned, but vCenter gave the new VM another instance UUID",
                "it carries no valid mark: look at it in the vSphere Client, and remove it by hand",
                rule="clone.identity",
            )
        self._require_place(step)

    def _require_place(self, step: Clone) -> None:
        """Raise `StepFailed` where a new VM is on another host or datastore than asked for."""
        location: Mapping[str, Any] = step.spec.get("location") or {}
        asked = {key: location[key] for key in ("host", "datastore") if key in location}
        if not asked:
            return
        found = self._context.read(step.target, "runtime.host", "datastore")
        place = {"host": (found.get("runtime.host"),), "datastore": found.get("datastore") or ()}
        wrong = {
            str(asked[key]): list(map(str, has)) for key, has in place.items() if key in asked and asked[key] not in has
        }
        if not wrong:
            return
        refs = sorted({*wrong, *(ref for has in wrong.values() for ref in has)})
        named = self._context.vcenter.read_objects(refs, {"HostSystem": ("name",), "Datastore": ("name",)})
        names = {ref: facts.name for ref, facts in named.items()}
        words = "; ".join(
            f"on {', '.join(names.get(ref, ref) for ref in has)} and not on {names.get(wanted, wanted)}"
            for wanted, has in wrong.items()
        )
        raise StepFailed(
            f"{step.target.name} was made {words}",
            "plan again: what is planned then is for where it is; or move it first",
            rule="clone.elsewhere",
        )

    def _spec(self, step: Clone) -> PlainObject:
        """Return the specification of a clone with the passwords of its accounts, hashed."""
        if not step.passwords:
            return step.spec
        config = step.spec["config"]
        settings = {option["key"]: option["value"] for option in config["extraConfig"]}
        hashes = {user: self._context.passwords[reference].reveal() for user, reference in step.passwords}
        given = with_passwords(settings, hashes)
        redaction.register_packed(given[USERDATA])  # a fault may quote what it refuses
        return {**step.spec, "config": {**config, "extraConfig": options_of(given)}}

    def exists(self, vm: Target) -> bool:
        """Read whether a VM is there that carries its own mark."""
        found = self._context.vcenter.read_objects([vm.ref], {"VirtualMachine": _MARKED}).get(vm.ref)
        return found is not None and mark_of(found) is not None

    def is_there(self, vm: Target) -> bool:
        """Read whether a VM is in the inventory, with or without a mark."""
        return bool(self._context.vcenter.read_objects([vm.ref], {"VirtualMachine": ("name",)}))

    def _came_all_the_same(self, step: Clone, say: Say) -> bool:
        """Wait while a clone of the same source is under way; return whether it made the VM."""
        for waited in polling(LOST_CLONE, fastest=0.5, slowest=5.0):
            if self.exists(step.target):
                return True
            if not self._clones(step.source):
                return self.exists(step.target)
            say(f"the answer was lost; a clone of its source is under way, {waited:.0f} s")
        return False

    def _clones(self, source: str) -> bool:
        facts = self._context.vcenter.read_objects([source], {"VirtualMachine": ("recentTask",)}).get(source)
        refs = [str(ref) for ref in (facts.get("recentTask") if facts else None) or ()]
        found = self._context.vcenter.read_objects(refs, {"Task": ("info.state",)}) if refs else {}
        return any(task.get("info.state") in _UNDER_WAY for task in found.values())

    def destroy(self, step: Destroy, say: Say) -> None:
        """Destroy a VM whose mark and disks are those of the plan; read back that it is gone."""
        vm = step.target
        paths = (*_MARKED, *_GOING)
        found = self._context.vcenter.read_objects([vm.ref], {"VirtualMachine": paths}).get(vm.ref)
        if found is None:
            return
        self._require_ours(step, found)
        if found.get("runtime.powerState") != "poweredOff":
            raise Conflict(f"{vm.name} was powered on again; it is not destroyed", "plan again", rule="object.changed")
        if may_have_children(found) and (names := children_of(self._context.vcenter, [vm.ref]).get(vm.ref)):
            raise Conflict(f"{vm.name}: {words(names)}; it is not destroyed", "plan again", rule="object.changed")
        self._detach(step, found, say)
        self._context.task(vm, "Destroy_Task", {}, say)
        with self._lock:
            self._ready = {uuid: each for uuid, each in self._ready.items() if uuid != found.get("config.instanceUuid")}
        if self.is_there(vm):
            raise StepFailed(f"{vm.name} is still there after Destroy_Task", "look at its tasks in the vSphere Client")

    def _detach(self, step: Destroy, found: Facts, say: Say) -> None:
        """Take the disks off a VM that are not to go with it, in one reconfigure; read back that they are off."""
        vm, devices = step.target, [disk for name, disk in disks_by_file(found) if name in step.detached]
        if devices:
            off = tuple({"_typeName": CHANGE, "operation": "remove", "device": device} for device in devices)
            change = Reconfigure(target=vm, summary="detach disks", device_changes=off)
            spec = config_spec(change, found.get("config.changeVersion"))
            self._context.task(vm, "ReconfigVM_Task", {"spec": spec}, say)
            left = [name for name in disk_files(self._context.read(vm, *_GOING)) if name in step.detached]
            if left:
                message = f"{vm.name} still has {', '.join(left)} after they were detached; it is not destroyed"
                raise StepFailed(message, "look at its tasks in the vSphere Client")
        for name in step.detached:
            self._context.notice(f"{vm.name}: {name} is detached, and stays")

    def _require_ours(self, step: Destroy, found: Facts) -> None:
        vm, mark = step.target, mark_of(found)
        if not isinstance(mark, MemberMark) or (mark.set, mark.index) != (step.set, step.index):
            words = f"does not carry the mark of number {step.index} of the set {step.set} any more"
            raise Conflict(f"{vm.name} {words}; it is not destroyed", "plan again", rule="object.changed")
        if found.get("runtime.connectionState") != "connected":
            words = f"is {found.get('runtime.connectionState')}; it may run elsewhere, and is not destroyed"
            raise Conflict(f"{vm.name} {words}", "connect its host, then plan again", rule="object.changed")
        disks = tuple(d for d in disk_files(found) if d not in step.detached)
        if disks != step.disks or (step.detached and found.get("snapshot")):
            more = ", ".join(d for d in disks if d not in step.disks) or "fewer, or snapshots"
            raise Conflict(
                f"{vm.name} has other disks than at planning ({more}); it is not destroyed",
                "plan again",
                rule="object.changed",
            )

    def ready(self, step: GuestReady, say: Say) -> None:
        """Wait until the guest says so, and reports every planned address on its NIC."""
        last, seen, limit = "the VM shows nothing yet", 0.0, f"within {step.timeout:.0f} s"
        for waited in self._context.looking(step.timeout, fastest=0.3, slowest=5.0):
            found = self._context.read(step.target, *_OF_GUEST, *(_CUSTOMIZED if step.customized else ()))
            if found.get("runtime.powerState") != "poweredOn":
                raise NotVerified(f"{step.target.name} is off again", "look at its events, then resume")
            last = why_not_customized(step, found) if step.customized else why_not_ready(step, found)
            self._require_network(step, found, booted=not last)
            if not last:
                self._compare(step, found)
                self._clear(step, found, say)
                return
            seen = (seen or waited) if _has_ended(step, found) else 0.0
            if seen and waited - seen > REPORTED:
                limit = f"within {REPORTED:.0f} s after its guest had done everything"
                break
            # what is left of the shorter one of its two limits
            soon = seen > 0 and seen + REPORTED < step.timeout
            spent, most = (waited - seen, REPORTED) if soon else (waited, float(step.timeout))
            say(f"{last}, {spent:.0f} of {most:.0f} s")
        raise NotVerified(
            f"{step.target.name} is not ready {limit}: {last}",
            "look at the console of the guest; vsphere-ai resume waits for it again",
            rule="guest.not-ready",
        )

    def _compare(self, step: GuestReady, found: Facts) -> None:
        """Raise `NotVerified` where another guest has the machine id of this one, of which the plan has not warned."""
        mark, said = mark_of(found), _verdict(found)
        if mark is None or said is None:
            return
        with self._lock:
            self._ready[mark.uuid] = step.target, said
            same = {t: each for t, each in self._ready.values() if each.machine == said.machine}
        for problem in (p for p in machine_problems(same) if p.target == step.target):
            if not step.one_machine_id:
                raise NotVerified(f"{step.target.name}: {problem.message}", problem.remedy, rule=problem.rule)
            self._context.notice(f"{step.target.name}: {problem.message}")

    def _clear(self, step: GuestReady, found: Facts, say: Say) -> None:
        """Remove user data with passwords from a VM; a guest can only redact them, maybe for as long as it runs."""
        if step.clears and settings_of(found).get(USERDATA):
            empty = options_of(dict.fromkeys(_USERDATA, ""))
            spec: PlainObject = {"_typeName": "VirtualMachineConfigSpec", "extraConfig": empty}
            self._context.task(step.target, "ReconfigVM_Task", {"spec": spec}, say)
            if holds_password(settings_of(self._context.read(step.target, "config.extraConfig"))):
                words = f"{step.target.name}: the user data with the password are still in its settings"
                raise NotVerified(words, "remove guestinfo.userdata from the VM's advanced settings", rule=LEFT)

    def _require_network(self, step: GuestReady, found: Facts, *, booted: bool) -> None:
        """Raise `NotVerified` for what the guest itself found wrong with its network.

        A conflict and what is missing in the guest end the wait: no later report of VMware Tools changes that.
        """
        settings = settings_of(found)
        try:
            said = verdict(settings.get(READY, ""))
            nics = read_network(file_text(given_network(settings) or {}))
        except ValueError:
            return  # not written yet, or not by this tool
        if said.generation != step.generation:
            return
        problems = list(ready_problems(step.target, said, nics, step.generation))
        wrong = [p for p in problems if booted or p.rule in FINAL]
        if wrong:
            raise NotVerified(
                f"{step.target.name} has no network as planned: {'; '.join(p.message for p in wrong)}",
                wrong[0].remedy,
                rule=wrong[0].rule,
            )
        for line in unprobed(said) if booted else ():
            self._context.notice(f"{step.target.name}: {line}")


def _verdict(facts: Facts) -> Ready | None:
    """Return what the guest of a VM has reported; None where it has not, or something else."""
    try:
        return verdict(settings_of(facts).get(READY, ""))
    except ValueError:
        return None


def why_not_ready(step: GuestReady, found: Facts) -> str:
    """Return what is missing until a guest is ready, in words; empty when nothing is."""
    unsaid = _not_said(settings_of(found).get(READY, ""), step.generation) if step.generation else ""
    return unsaid or what_is_missing(step.nics, found.get("guest.net"))


def _has_ended(step: GuestReady, found: Facts) -> bool:
    """Return whether a guest has done all that it was given, in this boot: only VMware Tools may lag behind it."""
    if not found.get("guest.net") or not step.generation:
        return False  # of an adopted VM nothing says that its boot is over
    info: Mapping[str, Any] = found.get("guest.customizationInfo") or {}
    done = str(info.get("customizationStatus", "")).endswith("_SUCCEEDED")
    return done if step.customized else not _not_said(settings_of(found).get(READY, ""), step.generation)


def _not_said(text: str, generation: int) -> str:
    if not text:
        return "the guest has not said that it is ready"
    try:
        said = verdict(text)
    except ValueError as error:
        return str(error)
    if said.generation != generation:
        return f"the guest reports generation {said.generation} of its settings, not {generation}"
    return ""


def why_not_customized(step: GuestReady, found: Facts) -> str:
    """Return what is missing until a guest that vCenter customizes is ready, in words; empty when nothing is.

    `NotVerified` where the customization has failed: no later boot tries it again.
    """
    missing = what_is_missing(step.nics, found.get("guest.net"))
    info: Mapping[str, Any] = found.get("guest.customizationInfo") or {}
    state = str(info.get("customizationStatus", "")).removeprefix("TOOLSDEPLOYPKG_")
    if state == "FAILED" and (missing or not step.nics):
        why = redaction.untrusted(str(info.get("errorMsg") or "")) or "no reason is given"
        raise NotVerified(
            f"{step.target.name}: vCenter could not customize its guest: {why}",
            "look at /var/log/vmware-imc/toolsDeployPkg.log in the guest; then recreate the VM: vsphere-ai replace",
            rule=FAILED,
        )
    if found.get("config.tools.pendingCustomization") or state in ("PENDING", "RUNNING"):
        return f"its customization is {state.lower() or 'pending'}"
    return missing
