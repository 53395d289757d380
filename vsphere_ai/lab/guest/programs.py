"""Programs that a guest is sent over `python3 -`: what it has of a job's files, and its ports; and detached runs."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any

from vsphere_ai.lab.guest import supervised
from vsphere_ai.lab.guest.machine import GuestMachine
from vsphere_ai.lab.shell.result import ShellResult

Find = Callable[[str], GuestMachine | None]
_CALL = re.compile(r"sys\.modules\['[\w.]*\.(\w+)'\]\.(\w+)\(json\.loads\((.+)\)\)$", re.MULTILINE)
_THERE = ("/usr/", "/bin/", "/shared")


def main(machine: GuestMachine, text: str, find: Find) -> ShellResult:
    """Run the call at the end of a program, where it is one of those that ask before a start."""
    call = _CALL.search(text)
    if call is None:
        return ShellResult(1, "", "SyntaxError: invalid syntax\n")
    spec = json.loads(ast.literal_eval(call[3]))
    match call[1], call[2]:
        case "probing", "look":
            found = _looked(machine, spec)
        case "probing", "listen":
            found = {"faults": {port: "address already in use" for port in spec["ports"] if port in taken(machine)}}
        case "probing", "connect":
            found = {json.dumps(each): _reached(machine, find(each[0]), each[1]) for each in spec["to"]}
        case "probing", "logins":
            found = {address: _logged_in(machine, find(address)) for address in spec["to"]}
        case _:
            return supervised.answer(machine, call[2], spec, find)
    return ShellResult(0, json.dumps(found) + "\n")


def is_modelled(machine: GuestMachine, text: str) -> bool:
    """Return whether the model answers a program also where guests run jobs: for benchmarks, which need GPUs."""
    call = _CALL.search(text)
    if call is None:
        return False
    spec = json.loads(ast.literal_eval(call[3]))
    if call[2] == "look":
        return any(supervised.is_benchmark([path]) for path in spec["scripts"])
    return supervised.is_modelled(machine, call[2], spec)


def taken(machine: GuestMachine) -> list[int]:
    """Return the ports on which another program listens."""
    return [round(d.number("port", 29500)) for d in machine.defects.of("port-taken", vm=machine.name)]


def has_program(machine: GuestMachine, name: str) -> bool:
    """Return whether a program is there: any without a path, and those in the folders of a distribution."""
    return not _of(machine, "file-missing", name) and (not name.startswith("/") or name.startswith(_THERE))


def _of(machine: GuestMachine, kind: str, path: str) -> bool:
    return any(fnmatchcase(path, each.text("path", "*")) for each in machine.defects.of(kind, vm=machine.name))


def _looked(machine: GuestMachine, spec: Mapping[str, Any]) -> dict[str, Any]:
    def scripts() -> Iterator[tuple[str, str]]:
        for path in spec["scripts"]:
            own = machine.name if _of(machine, "file-differs", path) else ""
            missing = _of(machine, "file-missing", path)
            yield path, "no such file or directory" if missing else sha256(f"{path}{own}".encode()).hexdigest()

    gone = [p for p in spec["folders"] if _of(machine, "file-missing", p) or not p.startswith(_THERE)]
    programs = [name for name in spec["programs"] if not has_program(machine, name)]
    return {"scripts": dict(scripts()), "folders": gone, "programs": programs}


def _reached(machine: GuestMachine, peer: GuestMachine | None, port: int) -> str:
    """Return why a port of another guest cannot be reached; empty where it can."""
    if peer is None:
        return "no route to host"
    if peer is machine:
        return ""
    cut = machine.defects.first("unreachable", vm=machine.name)
    if cut is not None and cut.text("other", peer.name) in ("*", peer.name):
        return "no answer"
    rejected = (round(d.number("port", port)) for d in peer.defects.of("port-rejected", vm=peer.name))
    return "connection refused" if port in rejected else ""


def _logged_in(machine: GuestMachine, peer: GuestMachine | None) -> str:
    """Return why another guest does not let this one log in; empty where it does."""
    if why := _reached(machine, peer, 22):
        return f"ssh: {why}"
    refused = peer is not None and peer.defects.first("login-refused", vm=peer.name)
    return "Permission denied (publickey)." if refused else ""
