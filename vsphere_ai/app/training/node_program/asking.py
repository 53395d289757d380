"""Questions to a node about a run: which there are, how one stands, what it wrote; and its end when asked for."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time

from vsphere_ai.app.training.node_program.processes import Message, kill, leave, marked, nvidia, write

GRACE = 10.0
"""Seconds that processes have after each signal."""
GOING = ("waiting", "running", "stopping", "stopped")
"""States of a run that its supervisor goes on with: without one the processes that are there decide."""
LOST = "its supervisor is gone, and no process of it is left"


def read(path: str, most: int = 1 << 20) -> str:
    """Return the end of a file; empty where it is not there."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""


def runs(spec: Message) -> list[str]:
    """Return the runs of a job on this node, the oldest first."""
    try:
        found = [e for e in os.scandir(spec["runs"]) if e.name.startswith(f"{spec['job']}-") and e.is_dir()]
    except OSError:
        return []
    return [e.name for e in sorted(found, key=lambda e: e.stat().st_mtime)]


def supervisor_of(state: Message) -> int:
    """Return the process that watches over a run; 0 where it is gone. A number may have been given to another one."""
    pid = int(state.get("supervisor", 0))
    with contextlib.suppress(OSError):
        if pid and b"python" in open(f"/proc/{pid}/cmdline", "rb").read() and os.getsid(pid) == pid:  # noqa: SIM115
            return pid
    return 0


def status(spec: Message) -> Message:
    """Return how a run stands on this node."""
    folder = f"{spec['runs']}/{spec['run']}"
    state = _state(spec, folder)
    if not state["alive"] and state["state"] in GOING:
        state = _state(spec, folder)  # a supervisor that ended while its state was read has written how the run ended
    if not state["alive"] and state["state"] in GOING and not state["pids"]:
        state["processes"] = {name: code for name, code in state["processes"].items() if code is not None}
        state |= {"state": "ended", "outcome": "failed", "reason": LOST}
    seen: Message = json.loads(read(f"{folder}/steps.json") or '{"attempt": 0, "steps": {}}')
    if seen["attempt"] == state.get("attempt"):
        now = time.monotonic()
        state["steps"] = {name: {**each, "age": now - each["last"]} for name, each in seen["steps"].items()}
    return state


def _state(spec: Message, folder: str) -> Message:
    """Return what the supervisor of a run has written, whether it is alive, and which processes the run has."""
    text = read(f"{folder}/state.json")
    state: Message = json.loads(text) if text else {"state": "unknown"}
    return {**state, "alive": bool(supervisor_of(state)), "pids": sorted(marked(spec["run"]))}


def logs(spec: Message) -> Message:
    """Return the ends of what the processes of a run wrote on this node, by the names of the files."""
    folder = f"{spec['runs']}/{spec['run']}"
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".log"))
    except OSError:
        names = []
    most = max(1024, spec["most"] // max(1, len(names)))
    return {name: read(f"{folder}/{name}", most) for name in names}


def stop(spec: Message) -> Message:
    """Ask the supervisor to end the run, and end what is left where there is none; return how it stands then."""
    state = status(spec)
    pid = supervisor_of(state)
    if pid and state["state"] != "ended":
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + spec["within"]
    while supervisor_of(state := status(spec)) and time.monotonic() < until:
        time.sleep(0.2)
    orphaned = not state["alive"] and state["state"] in GOING
    found = end(spec, state)
    leave(spec["run"], f"{spec['runs']}/{spec['run']}")
    if orphaned and found["state"] == "ended":
        ending = {"state": "ended", "outcome": "stopped", "reason": "its supervisor was gone when it was stopped"}
        keys = ("run", "node", "supervisor", "vms", "attempt", "processes", "scripts", "left", "unsure")
        kept = {key: found[key] for key in keys if key in found}
        write(f"{spec['runs']}/{spec['run']}/state.json", json.dumps({**kept, **ending}))
        found |= ending
    return found


def clear(spec: Message) -> Message:
    """End a benchmark that has no supervisor, and remove its folder and its key; return how it stands then."""
    leave(spec["run"], f"{spec['runs']}/{spec['run']}")
    found = end(spec)
    shutil.rmtree(f"{spec['runs']}/{spec['run']}", ignore_errors=True)
    return found


def end(spec: Message, state: Message | None = None) -> Message:
    """End the processes that carry the name of a run; return how it stands then.

    Those of a run without a supervisor are kept in its folder: a GPU may list one that has ended, also later.
    """
    alone, state = state is None, state or status(spec)
    ours = set(state["pids"])
    seen = ours | set(state.get("left", ()))
    folder = f"{spec['runs']}/{spec['run']}"
    if alone and os.path.isdir(folder):
        write(f"{folder}/state.json", json.dumps({"state": "unknown", "left": sorted(seen)}))
    for number in (signal.SIGTERM, signal.SIGKILL):
        kill(ours, number)
        until = time.monotonic() + spec.get("grace", GRACE)
        while ours and time.monotonic() < until:
            time.sleep(0.1)
            ours = marked(spec["run"])
    listed = nvidia("--query-compute-apps=pid") if seen else []
    left = sorted(ours | (set(listed or ()) & seen))
    return {**status(spec), "left": left, "unsure": listed is None or (not seen and state.get("unsure", False))}
