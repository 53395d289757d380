"""What reading costs over the bytes on the wire: one estate's answers, replayed, with several readers.

Every host and VM with all that kinds and rules ask for, of the lab and of VMware's own simulator. The answers are
recorded once, then served by another process: every reader gets the same bytes, and none waits for a simulated vCenter.
Each reader is a process of its own; what it takes to import is left out of its time.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from common import ROOT, Case, Figures, Row, Size, inside, process
from estates import Absent, Estate, go_program, lab, vcsim
from readers import read_bulk
from replay import make_unlike, recorder, served
from run import alone

from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.lab import tls

GROWS = True
WIRE, OURS = "bytes only, nothing parsed", "vsphere-ai"
PYVMOMI, GOVMOMI = "pyVmomi, PropertyCollector", "govmomi, PropertyCollector"
ROLES = {WIRE: "limit", OURS: "ours"}
SLOW_FROM = 2_000
"""From so many VMs on, pyVmomi reads once."""


def record(estate: Estate, tape: Path) -> int:
    """Read everything that `show` reads, without calls of single hosts, keep every answer; return how many bytes."""
    certificates = tape.with_name(f"{tape.name}-certificates")
    certificates.mkdir()
    tls.make_certificate(certificates)
    with recorder(tape, certificates, (estate.port, estate.ca)) as port:
        at = Endpoint("127.0.0.1", port, estate.username, estate.password, ca_file=certificates / "ca.pem")
        with VCenter.connect(at, minimum="6.5") as vcenter:
            read_bulk(vcenter)
    return sum(file.stat().st_size for file in tape.iterdir())


def compare(name: str, size: Size, tape: Path, times: int) -> list[Row]:
    """Return the rows of all readers of one tape."""
    certificates = tape.with_name(f"{tape.name}-served")
    certificates.mkdir()
    ca = tls.make_certificate(certificates)
    with served(tape, certificates) as port:
        works = {
            WIRE: lambda: inside("readers.py", "wire", str(port), ca),
            OURS: lambda: inside("readers.py", "ours", str(port), ca),
            PYVMOMI: lambda: inside("readers.py", "pyvmomi", str(port), ca),
        }
        try:
            program = go_program("govmomi", ROOT / "bench" / "govmomi")
            works[GOVMOMI] = lambda: go_reader(program, str(port), ca)
        except Absent as absent:
            absent.report()
        rows = Case("reading", name, size, roles=ROLES).compare(works, times, [PYVMOMI] if size.vms > SLOW_FROM else [])
    read = {row.median["read"] for row in rows if row.who != WIRE}
    if len(read) != 1:
        raise SystemExit(f"the readers have read unlike numbers of objects: {read}")
    return rows


def go_reader(program: Path, *arguments: str | Path) -> Figures:
    """Read with the program on govmomi; return its figures."""
    outer, printed = process([program, *arguments])
    return {"mib": outer["mib"], **json.loads(printed)}


def measure(size: Size, times: int) -> list[Row]:
    """Record, replay; return the rows of each estate."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name:
        folder = Path(name)
        with lab(size, folder / "lab") as estate:
            record(estate, folder / "alike")
        make_unlike(folder / "alike", folder / "unlike")
        rows += compare("lab", size, folder / "alike", times)
        rows += compare("lab, no two devices alike", size, folder / "unlike", times)
        if size.vms > SLOW_FROM:  # vcsim puts all into one answer, which is beyond what the tool takes
            return rows
        try:
            with vcsim(size, folder / "vcsim") as estate:
                record(estate, folder / "simulator")
            rows += compare("vcsim", size, folder / "simulator", times)
        except Absent as absent:
            absent.report()
    return rows


if __name__ == "__main__":
    alone(__doc__, measure)
