"""Launches of jobs as text and as JSON values: nodes, variables with their reasons, commands, files."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.documents.training.launches import (
    JobRunDocument,
    LaunchDocument,
    LogsDocument,
    NcclSettingDocument,
    NodeErrorDocument,
    NodeFileDocument,
    NodeLaunchDocument,
    NodeProcessDocument,
    NodeStateDocument,
    ProgressDocument,
    StepsDocument,
    SuspectDocument,
)
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.names.written_names import shell_word
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import counted, plain, safe
from vsphere_ai.training.launch import Launch, LaunchProcess, NodeLaunch
from vsphere_ai.training.progress import JobProgress, Suspect
from vsphere_ai.training.run import LaunchResult, LogsResult, NodeRun

_SAID = {
    "going": "it gets on",
    "stalled": "it is stalled",
    "hung": "it hangs",
    "unknown": "whether it gets on is not known",
}


def launch_text(launch: Launch) -> str:
    """Return every command of every node, each as a shell would take it, with its variables."""
    return "\n".join(_lines(launch)) + "\n"


def launch_document(launch: Launch) -> LaunchDocument:
    """Return a launch as it is printed."""
    return LaunchDocument(
        job=launch.job.training_job,
        mode=launch.mode,
        run=launch.run,
        notes=tuple(launch.notes),
        nodes=tuple(_node_document(number, each) for number, each in enumerate(launch.nodes)),
    )


def _lines(launch: Launch) -> Iterator[str]:
    processes = [p for each in launch.nodes for p in each.processes]
    ranks = {r.rank for p in processes for r in p.ranks}
    shown = f"{counted(len(launch.nodes), 'node')}, {counted(len(ranks), 'rank')}"
    yield f"{launch.job.training_job}: {launch.mode}, {shown}"
    yield from _reason_lines(launch)
    orders = sorted({p.order for p in processes})
    for number, each in enumerate(launch.nodes):
        yield ""
        yield f"NODE {number}  {_head(each)}"
        for process in each.processes:
            yield from _process_lines(process, several=len(orders) > 1)
        yield from (f"  file {file.name} ({counted(len(file.text.splitlines()), 'line')})" for file in each.files)
    for note in launch.notes:
        yield ""
        yield f"note: {safe(note)}"


def _reason_lines(launch: Launch) -> Iterator[str]:
    """Yield the reasons of NCCL's settings, each once, with the nodes that have it where others do not."""
    nodes: dict[str, list[str]] = {}
    for each in launch.nodes:
        for setting in each.nccl:
            unset = " not set" if setting.value is None else ""
            nodes.setdefault(f"# {setting.name}{unset}: {safe(setting.reason)}", []).append(each.node.vm)
    yield from [""] if nodes else []
    for reason, vms in nodes.items():
        yield reason if len(vms) == len(launch.nodes) else f"{reason} ({listed(vms)})"


def _head(each: NodeLaunch) -> str:
    node = each.node
    rails = ", ".join(f"{r.interface}{f' ({r.rdma_device})' if r.rdma_device else ''}" for r in node.rails)
    parts = [node.vm, node.address, f"on {node.host}" if node.host else "", counted(len(node.gpus), "GPU")]
    return safe("  ".join(p for p in (*parts, f"rails {rails}" if rails else "") if p))


def _process_lines(process: LaunchProcess, *, several: bool) -> Iterator[str]:
    ranks = ",".join(str(r.rank) for r in process.ranks)
    order = f", started in round {process.order + 1}" if several else ""
    yield f"  {process.name}{f' (ranks {ranks})' if len(process.ranks) > 1 else ''}{order}"
    variables = [f"{name}={shell_word(value)}" for name, value in process.env.items()]
    yield from (f"    {line}" for line in variables)
    yield f"    {' '.join(map(shell_word, process.argv))}"


def _node_document(number: int, each: NodeLaunch) -> NodeLaunchDocument:
    node = each.node
    return NodeLaunchDocument(
        rank=number,
        vm=node.vm,
        address=node.address,
        host=node.host or None,
        gpus=len(node.gpus),
        nccl=tuple(NcclSettingDocument(name=s.name, value=s.value, reason=s.reason) for s in each.nccl),
        processes=tuple(map(_process_document, each.processes)),
        files=tuple(NodeFileDocument(name=f.name, text=f.text, executable=f.executable) for f in each.files),
    )


def _process_document(process: LaunchProcess) -> NodeProcessDocument:
    return NodeProcessDocument(
        name=process.name,
        order=process.order,
        ranks=tuple(r.rank for r in process.ranks),
        argv=tuple(process.argv),
        env=dict(process.env),
    )


