"""Launches on the guests of nodes: started all or none, asked how they stand, read, and stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from secrets import token_hex
from types import MappingProxyType
from typing import TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from vsphere_ai.app.training.launch.mesh import Mesh
from vsphere_ai.app.training.launch.secrets import JobSecrets, file_text, revealed
from vsphere_ai.app.training.node_program import ARGV, program
from vsphere_ai.connect.secure_shell.guest_ssh import Done, GuestSsh
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections
from vsphere_ai.errors import StepFailed, Unreachable, UsageError, VsphereAiError
from vsphere_ai.training.job import TrainingJob
from vsphere_ai.training.launch import RUNS, Launch, LaunchProcess, NodeFile, NodeLaunch
from vsphere_ai.training.run import NodeRun

T = TypeVar("T")
_ASK, _GRACE = 60.0, 3.0
"""Seconds that a question to a node may take; that benchmarks have after each signal."""
MOST_LOG = 256 * 1024
"""Bytes of the ends of logs that are read of a node."""
MOST_RAS, RAS_WITHIN = 8 << 20, 20.0
"""Bytes of an answer of NCCL, about 700 of which it writes for a rank; and seconds until its end."""


def start(
    made: Launch,
    guests: GuestConnections,
    mesh: Mesh | None = None,
    resumed: Launch | None = None,
    secrets: JobSecrets = MappingProxyType({}),
) -> None:
    """Start a launch on its nodes, detached; where one cannot start, all are stopped and its error is raised.

    `secrets` take the place of references to them; they reach the nodes in the input of Python there.
    """
    specs = _specs(made, resumed, mesh, secrets)
    head, *others = specs
    found = guests.each(lambda shell: _started(shell, specs[shell.vm]), [head])
    if not _faults(found):
        found |= guests.each(lambda shell: _started(shell, specs[shell.vm]), others)
    if faults := _faults(found):
        guests.each(lambda shell: stop(shell, made.run, made.job), specs)
        raise next(iter(faults.values()))


def _faults(found: Mapping[str, object]) -> dict[str, VsphereAiError]:
    return {vm: each for vm, each in found.items() if isinstance(each, VsphereAiError)}


def _specs(
    made: Launch, resumed: Launch | None, mesh: Mesh | None, secrets: JobSecrets
) -> dict[str, dict[str, JsonValue]]:
    """Return the orders to the supervisor of each node, by the names of the VMs."""
    job, first = made.job, made.nodes[0].node
    orders = [_processes(each, job, n, secrets) for n, each in enumerate(made.nodes)]
    again = [_processes(each, job, n, secrets) for n, each in enumerate(resumed.nodes)] if resumed else None
    shared: dict[str, JsonValue] = {
        "run": made.run,
        "folder": f"{RUNS}/{made.run}",
        "nodes": len(made.nodes),
        "vms": [each.node.vm for each in made.nodes],
        "least": made.fewest or len(made.nodes),
        "scripts": list(job.scripts),
        "steps": [job.steps.pattern, job.steps.warm_up],
        "head": [first.address, job.control_port],
        "token": token_hex(32),
        "workdir": job.workdir,
        "grace": job.grace,
        "done_when": job.done_when,
        "checkpoint": job.checkpoint.dir if job.checkpoint else None,
        "authorized": mesh.line if mesh else None,
    }
    found: dict[str, dict[str, JsonValue]] = {}
    for number, each in enumerate(made.nodes):
        spec = {**shared, "node": number, "processes": orders[number], "resumed": again[number] if again else None}
        files = (*each.files, *(mesh.files if mesh and number == 0 else ()))
        spec["files"] = _files(files, secrets)
        if number == 0:
            spec |= {"every": _without_commands(orders), "every_resumed": _without_commands(again or ())}
        found[each.node.vm] = spec
    return found


def _files(files: Sequence[NodeFile], secrets: JobSecrets = MappingProxyType({})) -> list[JsonValue]:
    return [{"name": f.name, "text": file_text(f, secrets), "executable": f.executable} for f in files]


def _processes(each: NodeLaunch, job: TrainingJob, number: int, secrets: JobSecrets) -> list[JsonValue]:
    return [
        {"name": p.name, "argv": list(p.argv), "env": revealed(p.env, secrets), "order": _order(p, job, number)}
        for p in each.processes
    ]


def _order(process: LaunchProcess, job: TrainingJob, number: int) -> int:
    """Return when a process is started: by the launcher's rounds, and within one by the job's `start`."""
    later = {"together": False, "head_first": number > 0, "head_last": number == 0}[job.start]
    return 2 * process.order + int(later)


def _without_commands(nodes: Sequence[Sequence[JsonValue]]) -> list[JsonValue]:
    return [[{"name": p["name"], "order": p["order"]} for p in own if isinstance(p, dict)] for own in nodes]


def _started(shell: GuestSsh, spec: Mapping[str, JsonValue]) -> None:
    done = shell.run(ARGV, stdin=program("supervisor", "start", spec), timeout=_ASK)
    if done.code:
        raise StepFailed(f"{shell.vm}: the job does not start: {done.shown}", _remedy(done), rule="launch.start")


def _remedy(done: Done) -> str:
    """Return what to do where a program did not start: 126 and 127 are a shell's codes of one that is not there."""
    if done.code in (126, 127) or "python" in done.shown or "Traceback" in done.shown:
        return "look at the guest: is there a python3 of version 3.8 or later?"
    return "vsphere-ai launch with --dry-run shows what is started in which guest"


