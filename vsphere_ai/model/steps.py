"""Steps of a plan: the closed set of things `apply` can do, as data that prints, compares and goes into JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from vsphere_ai.model.cluster_rules import WantedRules
from vsphere_ai.model.state import KindName, Target


@dataclass(frozen=True)
class Probe:
    """A read-only command on an ESXi host. `argv` is fixed: nothing from a user ever gets into it."""

    name: str
    argv: tuple[str, ...]
    each_rdma_nic: bool = False
    """Ask it of each NIC with an RDMA device, whose name ends the command; the answers are called ``NAME:vmnic4``."""


@dataclass(frozen=True)
class Query:
    """A question to a manager of an object that no property answers; `method` only reads.

    Its answer, as plain values, is the fact ``query:NAME`` of the object; a fault says why it is unreadable.
    """

    name: str
    path: str
    """Property path of the manager, e.g. ``configManager.kernelModuleSystem``."""
    method: str
    args: Mapping[str, Any] = field(default_factory=dict)
    on: str = ""
    """Reference of the object; every host that is read deeply where it is empty."""
    keep: Callable[[Any], Any] = lambda answer: answer
    """What is kept of the answer."""


WRITTEN_IF_SET: Mapping[str, bool] = {"written_if_set": True}
"""Metadata of a field that came later: a plan that does not use it has the same document, and digest, as before."""

PendingKind = Literal["maintenance", "ssh", "ssh-on", "service", "off", "moved", "reboot", "restart", "gate", "lock"]
"""Kinds of temporary changes that a run has to undo (see `pending.Pending`)."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """Fields of every step: its target, a line for the operator, and what it disrupts."""

    opens: ClassVar[tuple[PendingKind, ...]] = ()
    """The pending actions that such a step adds to its run (see `pending.opened_by`)."""
    closes: ClassVar[tuple[PendingKind, ...]] = ()
    """The pending actions that such a step closes when it has taken effect."""

    target: Target
    summary: str
    kinds: tuple[KindName, ...] = ()
    """The kinds this step serves, for the report."""
    needs_maintenance: bool = False
    needs_power_off: bool = False
    needs_reboot: bool = False
    after_reboot: bool = False
    comes_last: bool = False
    """Of a datacenter's steps: sent only when everything of its hosts and VMs has ended well; of a host's: when no VM
    of its cluster has to move any more, because moves depend on what it takes away."""
    comes_first: bool = field(default=False, metadata=WRITTEN_IF_SET)
    """Of a host's steps: sent before any VM of its cluster moves, because moves depend on what it makes."""


DeviceChange = Mapping[str, Any]
"""A VirtualDeviceConfigSpec: what is done with a virtual device."""


@dataclass(frozen=True, kw_only=True)
class Reconfigure(Step):
    """A fragment of a ``ReconfigVM_Task``; all fragments of one VM become one task.

    `spec` holds top-level ConfigSpec fields, `device_changes` VirtualDeviceConfigSpec mappings in VMware's spelling
    with ``_typeName``, `extra_config` key/value strings (an empty value removes the key).
    """

    spec: Mapping[str, Any] = field(default_factory=dict)
    device_changes: tuple[DeviceChange, ...] = ()
    extra_config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Invoke(Step):
    """Call a vim method by its WSDL name on the target (or on the object `on`), or on the manager at `path` of it.

    `path` is a property path such as ``configManager.graphicsManager``. A name ending in ``_Task`` is waited for.
    `on` and strings in `args` may be looked up later (see `deferred`): what an earlier step makes has no reference yet.
    """

    method: str
    on: str = ""
    path: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    pauses: str = field(default="", metadata=WRITTEN_IF_SET)
    """The service of the host that this call stops, and that a later step starts again."""
    resumes: str = field(default="", metadata=WRITTEN_IF_SET)
    """The service that this call starts again."""


