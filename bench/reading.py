"""Reads one estate's answers, replayed, with several readers: what reading costs over the bytes on the wire.

The answers are recorded once from the lab, then served again by another process: every reader gets the same bytes, and
none waits for the simulated vCenter. Each reader is a process of its own. What counts are the ratios.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import re
import socketserver
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

from vsphere_ai.app.session import EstateRequest, Session
from vsphere_ai.connect import stub, versions
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.lab import process, tls
from vsphere_ai.language.inventory import CONNECTION, load_inventory
from vsphere_ai.reading.collector import LIGHT
from vsphere_ai.reading.requirements import wanted_paths

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from support import large_farm  # noqa: E402 - the tests' farm, so that both measure the same

FIRST, NEXT = "RetrievePropertiesEx", "ContinueRetrievePropertiesEx"
READERS = ("wire", "pyvmomi", "ours")
LABELS = {"wire": "bytes only, nothing parsed", "pyvmomi": "pyVmomi's PropertyCollector", "ours": "this reader"}


# -- recording


def record(lab: Path, tape: Path) -> None:
    """Read everything that `show` reads, without calls of single hosts, and keep every answer by method and number."""
    invoke, replaced = stub.Stub.InvokeMethod, stub.Stub._replaced
    asked: list[str] = []
    number = 0

    def noted(own, mo, info, args, outer=None):
        asked.append(info.wsdlName)
        return invoke(own, mo, info, args, outer)

    def kept(own, status, body):
        nonlocal number
        (tape / f"{number:04}.{asked[-1]}.xml").write_bytes(body)
        number += 1
        return replaced(own, status, body)

    stub.Stub.InvokeMethod, stub.Stub._replaced = noted, kept
    with Session(load_inventory(lab / CONNECTION), None, EstateRequest(ask_hosts=False, parallel=1)) as session:
        context = ssl.create_default_context(cafile=str(lab / "ca.pem"))
        connection = http.client.HTTPSConnection("127.0.0.1", session.settings.port, context=context)
        connection.request("GET", versions.PATH)
        (tape / "versions.xml").write_bytes(connection.getresponse().read())
        read_bulk(session.vcenter)
    stub.Stub.InvokeMethod, stub.Stub._replaced = invoke, replaced


def read_bulk(vcenter: VCenter):
    """Read every object, hosts and VMs with all that kinds and rules ask for: in bulk, with no call of its own."""
    wanted = wanted_paths()
    paths = {k: (*LIGHT.get(k, ()), *(p for p in wanted.get(k, ()) if p != "software" and ":" not in p))
             for k in dict.fromkeys((*LIGHT, *wanted))}  # fmt: skip
    return vcenter.read(paths)


def make_unlike(tape: Path, other: Path) -> None:
    """Copy the answers so that no two VMs have an equal device: another label, another key in each."""
    counter = 0

    def label(found: re.Match[bytes]) -> bytes:
        nonlocal counter
        counter += 1
        return b"%s %d<" % (found[1], counter)

    for file in sorted(tape.iterdir()):
        (other / file.name).write_bytes(re.sub(rb"(<label>[^<]*)<", label, file.read_bytes()))


# -- replaying


class Replay(BaseHTTPRequestHandler):
    """Answers by method, each page by the token that the page before it has."""

    protocol_version = "HTTP/1.1"
    tape: ClassVar[dict[str, bytes]] = {}
    versions = b""

    def do_GET(self) -> None:
        self._send(self.versions)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        method = re.search(rb"<(?:\w+:)?Body[^>]*>\s*<(\w+)", body)[1].decode()
        if method == NEXT:
            method += re.search(rb"<token[^>]*>([^<]+)", body)[1].decode()
        self._send(self.tape[method])

    def _send(self, body: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/xml; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def load(tape: Path) -> dict[str, bytes]:
    """Return the answers by method; pages that follow by the token that leads to them."""
    found: dict[str, bytes] = {}
    token = ""
    for file in sorted(tape.glob("*.*.xml")):
        method, body = file.name.split(".")[1], file.read_bytes()
        found.setdefault(method + token if method == NEXT else method, body)
        if method in (FIRST, NEXT):
            said = re.search(rb"<token>([^<]+)</token>", body[:2000] + body[-2000:])
            token = said[1].decode() if said else ""
    return found


def serve(tape: Path, certificates: Path, told: object) -> None:
    """Serve the answers on loopback, until the process is ended."""
    Replay.tape, Replay.versions = load(tape), (tape / "versions.xml").read_bytes()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Replay)
    server.socket = tls.server_context(certificates).wrap_socket(server.socket, server_side=True)
    told.send(server.server_address[1])
    server.serve_forever()


# -- readers


def wire(port: int, ca: Path) -> int:
    """Read the bytes of every page."""
    context = ssl.create_default_context(cafile=str(ca))
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
    total, token = 0, ""
    while True:
        inner = f"<{NEXT}><token>{token}</token></{NEXT}>" if token else f"<{FIRST}/>"
        connection.request("POST", "/sdk", f"<Envelope><Body>{inner}</Body></Envelope>")
        body = connection.getresponse().read()
        total += len(body)
        said = re.search(rb"<token>([^<]+)</token>", body[:2000] + body[-2000:])
        if said is None:
            return total
        token = said[1].decode()


def pyvmomi(port: int, ca: Path) -> int:
    """Read every page with pyVmomi, as its documentation advises, and keep the objects."""
    from pyVim.connect import SmartConnect
    from pyVmomi import vim, vmodl

    context = ssl.create_default_context(cafile=str(ca))
    content = SmartConnect(host="127.0.0.1", port=port, user="u", pwd="p", sslContext=context).RetrieveContent()
    collector = vmodl.query.PropertyCollector
    asked = collector.FilterSpec(
        objectSet=[collector.ObjectSpec(obj=content.rootFolder)], propSet=[collector.PropertySpec(type=vim.Folder)]
    )  # the answers are those that were recorded, whatever is asked for
    page = content.propertyCollector.RetrievePropertiesEx([asked], collector.RetrieveOptions())
    objects = list(page.objects)
    while page.token:
        page = content.propertyCollector.ContinueRetrievePropertiesEx(page.token)
        objects += page.objects
    return len(objects)


def ours(port: int, ca: Path) -> int:
    """Read with this project's reader, and keep the facts."""
    with VCenter.connect(Endpoint("127.0.0.1", port, "u", "p", ca_file=ca)) as vcenter:
        found = read_bulk(vcenter)
        assert vcenter._session.stub.left == 0, "pages were left to pyVmomi"
        return len(found)


