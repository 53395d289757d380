"""A real Dask scheduler and workers of a fleet as processes, on loopback."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta

import pytest

from support import prefork
from support.gates import LONG
from vsphere_ai.app import CertificatesRequest, make_certificates
from vsphere_ai.fleet import authority as fleet_authority

PYTHON = sys.executable
QUICK = {
    "VSPHERE_AI_FLEET_LEASE": "1.6",
    "VSPHERE_AI_FLEET_MARGIN": "0.3",
    "VSPHERE_AI_FLEET_PATIENCE": "3",
    "DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING": "False",
    "DASK_DISTRIBUTED__COMM__RETRY__COUNT": "0",
    "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": "[]",
}

OTHER = """
import sys
import vsphere_ai
vsphere_ai.__version__ = {0!r}
from vsphere_ai.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


class Process:
    """A process whose output is read as it comes."""

    def __init__(self, *arguments, env=None, start=prefork):
        self.seen = ""
        self.process = start.Popen(
            [PYTHON, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **QUICK, "PYTHONUNBUFFERED": "1", **(env or {})},
        )
        os.set_blocking(self.process.stdout.fileno(), False)
        self._ready = selectors.DefaultSelector()
        self._ready.register(self.process.stdout, selectors.EVENT_READ)

    @property
    def pid(self):
        return self.process.pid

    def read(self, seconds=0.0):
        if self._ready.select(seconds):
            self.seen += (self.process.stdout.read() or b"").decode(errors="replace")
        return self.seen

    def until(self, pattern, seconds=LONG):
        """Wait until the output has a match, and return it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, self.read(0.05))
            if found:
                return found
            if self.process.poll() is not None:
                self.read()
                found = re.search(pattern, self.seen)
                if found:
                    return found
                break
        raise AssertionError(f"no {pattern!r} in:\n{self.seen}")

    def ended(self, seconds=LONG):
        """Wait for its end, and return the exit code."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            self.read(0.05)
            if time.monotonic() > end:
                raise AssertionError(f"it does not end:\n{self.seen}")
        self.read()
        return self.process.returncode

    def holds(self, secret):
        """Tell whether a text is anywhere in the memory of the process, which has to be alive."""
        with open(f"/proc/{self.pid}/maps") as maps, open(f"/proc/{self.pid}/mem", "rb", 0) as memory:
            for line in maps:
                place, rights, *_ = line.split()
                start, end = (int(part, 16) for part in place.split("-"))
                if rights.startswith("rw"):
                    with contextlib.suppress(OSError, ValueError):
                        memory.seek(start)
                        if secret.encode() in memory.read(end - start):
                            return True
        return False

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.send_signal(signal.SIGCONT)
        self.process.wait()
        self.process.stdout.close()


def certificate(folder, name="localhost,127.0.0.1,::1"):
    """Files of the authority, of a certificate of it, and of its key, as `fleet certificates` makes them."""
    authority, made = make_certificates(CertificatesRequest(folder, (name,), renew=True))
    return authority.path, made.path, made.key


def expired_certificate(folder):
    """The same of a certificate that ended ten days ago, of an authority that is there or is as old."""

    class Earlier(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) - timedelta(days=100)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleet_authority, "datetime", Earlier)
        return certificate(folder)


class Cluster:
    """A scheduler, and workers with state folders of their own: each is a machine of its own."""

    def __init__(self, folder, sites=("berlin",)):
        self.folder, self.processes, self.workers = folder, [], 0
        self.tls = certificate(folder / "pki")
        self.means(sites)
        self.start_scheduler()

    def means(self, sites):
        """Let the coordinator's inventory have these vCenters: none is reached from there, and no password is there."""
        self.inventory = self.folder / "campaign.yml"
        own = 'address: {0}.invalid, username: none, password: "env:THERE_IS_NONE"'
        lines = (f"  {site}: {{{own.format(site)}}}\n" for site in sites)
        self.inventory.write_text(f"vcenters:\n{''.join(lines)}", "utf-8")

    def start_scheduler(self, port=0):
        names = ("--tls-ca-file", "--tls-cert", "--tls-key")
        files = [text for name, path in zip(names, self.tls, strict=True) for text in (name, path)]
        place = ("--dashboard-address", "127.0.0.1:0", "--host", f"tls://127.0.0.1:{port}")
        self.scheduler = self.start("-m", "distributed.cli.dask_scheduler", "--no-dashboard", *place, *files)
        self.address = self.scheduler.until(r"Scheduler at:\s+(\S+)")[1]

    def start(self, *arguments, **options):
        made = Process(*arguments, **options)
        self.processes.append(made)
        return made

    @property
    def tls_options(self):
        names = ("--tls-ca", "--tls-cert", "--tls-key")
        return [text for name, path in zip(names, self.tls, strict=True) for text in (name, path)]

    def worker(self, inventory, *more, version=""):
        """Start a worker, on a machine of its own; `version`: of another vsphere-ai."""
        self.workers += 1
        state = self.folder / f"site-{self.workers}"
        state.mkdir(mode=0o700)
        given = ("fleet", "worker", self.address, "-i", inventory, *self.tls_options, *more)
        program = ("-c", OTHER.format(version)) if version else ("-m", "vsphere_ai")
        start = subprocess if version else prefork  # modules of a copy have read the version already
        made = self.start(*program, *given, env={"VSPHERE_AI_STATE_DIR": str(state)}, start=start)
        made.state = state
        return made

    def command(self, *arguments, env=None):
        """Start a command of the coordinator."""
        return self.start("-m", "vsphere_ai", "fleet", *arguments, *self.place, env=env)

    @property
    def place(self):
        """Options of the coordinator's commands."""
        return ["-i", str(self.inventory), *self.away]

    @property
    def away(self):
        """These without an inventory."""
        return ["--executor", f"dask:{self.address}", *self.tls_options]

    def close(self):
        for each in reversed(self.processes):
            each.kill()