def status(shell: GuestSsh, run: str) -> NodeRun:
    """Return how a run stands on a node."""
    return _ask(shell, "status", {"runs": RUNS, "run": run}, TypeAdapter(NodeRun))


def stop(shell: GuestSsh, run: str, job: TrainingJob) -> NodeRun:
    """Stop a run on a node, and return how it stands then; `left` are processes that could not be ended."""
    within = job.grace + 30
    spec: dict[str, JsonValue] = {"runs": RUNS, "run": run, "within": within}
    return _ask(shell, "stop", spec, TypeAdapter(NodeRun), within + _ASK)


def prepare(shell: GuestSsh, run: str, mesh: Mesh | None) -> None:
    """Make the folder of a run that has no supervisor, and let its key log in there; `clear` takes both away."""
    spec: dict[str, JsonValue] = {"run": run, "folder": f"{RUNS}/{run}", "files": _files(mesh.files if mesh else ())}
    spec["authorized"] = mesh.line if mesh else None
    done = shell.run(ARGV, stdin=program("supervisor", "prepare", spec), timeout=_ASK)
    if done.code:
        raise StepFailed(f"{shell.vm}: the run cannot be prepared: {done.shown}", _remedy(done), rule="launch.start")


def end(shell: GuestSsh, run: str) -> NodeRun:
    """End the processes of a run that has no supervisor, and return how it stands then."""
    return _ask(shell, "end", {"runs": RUNS, "run": run, "grace": _GRACE}, TypeAdapter(NodeRun))


def clear(shell: GuestSsh, run: str) -> NodeRun:
    """End what a run without a supervisor left on a node, and remove its folder and its key there."""
    return _ask(shell, "clear", {"runs": RUNS, "run": run, "grace": _GRACE}, TypeAdapter(NodeRun))


def logs(shell: GuestSsh, run: str, most: int = MOST_LOG) -> dict[str, str]:
    """Return the ends of the logs of a run on a node, by the names of the files; `most` bytes in all."""
    return _ask(shell, "logs", {"runs": RUNS, "run": run, "most": most}, TypeAdapter(dict[str, str]))


def ras(shell: GuestSsh, address: str) -> dict[str, str]:
    """Return what NCCL on a node answers about the ranks of its job: `text`, or as `fault` why there is no answer."""
    spec: dict[str, JsonValue] = {"address": address, "within": RAS_WITHIN, "most": MOST_RAS}
    done = shell.run(ARGV, stdin=program("watching", "ras", spec), timeout=_ASK, most=2 * MOST_RAS)
    return _read(shell, done, TypeAdapter(dict[str, str]))


def newest(shell: GuestSsh, job: TrainingJob) -> str:
    """Return the newest run of a job that a node has; `UsageError` where it has none."""
    found = _ask(shell, "runs", {"runs": RUNS, "job": job.training_job}, TypeAdapter(list[str]))
    if not found:
        raise UsageError(f"{shell.vm} has no run of {job.training_job}", "start it with: launch MODE -f FILE")
    return found[-1]


def _ask(shell: GuestSsh, function: str, spec: Mapping[str, JsonValue], form: TypeAdapter[T], within: float = 0.0) -> T:
    return _read(shell, shell.run(ARGV, stdin=program("asking", function, spec), timeout=within or _ASK), form)


def _read(shell: GuestSsh, done: Done, form: TypeAdapter[T]) -> T:
    """Return what a node answered, which is read with bounds, as anything of a guest."""
    if done.truncated:
        raise Unreachable(f"{shell.vm}: it wrote more than is read", "look at the guest", rule="launch.node")
    if done.code:
        raise StepFailed(f"{shell.vm}: {done.shown}", "look at the guest", rule="launch.node")
    try:
        return form.validate_json(done.out)
    except ValidationError:
        raise Unreachable(f"{shell.vm}: its answer cannot be read", "look at the guest", rule="launch.node") from None
