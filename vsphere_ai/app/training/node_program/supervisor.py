"""Supervisor of a run on a node: it decides, or does what the first node decides, and answers for every process.

It runs there detached, with Python 3.8 or later and nothing else. The supervisor of rank 0's node decides for all; the
others do what it says, over one TCP connection each, and stop by themselves when it is gone.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import selectors
import signal
import socket
import sys
import time
from typing import Any

from vsphere_ai.app.training.node_program.links import NOT_OURS, LineConnection, Strangers, is_proved, proof
from vsphere_ai.app.training.node_program.processes import (
    DRAIN,
    TICK,
    Message,
    NodeProcesses,
    authorize,
    leave,
    own_folder,
    write,
)

GATHER, SILENCE, PING = 120.0, 60.0, 5.0
"""Seconds: until all nodes have called, without a sign of life beside what stopping takes, between signs of life."""
RESTARTS = 3
PR_SET_CHILD_SUBREAPER = 36


def silence(spec: Message) -> float:
    """Return the seconds without a sign of life after which a node is gone: while it stops, it gives none."""
    return SILENCE + DRAIN + float(spec["grace"])


def follow(node: NodeProcesses, asked: list[str]) -> None:
    """Do on a node what the first one says."""
    spec = node.spec
    until, link = time.monotonic() + GATHER, None
    while link is None:
        try:
            link = LineConnection(socket.create_connection(tuple(spec["head"]), timeout=10))
            own = secrets.token_hex(16)
            asked_for = str(link.line()["nonce"])
            link.send({"node": spec["node"], "proof": proof(spec["token"], "node", asked_for), "nonce": own})
            if not is_proved(link.line(), spec["token"], "head", own):
                raise ValueError("what listens there is not rank 0's node")
        except NOT_OURS as fault:
            if link is not None:
                link.sock.close()
            link = None
            if time.monotonic() > until or asked:
                node.note(state="ended", outcome="failed", reason=f"rank 0's node cannot be reached: {fault}")
                return
            time.sleep(0.5)
    pinged = 0.0
    with selectors.DefaultSelector() as ready:
        ready.register(link.sock, selectors.EVENT_READ)
        while True:
            message = link.read() if link.kept or ready.select(TICK) else []
            if any(node.do(each, link.send) for each in message):
                return
            node.watch()
            for name, code in node.ended():
                link.send({"event": "exit", "name": name, "code": code})
            if asked:
                link.send({"event": "asked"})
                asked.clear()
            if time.monotonic() - pinged > PING:
                link.send({"event": "alive"})
                pinged = time.monotonic()
            if link.closed or time.monotonic() - link.heard > silence(spec):
                node.stop()
                node.note(state="ended", outcome="failed", reason="rank 0's node is gone")
                return


class Head:
    """The first node: it decides when processes start, when all are stopped, and whether the job starts again."""

    def __init__(self, node: NodeProcesses, server: socket.socket, asked: list[str]) -> None:
        self.node, self.spec, self.server, self.asked = node, node.spec, server, asked
        self.links: dict[int, LineConnection] = {}
        self.events: list[tuple[int, Message]] = []
        self.reason, self.stuck = "", False
        self.pinged = 0.0
        self.running: dict[int, set[str]] = {}
        self.ending = False
        self.lost: dict[int, str] = {}
        """Nodes without which an elastic job goes on, and why."""

    def can_lose(self, number: int) -> bool:
        """Return whether the job goes on without a node: not without the first, which keeps the rendezvous."""
        return number > 0 and self.spec["nodes"] - len({number, *self.lost}) >= self.spec["least"]

    def lose(self, number: int, reason: str) -> None:
        """Go on without a node where the job can, else give up; what is left of the job there is ended."""
        if self.reason or self.ending or number in self.lost:
            return
        if not self.can_lose(number):
            self.reason = reason
            return
        self.lost[number] = reason
        self.running.get(number, set()).clear()
        self.node.note(lost={str(n): why for n, why in self.lost.items()})
        if number in self.links:
            self.links[number].send({"do": "stop"})

    def gather(self) -> None:
        """Wait for the other nodes."""
        until, strangers = time.monotonic() + GATHER, Strangers(self.server, self.spec)
        while len(self.links) < self.spec["nodes"] - 1 and not self.asked:
            if time.monotonic() > until:
                for number in sorted(set(range(1, self.spec["nodes"])) - set(self.links)):
                    closed = f"is port {self.spec['head'][1]} open?"
                    self.lose(number, f"node {number} did not call rank 0's node: {closed}")
                break
            self.links.update(strangers.proved(0.5))
        strangers.close()

    def ask(self, **message: Any) -> None:
        """Ask every node, this one last."""
        for link in self.links.values():
            link.send(message)
        self.node.do(message, lambda answer: self.events.append((0, answer)))

    def look(self) -> list[tuple[int, Message]]:
        """Return what happened on the nodes since the last look."""
        with selectors.DefaultSelector() as ready:
            for number, link in self.links.items():
                ready.register(link.sock, selectors.EVENT_READ, number)
            if self.links:
                for key, _ in ready.select(TICK):
                    self.events += [(key.data, each) for each in self.links[key.data].read()]
            else:
                time.sleep(TICK)
        self.node.watch()
        self.events += [(0, {"event": "exit", "name": n, "code": c}) for n, c in self.node.ended()]
        now = time.monotonic()
        for number, link in list(self.links.items()):
            if link.closed or now - link.heard > silence(self.spec):
                del self.links[number]
                self.events.append((number, {"event": "lost"}))
        if now - self.pinged > PING:
            self.pinged = now
            for link in self.links.values():
                link.send({"do": "wait"})
        found, self.events = self.events, []
        return found

    def take(self, number: int, message: Message) -> None:
        """Take note of what happened on a node."""
        kind = message["event"]
        if kind == "exit":
            self.running.get(number, set()).discard(message["name"])
            if message["code"] != 0:
                self.lose(number, f"{message['name']} on node {number} ended with {message['code']}")
        elif kind == "lost":
            self.lose(number, f"node {number} is gone")
        elif kind == "started" and message["fault"]:
            self.lose(number, f"node {number}: {message['fault']}")
        elif kind == "asked":
            self.asked.append("node")

    def answers(self, kind: str, within: float) -> list[Message]:
        """Wait for an answer of every node that is there."""
        found: dict[int, Message] = {}
        until = time.monotonic() + within
        while set(found) < {0, *self.links} and time.monotonic() < until:
            for number, message in self.look():
                self.take(number, message)
                if message["event"] == kind:
                    found[number] = message
        return list(found.values())

    def attempt(self, number: int) -> str:
        """Start the job once, and return when all its processes are stopped: how it ended."""
        listed = self.spec["every"] if number == 1 else self.spec["every_resumed"]
        self.lost = {n: why for n, why in self.lost.items() if n not in self.links}
        self.running = {n: {p["name"] for p in own} for n, own in enumerate(listed) if n not in self.lost}
        self.reason, self.ending = self.reason if number == 1 else "", False
        for order in sorted({p["order"] for own in listed for p in own}):
            if self.reason or self.asked:
                break
            self.ask(do="start", attempt=number, order=order)
            self.answers("started", 60)
        while not self.reason and not self.asked and not self.is_done():
            for source, message in self.look():
                self.take(source, message)
        done = self.is_done() and not self.reason
        self.ending = True
        self.ask(do="stop")
        nodes = 1 + len(self.links)
        stopped = self.answers("stopped", self.spec["grace"] + 30)
        left = [pid for each in stopped for pid in each["left"]]
        problems = [f"processes that cannot be ended: {left}"] if left else []
        if any(each["unsure"] for each in stopped):
            problems.append("nvidia-smi does not answer: whether a GPU still has a process is not known")
        if len(stopped) < nodes:
            problems.append("a node did not say that its processes have ended")
        if problems:
            self.stuck = True
            self.reason = "; ".join([self.reason or "stopped", *problems])
            return "failed"
        return "done" if done else "stopped" if self.asked else "failed"

    def is_done(self) -> bool:
        """Return whether the job has come to its end by its own rule."""
        return not any(own for n, own in self.running.items() if n == 0 or self.spec["done_when"] == "all")

    def newest(self) -> float:
        """Return when the newest entry of the folder of checkpoints was written; 0 where there is none."""
        try:
            with os.scandir(self.spec["checkpoint"] or "") as entries:
                return max((e.stat().st_mtime for e in entries), default=0.0)
        except OSError:
            return 0.0

    def work(self) -> None:
        """Run the job to its end."""
        self.gather()
        newest, idle, number = self.newest(), 0, 1
        while (outcome := self.attempt(number)) == "failed" and self.spec["resumed"] is not None:
            latest = self.newest()
            idle = 0 if latest > newest else idle + int(number > 1)
            newest = max(latest, newest)
            if idle >= RESTARTS or 1 + len(self.links) < self.spec["least"] or self.stuck:
                break
            self.ask(do="drain")
            if not all(each["ok"] for each in self.answers("drained", DRAIN + 30)):
                self.reason += "; the memory of GPUs stays in use"
                break
            number += 1
        self.ask(do="end", outcome=outcome, reason=self.reason if outcome == "failed" else "")


def supervise(spec: Message, server: socket.socket | None) -> None:
    """Run the part of a job that is on this node."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    asked: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append("signal"))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    node = NodeProcesses(spec)
    try:
        Head(node, server, asked).work() if server is not None else follow(node, asked)
    except BaseException as fault:
        node.stop()
        node.note(state="ended", outcome="failed", reason=f"the supervisor failed: {fault!r}")
        raise
    finally:
        leave(spec["run"], spec["folder"])


def prepare(spec: Message) -> None:
    """Make the run directory with its files, and let the key of the run log in."""
    own_folder(os.path.dirname(spec["folder"]))
    own_folder(spec["folder"], new=True)
    for each in spec["files"]:
        write(f"{spec['folder']}/{each['name']}", each["text"], 0o700 if each["executable"] else 0o600)
    if spec["authorized"]:
        authorize(spec["run"], spec["authorized"])


def start(spec: Message) -> None:
    """Make the run directory, and go on in the background; what goes wrong before that is said at once."""
    prepare(spec)
    server = None
    if spec["node"] == 0:
        address, port = spec["head"]
        try:
            server = socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
        except OSError as fault:
            sys.exit(f"port {port} of {address} cannot be used: {fault.strerror}")
    sys.stdout.flush()
    if os.fork():
        print(json.dumps({"folder": spec["folder"]}))
        return
    os.setsid()
    log = os.open(f"{spec['folder']}/supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((0, nothing), (1, log), (2, log)):
        os.dup2(target, number)
    code = 1
    try:
        supervise(spec, server)
        code = 0
    finally:
        os._exit(code)
