"""Detached runs on guests: answers to the programs for Python that start, ask about and stop processes.

Such a program calls one function with values in JSON, `start` of a supervisor, or `status`, `logs`, `runs` and `stop`
of what asks about it. The call is read from the text of the program. Nothing of it is run: what the processes write,
and when they end, is computed from the farm (`megatron`, `burn`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vsphere_ai.lab.guest import burn, megatron
from vsphere_ai.lab.guest.machine import GuestMachine
from vsphere_ai.lab.guest.process import GuestProcess, Peers
from vsphere_ai.lab.shell.result import ShellResult

Find = Callable[[str], GuestMachine | None]
PROGRAMS: Mapping[str, Callable[[Peers, GuestMachine, Sequence[str], Mapping[str, str]], GuestProcess]] = {
    "pretrain_gpt.py": megatron.process,
    "burn.py": burn.process,
}
FIRST_PID = 21000


@dataclass
class Supervised:
    """A run on its nodes: their orders by number, and when it began on all of them."""

    run: str
    size: int
    orders: dict[int, tuple[GuestMachine, Mapping[str, Any]]] = field(default_factory=dict)
    processes: dict[tuple[int, str], GuestProcess] = field(default_factory=dict)
    began: float | None = None
    stopped: float | None = None

    def join(self, machine: GuestMachine, spec: Mapping[str, Any]) -> None:
        """Add a node; the run begins with the last one."""
        self.orders[spec["node"]] = (machine, spec)
        if len(self.orders) < self.size:
            return
        peers: Peers = [(m, len(s["processes"])) for _, (m, s) in sorted(self.orders.items())]
        for number, (own, order) in self.orders.items():
            for each in order["processes"]:
                self.processes[number, each["name"]] = _process(peers, own, each)
            for gpu in own.gpus:
                gpu.physical.loads.every.append(lambda: self.outcome() == "")
        self.began = time.monotonic()

    def elapsed(self) -> float:
        """Return the seconds since it began, up to its end."""
        if self.began is None:
            return 0.0
        return min(self.stopped or time.monotonic(), self.began + self._length) - self.began

    @property
    def _length(self) -> float:
        bad = [p.seconds for p in self.processes.values() if p.code]
        return min(bad) if bad else max(p.seconds for p in self.processes.values())

    def outcome(self) -> str:
        """Return how it ended; empty while it runs."""
        if self.began is None:
            return "stopped" if self.stopped else ""
        if (self.stopped or time.monotonic()) < self.began + self._length:
            return "stopped" if self.stopped else ""
        return "failed" if any(p.code for p in self.processes.values()) else "done"

    def pids(self, machine: GuestMachine) -> list[int]:
        """Return the processes of a node that are there; after the end, those that a defect keeps."""
        count = len(dict(self.codes(self.number(machine))))
        if self.outcome():
            count = int(_is_left(machine))
        return [FIRST_PID + n for n in range(count)]

    def number(self, machine: GuestMachine) -> int:
        """Return the number of a node."""
        return next((n for n, (own, _) in self.orders.items() if own is machine), 0)

    def reason(self) -> str:
        """Return why it failed, as the supervisor says it."""
        failed = (f"{name} on node {n} ended with {p.code}" for (n, name), p in self.processes.items() if p.code)
        return next(failed, "") if self.outcome() == "failed" else ""

    def codes(self, number: int) -> Iterator[tuple[str, int | None]]:
        """Yield the processes of a node with their exit codes; those that were stopped end by a signal."""
        outcome, now = self.outcome(), self.elapsed()
        for (node, name), each in self.processes.items():
            if node == number:
                ended = now >= each.seconds - 1e-6
                yield name, each.code if ended else -15 if outcome else None


def _is_left(machine: GuestMachine) -> bool:
    return machine.defects.first("process-left", vm=machine.name) is not None


def _known(argv: Sequence[str]) -> tuple[str, int] | None:
    """Return the program of a command that is known, and the place of its word."""
    found = ((n, at) for n in PROGRAMS for at, word in enumerate(argv) if word.endswith(f"/{n}"))
    return next(found, None)


def _process(peers: Peers, machine: GuestMachine, order: Mapping[str, Any]) -> GuestProcess:
    argv = [str(word) for word in order["argv"]]
    name, at = _known(argv) or ("", 0)
    return PROGRAMS[name](peers, machine, argv[at:], order["env"])


def is_benchmark(argv: Sequence[str]) -> bool:
    """Return whether a command is of a benchmark that the model computes."""
    return _known(argv) is not None


def is_modelled(machine: GuestMachine, function: str, spec: Mapping[str, Any]) -> bool:
    """Return whether a function is about a benchmark that the model computes, and not about processes of a job."""
    if function == "start":
        return all(is_benchmark(each["argv"]) for each in spec["processes"])
    return function in ("prepare", "end", "clear") or spec.get("run") in machine.runs


def answer(machine: GuestMachine, function: str, spec: Mapping[str, Any], find: Find) -> ShellResult:
    """Answer a function of a supervisor, or of what asks about a run; other programs than those known are not run."""
    if function == "start" and all(_known(each["argv"]) for each in spec["processes"]):
        return _started(machine, spec, find)
    if function == "prepare":
        machine.files.update({f"{spec['folder']}/{each['name']}": each["text"] for each in spec["files"]})
        return ShellResult()
    if function in ("end", "clear"):
        return ShellResult(0, json.dumps({"left": [FIRST_PID] if _is_left(machine) else []}) + "\n")
    answers = {"status": _status, "logs": _logs, "stop": _stop}
    if function not in answers or spec["run"] not in machine.runs:
        return ShellResult(1, "", "the guests of the lab run no processes of a job\n")
    return ShellResult(0, json.dumps(answers[function](machine, spec)) + "\n")


def _started(machine: GuestMachine, spec: Mapping[str, Any], find: Find) -> ShellResult:
    head = machine if spec["node"] == 0 else find(spec["head"][0])
    if head is None:
        return ShellResult(1, "", f"{spec['head'][0]} cannot be reached\n")
    for each in machine.defects.of("port-taken", vm=machine.name):
        if spec["node"] == 0 and round(each.number("port", 29500)) == spec["head"][1]:
            text = f"port {spec['head'][1]} of {spec['head'][0]} cannot be used: Address already in use\n"
            return ShellResult(1, "", text)
    run = head.runs.setdefault(spec["run"], Supervised(spec["run"], spec["nodes"]))
    machine.runs[spec["run"]] = run
    run.join(machine, spec)
    return ShellResult(0, json.dumps({"folder": spec["folder"]}) + "\n")


def _status(machine: GuestMachine, spec: Mapping[str, Any]) -> dict[str, Any]:
    run = machine.runs[spec["run"]]
    outcome, processes = run.outcome(), dict(run.codes(run.number(machine)))
    stuck = run.pids(machine) if outcome else []
    return {
        "state": "ended" if outcome else "running" if run.began is not None else "waiting",
        "attempt": 1,
        "processes": processes,
        "outcome": "failed" if stuck else outcome,
        "reason": f"processes that cannot be ended: {stuck}" if stuck else run.reason(),
        "alive": not outcome,
        "pids": run.pids(machine),
        "left": stuck,
        "unsure": False,
    }


def _logs(machine: GuestMachine, spec: Mapping[str, Any]) -> dict[str, str]:
    run = machine.runs[spec["run"]]
    own, number, now = run.processes.items(), run.number(machine), run.elapsed()
    texts = {name: each.log(now) for (node, name), each in own if node == number}
    most = max(1024, int(spec["most"]) // max(1, len(texts)))
    return {f"{name}.log": text[-most:] for name, text in texts.items()}


def _stop(machine: GuestMachine, spec: Mapping[str, Any]) -> dict[str, Any]:
    run = machine.runs[spec["run"]]
    if not run.outcome():
        run.stopped = time.monotonic()
    return _status(machine, spec)