def reader(name: str, port: int, ca: Path) -> None:
    """Read once in this process, and print seconds, CPU seconds and MiB; of those, `alone` is before reading."""
    import pyVim.connect  # noqa: F401 - what is imported counts for none of them
    import pyVmomi

    dir(pyVmomi.vim)
    if name == "ours":
        wanted_paths()  # loads the kinds
    alone, began, cpu = _peak(), time.perf_counter(), time.process_time()
    found = {"wire": wire, "pyvmomi": pyvmomi, "ours": ours}[name](port, ca)
    print(json.dumps([time.perf_counter() - began, time.process_time() - cpu, _peak(), alone, found]))


def _peak() -> float:
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


# -- report


def compare(tape: Path, certificates: Path, times: int) -> dict[str, list[float]]:
    """Return the median figures of each reader."""
    ours_end, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(tape, certificates, theirs), daemon=True)
    server.start()
    port = ours_end.recv()
    try:
        runs: dict[str, list[list[float]]] = {name: [] for name in READERS}
        for number in range(times):  # in turn, so that all have the same share of what else the machine does
            for name in READERS if number == 0 else ("wire", "ours"):
                chosen = ["--reader", name, "--port", str(port), "--ca", str(certificates / "ca.pem")]
                done = subprocess.run([sys.executable, __file__, *chosen], capture_output=True, text=True)
                if done.returncode:
                    raise SystemExit(done.stderr[-3000:])
                runs[name].append(json.loads(done.stdout))
        return {name: [statistics.median(column) for column in zip(*own, strict=True)] for name, own in runs.items()}
    finally:
        server.kill()
        server.join()


def report(title: str, found: dict[str, list[float]]) -> None:
    """Print the figures and their ratios."""
    print(title)
    for name, (seconds, cpu, peak, alone, _) in found.items():
        figures = f"{seconds:7.2f} s  {cpu:7.2f} s of CPU  {peak:5.0f} MiB (+{peak - alone:.0f})"
        print(f"  {LABELS[name]:30} {figures}")
    raw, theirs, mine = (found[name] for name in READERS)
    print(f"  over the wire {mine[0] / raw[0]:.1f} x the time; pyVmomi takes {theirs[0] / mine[0]:.1f} x the time,"
          f" {theirs[1] / mine[1]:.1f} x the CPU; memory {mine[2] / theirs[2]:.0%} of pyVmomi's"
          f" ({(mine[2] - mine[3]) / (theirs[2] - theirs[3]):.0%} of what it adds)")  # fmt: skip


def main() -> int:
    """Record, replay, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vms", type=int, default=10_000, help="VMs of the vCenter")
    parser.add_argument("--times", type=int, default=5, help="runs of the fast readers; medians are shown")
    parser.add_argument("--tape", type=Path, help="keep the answers in this folder, or take those that are there")
    parser.add_argument("--reader", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ca", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.reader:
        reader(given.reader, given.port, given.ca)
        return 0
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name:
        folder = Path(name)
        alike, unlike = given.tape or folder / "alike", folder / "unlike"
        for each in (alike, unlike):
            each.mkdir(exist_ok=True)
        if not (alike / "versions.xml").exists():
            lab = folder / "lab"
            lab.mkdir()
            (lab / "farm.yml").write_text(large_farm.scenario(given.vms), "utf-8")
            process.start(lab, lab / "farm.yml", exit_with=os.getpid(), timeout=600)
            try:
                record(lab, alike)
            finally:
                process.stop(lab)
        make_unlike(alike, unlike)
        tls.make_certificate(folder)
        size = sum(f.stat().st_size for f in alike.iterdir()) / 1e6
        report(f"{size:.0f} MB of answers, VMs alike", compare(alike, folder, given.times))
        report("the same, no two devices alike", compare(unlike, folder, given.times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