def run_text(result: LaunchResult) -> str:
    """Return how a run stands: a line per node, and below it one per process that ended."""
    lines = [f"{safe(result.run)}: {_outcome(result)}", *_progress_lines(result), *_script_lines(result), ""]
    for number, node in enumerate(result.nodes):
        found = result.found[node.vm]
        place = f" on {node.host}" if node.host else ""
        if isinstance(found, VsphereAiError):
            lines.append(safe(f"NODE {number}  {node.vm}{place}  not known: {found.message}"))
            lines += [safe(f"  the run goes on without it: {result.lost[number]}")] if number in result.lost else []
            continue
        running = sum(code is None for code in found.processes.values())
        state = f"{running} of {counted(len(found.processes), 'process')} running" if running else found.state
        if found.pids and not found.alive:
            state = f"{counted(len(found.pids), 'process')} running"
        gone = "" if found.alive or found.state == "ended" else "; its supervisor is gone"
        lines.append(safe(f"NODE {number}  {node.vm}{place}  {state}{gone}"))
        lines += [
            safe(f"  {name} ended with {_code(code)}") for name, code in found.processes.items() if code is not None
        ]
        lines += [f"  process {pid} is left" for pid in found.left]
        lines += [safe(f"  the run goes on without it: {result.lost[number]}")] if number in result.lost else []
        if found.unsure:
            lines.append("  nvidia-smi does not answer: whether a GPU still has a process of the run is not known")
    return "\n".join(lines) + "\n"


def run_document(result: LaunchResult) -> JobRunDocument:
    """Return how a run stands as it is printed."""
    head = result.head
    known = head if isinstance(head, NodeRun) else NodeRun()
    return JobRunDocument(
        run=result.run,
        outcome=known.outcome or None,
        reason=known.reason or None,
        attempt=known.attempt,
        over=result.is_over,
        progress=_progress_document(result.progress) if result.progress else None,
        scripts=result.scripts(),
        lost={result.nodes[number].vm: why for number, why in result.lost.items() if number < len(result.nodes)},
        nodes=tuple(_state_document(number, node, result.found[node.vm]) for number, node in enumerate(result.nodes)),
    )


def _state_document(rank: int, node: Node, found: NodeRun | VsphereAiError) -> NodeStateDocument:
    host = node.host or None
    if isinstance(found, VsphereAiError):
        error = NodeErrorDocument(rule=found.rule, message=found.message)
        return NodeStateDocument(rank=rank, vm=node.vm, host=host, error=error)
    return NodeStateDocument(
        rank=rank,
        vm=node.vm,
        host=host,
        state=found.state,
        processes=found.processes,
        left=found.left,
        unsure=found.unsure,
        steps={n: StepsDocument(step=c.step, age=round(c.age, 1), mean=c.mean) for n, c in found.steps.items()},
        supervisor=found.alive,
    )


def _progress_lines(result: LaunchResult) -> list[str]:
    found = result.progress
    if found is None:
        return []
    said = {
        "going": "it gets on",
        "stalled": "stalled",
        "hung": "it hangs",
        "unknown": "whether it gets on is not known",
    }
    lines = [f"{said[found.verdict]}: {safe(found.reason)}"]
    lines += [f"  {safe(_suspect(each))}" for each in found.suspects]
    return lines + [f"  note: {safe(each)}" for each in found.notes]


def _suspect(each: Suspect) -> str:
    rank = f"rank {each.rank}" if each.rank >= 0 else "a rank"
    place = ", ".join(
        p for p in (each.vm, f"on {each.host}" if each.host else "", f"GPU {each.gpu}" * bool(each.gpu)) if p
    )
    return f"{rank} ({place}{f', process {each.pid}' if each.pid else ''}): {each.reason}"


def _progress_document(found: JobProgress) -> ProgressDocument:
    return ProgressDocument(
        verdict=found.verdict,
        reason=found.reason,
        suspects=tuple(
            SuspectDocument(
                rank=each.rank if each.rank >= 0 else None,
                vm=each.vm,
                host=each.host or None,
                gpu=each.gpu or None,
                pid=each.pid or None,
                reason=each.reason,
            )
            for each in found.suspects
        ),
        notes=tuple(found.notes),
    )


def _script_lines(result: LaunchResult) -> list[str]:
    lines = []
    for path, own in result.scripts().items():
        if len(own) == 1:
            lines.append(safe(f"{path}: SHA-256 {next(iter(own))}"))
        else:
            shown = "; ".join(f"{text[:12]} on {', '.join(vms)}" for text, vms in own.items())
            lines.append(safe(f"{path} differs between nodes: {shown}"))
    return lines


def logs_text(result: LogsResult) -> str:
    """Return what processes wrote, each line made harmless for a terminal."""
    lines: list[str] = []
    for vm, found in result.logs.items():
        if isinstance(found, VsphereAiError):
            lines += [safe(f"== {vm}: {found.message}")]
            continue
        for name, text in found.items():
            if text or name != "supervisor.log":
                lines += [safe(f"== {vm} {name}"), *plain(text).splitlines()]
    return "".join(f"{line}\n" for line in lines)


def logs_document(result: LogsResult) -> LogsDocument:
    """Return what processes wrote as it is printed; null where a node cannot be asked."""
    logs = {vm: None if isinstance(found, VsphereAiError) else dict(found) for vm, found in result.logs.items()}
    return LogsDocument(run=result.run, logs=logs)


def _outcome(result: LaunchResult) -> str:
    head = result.head
    if not isinstance(head, NodeRun):
        return "not known"
    again = f", start {head.attempt}" if head.attempt > 1 else ""
    if head.outcome:
        return safe(f"{head.outcome}{again}{f': {head.reason}' if head.reason else ''}")
    return f"{head.state}{again}"


def _code(code: int) -> str:
    return f"signal {-code}" if code < 0 else str(code)