@dataclass(frozen=True, kw_only=True)
class Shell(Step):
    """Run one command on an ESXi host over SSH: an argv, never a string; the exit status alone proves nothing."""

    argv: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Clone(Step):
    """Make a VM (CloneVM_Task of `source`, a template or a VM) of this name in a folder, powered off.

    The reference of its target is its instanceUuid (see `vm_sets.planned_ref`), which is part of `spec`.
    """

    source: str
    folder: str
    name: str
    spec: Mapping[str, Any]
    passwords: tuple[tuple[str, str], ...] = field(default=(), metadata=WRITTEN_IF_SET)
    """Accounts of the guest, and the references to their passwords, which come into the user data when it is made."""
    canary: str = ""
    """Reference of the member whose guest has to be ready first: it shows what of the image cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Destroy(Step):
    """Destroy a VM of a set (Destroy_Task) that is powered off, with its disks: `disks` are their files.

    It is refused where the VM's mark, or its disks, are not those of the plan.
    """

    closes = ("off",)
    set: str
    index: int
    disks: tuple[str, ...] = ()
    detached: tuple[str, ...] = field(default=(), metadata=WRITTEN_IF_SET)
    """Files of disks that are detached first, in one reconfigure, and are not deleted."""


@dataclass(frozen=True, kw_only=True)
class SetTags(Step):
    """Let a VM have these vSphere tags of each category that is named; `before` are those that it had when planned."""

    tags: Mapping[str, tuple[str, ...]]
    before: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class WriteLeases(Step):
    """Write the ledger of addresses that vCenter keeps, in one piece, under the lock in vCenter.

    `before` is the SHA-256 of the text it replaces; a release in `text` at the time -1 happens when it is written.
    """

    before: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ClusterRules(Step):
    """Make DRS rules, groups and overrides of a set as desired: at most one ReconfigureComputeResource_Task.

    `cluster` is its reference. With `ready`, it is sent once the guests of new VMs are ready, else before they are on.
    """

    cluster: str
    wanted: WantedRules
    ready: bool = False


Until = Literal["host-back", "gpus-answer", "as-planned", "healthy", "guest-ready", "measured"]
Action = Literal[
    "enter-maintenance",
    "exit-maintenance",
    "reboot",
    "start-ssh",
    "stop-ssh",
    "power-off",
    "power-on",
    "migrate",
    "move-away",
    "move-back",
]


@dataclass(frozen=True, kw_only=True)
class Lifecycle(Step):
    """A change of a target's life; only the schedule makes these. Timeouts are seconds."""

    action: ClassVar[Action]


@dataclass(frozen=True, kw_only=True)
class EnterMaintenance(Lifecycle):
    """Bring a host into maintenance mode (EnterMaintenanceMode_Task)."""

    action = "enter-maintenance"
    opens = ("maintenance", "gate")
    timeout: int
    evacuate: Literal["refuse", "power_off", "vmotion"] = "refuse"
    begun: bool = False
    """An earlier attempt of the run has begun this, so the host may be in maintenance mode because of the run."""


@dataclass(frozen=True, kw_only=True)
class ExitMaintenance(Lifecycle):
    """Bring a host out of maintenance mode (ExitMaintenanceMode_Task)."""

    action = "exit-maintenance"
    closes = ("maintenance",)
    timeout: int
    settle: int = 0
    """Seconds that vCenter is given to show all GPUs of the host again, before it leaves maintenance mode."""


@dataclass(frozen=True, kw_only=True)
class Reboot(Lifecycle):
    """Order a host to reboot, by a command over SSH or by RebootHost_Task."""

    action = "reboot"
    opens = ("reboot",)
    via: Literal["ssh", "api"]


@dataclass(frozen=True, kw_only=True)
class StartSsh(Lifecycle):
    """Start TSM-SSH on a host."""

    action = "start-ssh"
    opens = ("ssh",)
    closes = ("ssh-on",)


@dataclass(frozen=True, kw_only=True)
class StopSsh(Lifecycle):
    """Stop TSM-SSH on a host."""

    action = "stop-ssh"
    closes = ("ssh",)


@dataclass(frozen=True, kw_only=True)
class PowerOff(Lifecycle):
    """Shut the guest of a VM down; power the VM off where VMware Tools do not run, or time is over, and `force`."""

    action = "power-off"
    opens = ("off",)
    shutdown_timeout: int
    force: bool = False
    only_on: str = ""
    """Reference of a host: a VM that has left it stays on."""


