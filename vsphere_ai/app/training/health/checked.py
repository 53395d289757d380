"""Health of VMs: guests and hosts are asked at the same time, judged by a profile, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.training.health.history import HealthHistory
from vsphere_ai.app.training.health.read import HealthRead, read_health, with_counters
from vsphere_ai.app.training.nodes.listed import NodesRequest
from vsphere_ai.documents.health import UseState
from vsphere_ai.errors import UsageError
from vsphere_ai.health import dcgm
from vsphere_ai.health.checks import ObservedVm, VmHealth, gpu_events, judge, xid_findings
from vsphere_ai.health.estate import shared
from vsphere_ai.health.finding import COMMON, VmFinding, VmJudge, VmUse, evidence_of
from vsphere_ai.health.profile import HealthProfile
from vsphere_ai.language.yaml_files.model_files import load_model
from vsphere_ai.model.finding import Finding, Subject, exit_code
from vsphere_ai.model.guest_probes import CommandAnswer, GuestProbe
from vsphere_ai.model.nodes import Node


@dataclass(frozen=True)
class HealthRequest:
    """Which VMs, and the file of a profile; without it only what is wrong in itself, or against the playbook.

    `dcgm` is the level of DCGM's diagnostics, 1 to 4; 0: none.
    """

    nodes: NodesRequest = field(default_factory=NodesRequest)
    profile: Path | None = None
    dcgm: int = 0


@dataclass(frozen=True)
class HealthResult:
    """The verdict of each VM, in the order of the nodes, and findings about the estate."""

    vcenter: str
    vms: tuple[VmHealth, ...]
    estate: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found of all of them, then of each VM; a VM of which nothing was found has passed.

        What a VM has in common with others is only in the finding about all of them, which names it.
        """
        own = (f for vm in self.vms for f in vm.findings or (_passed(vm.node),))
        return (*self.estate, *(f for f in own if not evidence_of(f, COMMON)))

    @property
    def exit_code(self) -> int:
        """Return 2 where something failed, 1 where something is not known, else 0."""
        return exit_code(self.findings)


def _passed(node: Node) -> VmFinding:
    return Finding(Subject("vm", node.vm, host=node.host), "health", "pass", "every check passed")


def check_health(
    request: HealthRequest, emit: Emit = ignore, confirm: Callable[[str], bool] = lambda _: True
) -> HealthResult:
    """Return the health of VMs. Changes nothing; counters and XIDs are kept in the state folder for the next check.

    A level of DCGM that takes long is asked about before it begins; `UsageError` when that is refused.
    """
    profile = load_profile(request.profile) if request.profile else HealthProfile()
    read = read_health(request.nodes, emit)
    if request.dcgm >= dcgm.LONG and not confirm(_question(read, request.dcgm)):
        raise UsageError(f"DCGM level {request.dcgm} was not run", "choose level 1 or 2", rule="health.dcgm")
    history = HealthHistory(read.instance)
    read = with_counters(read, history, profile.interval, emit)
    now = datetime.now(UTC)
    new = [e for each in read.observed for e in gpu_events(each, now, profile.xid_hours)]
    about = list(xid_findings((*history.before(new), *new), [o.node for o in read.observed], now))
    history.keep(read.observed, new, now, read.use)
    about += _diagnosed(read, request.dcgm, emit) if request.dcgm else []
    emit(Status(""))
    made = (judge(each, profile, [f for f in about if f.target.name == each.node.vm]) for each in read.observed)
    vms, estate = shared(tuple(made), profile.common)
    return HealthResult(read.vcenter, vms, estate)


def _question(read: HealthRead, level: int) -> str:
    count = sum(not dcgm.not_applicable(o.node, o.guest, passthrough=o.passthrough) for o in read.observed)
    takes = f"takes {dcgm.MINUTES[level]}, and needs the GPUs for itself"
    return f"DCGM level {level} {takes}: {count} of {len(read.observed)} VMs. Continue?"


def _diagnosed(read: HealthRead, level: int, emit: Emit) -> list[VmFinding]:
    """Return what DCGM finds, on all VMs at the same time; GPUs that are in use are not put under load."""
    from vsphere_ai.connect.secure_shell.guest_survey import survey

    found: list[VmFinding] = []
    free: dict[str, ObservedVm] = {}
    for each in (o for o in read.observed if not o.error):
        node, why = each.node, dcgm.not_applicable(each.node, each.guest, passthrough=each.passthrough)
        busy = dcgm.in_use(each.guest) if level >= dcgm.EXCLUSIVE and not why else ""
        if why:
            found.append(VmJudge(node)("dcgm", "info", f"not applicable: {why}"))
        elif busy:
            message = f"level {level} was not run: the GPUs are in use by {busy}"
            found.append(VmJudge(node)("dcgm", "unknown", message, "end it, or choose level 1"))
        else:
            free[node.vm] = each
    if free:
        emit(Status(f"health: DCGM level {level} on {len(free)} VMs, {dcgm.MINUTES[level]}"))
    command = dcgm.command(level)

    probe = GuestProbe((command,), lambda answers: answers[command.name])
    answers = survey([o.node for o in free.values()], read.settings, probe) if free else {}
    for vm, each in free.items():
        answer = answers[vm]
        known = answer if isinstance(answer, CommandAnswer) else CommandAnswer(failure=answer.message)
        found += dcgm.dcgm_findings(each.node, each.guest, known, level)
    return found


def gpu_use(request: HealthRequest, emit: Emit = ignore) -> tuple[str, tuple[VmUse, ...]]:
    """Return the vCenter, and the VMs that hold GPUs, with whether they use them.

    GPUs are looked at twice, and what earlier checks saw counts. Changes nothing; what is seen is kept for later.
    """
    profile = load_profile(request.profile) if request.profile else HealthProfile()
    read = read_health(request.nodes, emit)
    history = HealthHistory(read.instance)
    read = with_counters(read, history, profile.interval, emit, again=True)
    now = datetime.now(UTC)
    history.keep((), (), now, read.use)
    emit(Status(""))
    return read.vcenter, tuple(_use(read, history, now))


def _use(read: HealthRead, history: HealthHistory, now: datetime) -> Iterator[VmUse]:
    for node in (o.node for o in read.observed if o.node.gpus):
        gpus = tuple(dict.fromkeys(gpu.host_pci or gpu.profile or gpu.guest_pci for gpu in node.gpus))
        used = read.use.get(node.vm)
        state: UseState = "off" if node.vm in read.off else "unknown" if used is None else "busy" if used else "idle"
        since = (history.idle_since(node.vm) or now) if state == "idle" else None
        yield VmUse(node.vm, node.host, gpus, state, since)


def load_profile(path: Path) -> HealthProfile:
    """Load a profile; `InputError` with every fault, `UsageError` when there is no such file."""
    return load_model(HealthProfile, path, "profile")
