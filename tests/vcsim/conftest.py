"""VMware's own simulator, built once from Debian's sources and started per test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from support.gates import LONG
from support.programs import PACKAGES, uses_program
from support.required import required

from vsphere_ai.connect.soap.outage import WaitLimits
from vsphere_ai.connect.tls import Endpoint

HERE = Path(__file__).parent
GOPATH = Path("/usr/share/gocode")
LIMITS = WaitLimits(connect=5, answer=20, patience=2, backoff=0.05)


@dataclass(frozen=True)
class Vcsim:
    """A running simulator."""

    port: int
    ca_file: Path
    fingerprint: str

    def endpoint(self, username: str = "user", password: str = "pass", *, pinned: bool = False) -> Endpoint:
        if pinned:
            return Endpoint("127.0.0.1", self.port, username, password, fingerprint=self.fingerprint)
        return Endpoint("127.0.0.1", self.port, username, password, ca_file=self.ca_file)


@pytest.fixture(scope="session")
@uses_program("go")
def binary() -> Path:
    """Build the simulator; takes about 15 s the first time."""
    sources_of_govmomi = GOPATH / "src/github.com/vmware/govmomi"
    required(sources_of_govmomi.is_dir(), f"sources of govmomi: apt-get install {PACKAGES['go']}")
    target = HERE / ".build" / "vcsim"
    if not target.exists() or target.stat().st_mtime < (HERE / "main.go").stat().st_mtime:
        target.parent.mkdir(exist_ok=True)
        # Workers that build at the same time must never run a half-written file.
        part = target.with_name(f"vcsim.{os.getpid()}")
        environment = {**os.environ, "GO111MODULE": "off", "GOPATH": str(GOPATH)}
        command = ["go", "build", "-o", str(part), "main.go"]
        built = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr
        part.replace(target)
    return target


@pytest.fixture
def start(binary: Path, tmp_path: Path) -> Iterator[Callable[..., Vcsim]]:
    """Start simulators; further command line options as arguments."""
    running: list[subprocess.Popen[str]] = []
    ca = trustme.CA()
    leaf = ca.issue_cert("127.0.0.1")
    files = {"ca": ca.cert_pem, "cert": leaf.cert_chain_pems[0], "key": leaf.private_key_pem}
    for name, blob in files.items():
        blob.write_to_path(str(tmp_path / f"{name}.pem"))

    def run(*options: str) -> Vcsim:
        command = [str(binary), "-cert", str(tmp_path / "cert.pem"), "-key", str(tmp_path / "key.pem"), *options]
        own = {**os.environ, "TMPDIR": str(tmp_path)}  # it leaves its datastores there
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=own)
        running.append(process)
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, "the simulator did not start"
        fingerprint = _sha256(leaf.cert_chain_pems[0].bytes())
        return Vcsim(int(address.rpartition(":")[2]), tmp_path / "ca.pem", fingerprint)

    yield run
    for process in running:
        process.terminate()
        process.wait(LONG)


def _sha256(pem: bytes) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    return x509.load_pem_x509_certificate(pem).fingerprint(hashes.SHA256()).hex()


@pytest.fixture
def vcsim(start: Callable[..., Vcsim]) -> Vcsim:
    """One cluster of three hosts, one host outside of it, four VMs each."""
    return start("-hosts", "3", "-vms", "4")


@pytest.fixture
def limits() -> WaitLimits:
    return LIMITS