@dataclass(frozen=True, kw_only=True)
class PowerOn(Lifecycle):
    """Power a VM on (PowerOnVM_Task)."""

    action = "power-on"
    closes = ("off",)


@dataclass(frozen=True, kw_only=True)
class Migrate(Lifecycle):
    """Move a running VM from host `source` to host `to`, both references (MigrateVM_Task)."""

    action = "migrate"
    source: str
    to: str
    timeout: int


@dataclass(frozen=True, kw_only=True)
class Move(Step):
    """Bring a VM to host `to` (a reference), by vMotion if `live`, else off; then change its `devices` there."""

    to: str
    live: bool
    devices: tuple[DeviceChange, ...] = ()
    timeout: int = 3600


@dataclass(frozen=True, kw_only=True)
class MoveBack(Move, Lifecycle):
    """Bring a VM back to the host that it was moved away from."""

    action = "move-back"
    closes = ("moved",)


@dataclass(frozen=True, kw_only=True)
class MoveAway(Move, Lifecycle):
    """Bring a VM to another host for a time; `back` is what brings it back."""

    action = "move-away"
    opens = ("moved",)
    back: MoveBack


@dataclass(frozen=True, kw_only=True)
class Wait(Step):
    """A wait for something that is read; only the schedule makes these. Timeouts are seconds."""

    until: ClassVar[Until]


@dataclass(frozen=True, kw_only=True)
class HostBack(Wait):
    """Wait for the reboot of a host to complete: connected, and with a newer boot time."""

    until = "host-back"
    closes = ("reboot", "restart")
    timeout: float
    unless_never_down: float | None = None
    """Seconds after which a host that stayed up did not get the order to reboot, which may not have been sent."""


@dataclass(frozen=True, kw_only=True)
class GpusAnswer(Wait):
    """Wait until nvidia-smi lists every GPU of a host."""

    until = "gpus-answer"
    timeout: float


@dataclass(frozen=True, kw_only=True)
class AsPlanned(Wait):
    """Read a target again until nothing is left to change (`but_last`: except for what comes last)."""

    until = "as-planned"
    but_last: bool = False


@dataclass(frozen=True, kw_only=True)
class GuestReady(Wait):
    """Wait until the guest of a VM says that it is ready, and reports every planned address.

    `nics` are pairs of a MAC address and the addresses that it has to report; none with DHCP: any one will do.
    `generation` 0: its guest was not set up by this tool, and only its addresses are waited for.
    """

    until = "guest-ready"
    generation: int
    nics: tuple[tuple[str, tuple[str, ...]], ...] = ()
    timeout: float = 600
    customized: bool = field(default=False, metadata=WRITTEN_IF_SET)
    """vCenter customizes the guest, which writes no ready key: what VMware Tools report has to do."""
    one_machine_id: bool = field(default=False, metadata=WRITTEN_IF_SET)
    """The image is known to give all its clones one machine id, of which the plan has warned."""
    clears: bool = field(default=False, metadata=WRITTEN_IF_SET)
    """The user data hold hashed passwords: they are removed from the VM once it is ready."""


@dataclass(frozen=True, kw_only=True)
class Measured(Wait):
    """Wait until a benchmark that needs the VMs where they are now has ended."""

    until = "measured"


@dataclass(frozen=True)
class RunningVm:
    """A VM that ran on a host before its maintenance. `stays`: it has to run on the same host afterwards."""

    ref: str
    name: str
    stays: bool


@dataclass(frozen=True, kw_only=True)
class Healthy(Wait):
    """Wait until a host is in service as it was before its maintenance; the next host waits for that."""

    until = "healthy"
    closes = ("gate",)
    timeout: float = 0
    maintenance: bool = False
    """The host was in maintenance mode before."""
    vms: tuple[RunningVm, ...] = ()


What = Action | Until | Literal["change", ""]
"""Type of a step in one word: its action, what it waits for, or ``change`` for a change of some kinds."""


def what(step: Step) -> What:
    """Return the type of a step in one word, which stays the same when the summary is worded anew."""
    if isinstance(step, Lifecycle):
        return step.action
    if isinstance(step, Wait):
        return step.until
    return "change" if isinstance(step, Reconfigure | Invoke | SetTags | Shell | Clone | Destroy) and step.kinds else ""
