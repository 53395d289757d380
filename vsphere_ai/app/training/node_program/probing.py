"""Questions before a start: files and programs of a node, and its ports, which listen for a while to be reached."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import socket
import subprocess
import sys
import time
from typing import Any

from vsphere_ai.app.training.node_program.watching import checksum

Message = dict[str, Any]
AT_ONCE = 64
"""Logins that are tried at the same time."""
ENDS = b"vsphere-ai: end\n"
"""What ends a port that listens."""


def look(spec: Message) -> Message:
    """Return the SHA-256 of scripts, and the folders and programs that are not there."""
    return {
        "scripts": {path: checksum(path) for path in spec["scripts"]},
        "folders": [path for path in spec["folders"] if not os.path.isdir(path)],
        "programs": [name for name in spec["programs"] if shutil.which(name) is None],
    }


def _server(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family)


def listen(spec: Message) -> Message:
    """Listen on ports, in the background and for some seconds at most; return why one cannot be had."""
    servers, faults = [], {}
    for port in spec["ports"]:
        try:
            servers.append(_server(spec["address"], port))
        except OSError as fault:
            faults[str(port)] = str(fault.strerror).lower()
    sys.stdout.flush()
    if servers and os.fork() == 0:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        try:
            _serve(servers, spec["seconds"])
        finally:
            os._exit(0)
    return {"faults": faults}


def _serve(servers: list[socket.socket], seconds: float) -> None:
    """Take connections until one of this node ends it; the other side closes first, so that no port stays in use."""
    until = time.monotonic() + seconds
    own = servers[0].getsockname()[0]
    with selectors.DefaultSelector() as ready:
        for server in servers:
            ready.register(server, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            for key, _ in ready.select(left):
                sock, peer = key.fileobj.accept()  # type: ignore[union-attr]
                with sock:
                    sock.settimeout(2)
                    try:
                        said = sock.recv(64)
                    except OSError:
                        continue
                if said == ENDS and peer[0] == own:
                    return


def connect(spec: Message) -> Message:
    """Return by address and port whether it can be reached: empty, or why not. `end` ends what listens there."""
    found = {}
    for address, port in spec["to"]:
        try:
            # the end comes from the address that listens, also where a machine has several
            own = (address, 0) if spec["end"] else None
            with socket.create_connection((address, port), timeout=spec["timeout"], source_address=own) as sock:
                if spec["end"]:
                    sock.sendall(ENDS)
                sock.shutdown(socket.SHUT_WR)
                found[json.dumps([address, port])] = ""
        except socket.timeout:  # noqa: UP041 - another class before Python 3.10
            found[json.dumps([address, port])] = "no answer"
        except OSError as fault:
            found[json.dumps([address, port])] = str(fault.strerror).lower()
    return found


def logins(spec: Message) -> Message:
    """Return by address whether this node can log in there with a command: empty, or why not."""
    found = {}
    for at in range(0, len(spec["to"]), AT_ONCE):
        tried = {}
        for address in spec["to"][at : at + AT_ONCE]:
            argv = [*spec["command"], address, "true"]
            try:
                tried[address] = subprocess.Popen(  # noqa: S603 - a fixed list and an address
                    argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
                )
            except OSError as fault:
                found[address] = f"{argv[0]}: {str(fault.strerror).lower()}"
        for address, process in tried.items():
            try:
                said = process.communicate(timeout=spec["timeout"])[1].decode("utf-8", "replace").split("\n")
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                said = ["no answer"]
            words = [line.strip() for line in said if line.strip()] or [f"ssh ends with {process.returncode}"]
            found[address] = words[-1][:200] if process.returncode else ""
    return found
