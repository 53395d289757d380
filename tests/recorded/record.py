"""Records the cassettes of tests/recorded anew: `make record`. With --inventory, readings only, from any vCenter.

The farm is simulated, started for this and stopped again. A recording is looked through for secrets before it replaces
the one before.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from recorded import leaks
from recorded.cases import CASES, READING, Case
from recorded.scrub import CannotScrub
from recorded.soapvcr import CASSETTES, LARGEST, cassette

from vsphere_ai.cli.main import main as vsphere_ai
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.lab.front import process
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.security.credentials import fetch

QUICK = "timing: {boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}"
WRONG = "no-password-of-this-vcenter"


class Leak(Exception):
    """A recording holds a secret; it was thrown away."""


def endpoint_of(inventory: Path, name: str = "") -> Endpoint:
    """Return the vCenter of an inventory, with its password."""
    known = load_inventory(inventory).vcenters
    if not name and len(known) != 1:
        raise SystemExit(f"{inventory} has {len(known)} vCenters: choose one with --vcenter {'|'.join(known)}")
    if name and name not in known:
        raise SystemExit(f"{inventory} has no vCenter {name}; it has {', '.join(known)}")
    at = known[name] if name else next(iter(known.values()))
    ca_file = Path(at.tls.ca_file) if at.tls.ca_file else None
    return Endpoint(at.address, at.port, at.username, fetch(at.password).reveal(), ca_file, at.tls.fingerprint)


def stand_ins(endpoint: Endpoint) -> dict[str, str]:
    """Return what must not be in a recording, wherever it stands, and what stands there instead."""
    known = {endpoint.password: "REDACTED", endpoint.address: "vcenter.example"}
    if re.search(r"[@\\]", endpoint.username):
        # a bare name such as "root" is part of other words; where it is a user's name, its element tells
        known[endpoint.username] = "USER"
    return known


def record(case: Case, endpoint: Endpoint, into: Path, known: Mapping[str, str]) -> Path:
    """Run one case and keep its traffic; Leak when a secret is left in it."""
    if case.wrong_password:
        endpoint = replace(endpoint, password=WRONG)
    known = {**known, endpoint.password: "REDACTED"}
    with tempfile.TemporaryDirectory() as folder:
        with cassette(case.name, "all", folder=Path(folder), known=known):
            case.run(endpoint)
        made = Path(folder, f"{case.name}.yaml")
        text = made.read_text(encoding="utf-8")
        found = sorted(set(leaks.find(text, known)))
        if found:
            raise Leak(f"{case.name} still holds secrets, nothing was kept:\n  " + "\n  ".join(found[:20]))
        into.mkdir(parents=True, exist_ok=True)
        kept = into / made.name
        kept.write_text(text, encoding="utf-8")
    return kept


@contextlib.contextmanager
def farm(scenario: str = "") -> Iterator[process.RunningLab]:
    """Run a simulated farm with short waits: of a scenario, else the lab's own."""
    scenario = scenario or resources.files("vsphere_ai.lab").joinpath("scenarios", "default.yml").read_text(
        encoding="utf-8"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scenario.yml")
        timed = scenario if "timing:" in scenario else f"timing: {{}}\n{scenario}"
        path.write_text(re.sub(r"(?m)^timing: .*$", QUICK, timed), encoding="utf-8")
        directory = Path(folder, "lab")
        try:
            yield process.start(directory, path)
        finally:
            process.stop(directory)


def prepare(lab: process.RunningLab, playbook: str) -> None:
    """Bring a fresh farm into the state a case starts from."""
    lab.post("/lab/reset")
    if not playbook:
        return
    path = lab.directory / "prepare.yml"
    path.write_text(playbook, encoding="utf-8")
    said = io.StringIO()
    state = mock.patch.dict(os.environ, VSPHERE_AI_STATE_DIR=str(lab.directory / "state"))
    with state, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = vsphere_ai(["apply", "-i", str(lab.directory / "connection.yml"), str(path), "--yes"])
    if code != 0:
        raise SystemExit(f"the farm could not be prepared:\n{said.getvalue()}")


def from_farm(into: Path) -> None:
    """Record every case from a simulated farm."""
    for scenario in dict.fromkeys(case.scenario for case in CASES):
        with farm(scenario) as lab:
            endpoint = endpoint_of(lab.directory / "connection.yml")
            for case in (each for each in CASES if each.scenario == scenario):
                prepare(lab, case.prepare)
                tell(record(case, endpoint, into, stand_ins(endpoint)))


def from_vcenter(inventory: Path, name: str, into: Path, renamed: Mapping[str, str]) -> None:
    """Record what only reads from a real vCenter."""
    if into.resolve() == CASSETTES:
        raise SystemExit("--into must be another folder: these cassettes are compared with the simulated farm")
    endpoint = endpoint_of(inventory, name)
    for case in READING:
        tell(record(case, endpoint, into, {**stand_ins(endpoint), **renamed}))


def tell(made: Path) -> None:
    size = made.stat().st_size
    print(f"{made}: {made.read_text(encoding='utf-8').count('- request:')} requests, {size / 1024:.0f} KiB")
    if made.parent.resolve() == CASSETTES and size > LARGEST:
        raise SystemExit(f"{made.name} is larger than {LARGEST >> 10} KiB: read less in this case")


def main(arguments: Sequence[str] | None = None) -> int:
    """Record; 1 when a recording would have held secrets, else the exit code of what went wrong."""
    parser = argparse.ArgumentParser(description="Record vSphere API traffic, without secrets.")
    parser.add_argument("--inventory", type=Path, help="read from the vCenter of this inventory, not from the lab")
    parser.add_argument("--vcenter", default="", help="which vCenter of the inventory")
    parser.add_argument("--into", type=Path, default=CASSETTES, help="folder for the cassettes")
    parser.add_argument("--rename", action="append", default=[], metavar="REAL=OTHER", help="replace a name everywhere")
    given = parser.parse_args(arguments)
    renamed = dict(pair.partition("=")[::2] for pair in given.rename)
    if not all(real and other for real, other in renamed.items()):
        parser.error("--rename wants REAL=OTHER")
    try:
        if given.inventory:
            from_vcenter(given.inventory, given.vcenter, given.into, renamed)
        else:
            from_farm(given.into)
    except (Leak, CannotScrub) as error:
        print(error, file=sys.stderr)
        return 1
    except VsphereAiError as error:
        print(f"{error.title}: {error.message}\n{error.remedy}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
