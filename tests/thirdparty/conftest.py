"""Clients that share no code with the product: one in Go, one on stock pyVmomi, and bare HTTPS."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.programs import PACKAGES, uses_program
from support.required import required
from thirdparty.wire import Wire

HERE = Path(__file__).parent
GOPATH = Path("/usr/share/gocode")


@pytest.fixture(scope="session")
@uses_program("go")
def go_client():
    """Build the client on govmomi; takes about 15 s the first time."""
    sources_of_govmomi = GOPATH / "src/github.com/vmware/govmomi"
    required(sources_of_govmomi.is_dir(), f"sources of govmomi: apt-get install {PACKAGES['go']}")
    sources, target = HERE / "govmomi", HERE / ".build" / "govmomi"
    newest = max(file.stat().st_mtime for file in sources.glob("*.go"))
    if not target.exists() or target.stat().st_mtime < newest:
        target.parent.mkdir(exist_ok=True)
        # Workers that build at the same time must never run a half-written file.
        part = target.with_name(f"govmomi.{os.getpid()}")
        environment = {**os.environ, "GO111MODULE": "off", "GOPATH": str(GOPATH)}
        command = ["go", "build", "-o", str(part), "."]
        built = subprocess.run(command, cwd=sources, env=environment, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr
        part.replace(target)
    return target


@pytest.fixture(scope="module")
def bare(session_lab):
    """Connections to one farm, nobody logged in."""
    session_lab.post("/lab/reset")
    return Wire(session_lab.port, session_lab.directory / "ca.pem")


@pytest.fixture(scope="module")
def user(session_lab, bare):
    """The same, logged in."""
    made = Wire(session_lab.port, session_lab.directory / "ca.pem")
    made.login((session_lab.directory / "password").read_text(encoding="utf-8").strip())
    return made


@pytest.fixture(scope="module")
def ids(session_lab, bare):
    farm = session_lab.get("/lab/farm")
    vm = next(v for v in farm["vms"] if v["name"] == "train-04")
    host = next(h for h in farm["hosts"] if h["name"].startswith("esx-odd"))
    return {"vm": vm["ref"].partition(":")[2], "host": host["ref"].partition(":")[2]}
