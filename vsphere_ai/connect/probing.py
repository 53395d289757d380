"""Probes: read-only commands on many hosts at once; a host that does not answer is a finding, not an error."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from vsphere_ai.connect import service
from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
from vsphere_ai.connect.secure_shell.ssh_endpoint import ConnectionBroken, SshRefused
from vsphere_ai.connect.secure_shell.ssh_pool import side_by_side
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.errors import Denied, OutcomeUnknown, StepFailed, Unreachable
from vsphere_ai.model.estate.lockdown import is_locked
from vsphere_ai.model.facts import CommandOutput, Facts, ProbeFailure
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Probe

Shells = Callable[[Target], EsxiSsh]
"""Makes the (still closed) connection to a host's shell."""
_T = TypeVar("_T")
Answers = Mapping[str, CommandOutput | ProbeFailure]
_NICS, _NIC = "config.network.pnic", re.compile(r"vmnic[0-9]{1,4}")
_PAUSES = (0.5, 2.0)
"""Seconds before a command whose connection broke is asked again."""
_START_S = 10.0
"""How long a service that was just started may refuse connections."""


@dataclass(frozen=True)
class Prober:
    """Runs probes on hosts. `may_start` allows to start a stopped SSH service for the time of the probes."""

    vcenter: VCenter
    shells: Shells
    may_start: bool
    deadline_s: float
    note: service.Note

    def probe_all(self, hosts: Sequence[Facts], probes: Sequence[Probe], parallel: int) -> dict[str, Answers]:
        """Return, by host reference and probe name, what the host answered or why it did not."""
        if not hosts or not probes:
            return {}
        return {h.ref: a for h, a in self.each(hosts, lambda host: self.probe(host, probes), parallel)}

    def each(self, hosts: Sequence[Facts], ask: Callable[[Facts], _T], parallel: int) -> Iterator[tuple[Facts, _T]]:
        """Yield hosts with what `ask` returns of them, those first on which SSH runs: what they refuse starts none."""
        stopped = [h for h in hosts if service.is_running(h) is False]
        with ThreadPoolExecutor(max_workers=max(1, min(parallel, len(hosts))), thread_name_prefix="ssh") as pool:
            for some in ([h for h in hosts if h not in stopped], stopped):
                yield from zip(some, pool.map(ask, some), strict=True)

    def probe(self, host: Facts, probes: Sequence[Probe]) -> Answers:
        """Run the probes on one host, each distinct command once."""
        names: dict[tuple[str, ...], list[str]] = {}
        for probe in (one for each in probes for one in _of(each, host)):
            names.setdefault(probe.argv, []).append(probe.name)
        answers: dict[str, CommandOutput | ProbeFailure] = {}
        if not names:  # nothing to ask is no reason to start a service
            return answers
        failure = self._obstacle(host)
        if failure is None:
            failure = self._run(host, names, answers)
        for name in (n for same in names.values() for n in same):
            if failure is not None:
                answers.setdefault(name, failure)
        return answers

    def log_in(self, host: Facts) -> ProbeFailure | None:
        """Connect to a host and log in, once; return why that failed. SSH that is started for it is stopped again."""
        return self._obstacle(host) or self._run(host, {}, {})

    def _obstacle(self, host: Facts) -> ProbeFailure | None:
        locked = is_locked(host)  # only then it matters who logs in
        user = self.shells(Target("host", host.name, host.ref)).endpoint.username if locked else ""
        return service.obstacle(host, user, may_start=self.may_start)

    def _run(
        self,
        host: Facts,
        names: Mapping[tuple[str, ...], Iterable[str]],
        answers: dict[str, CommandOutput | ProbeFailure],
    ) -> ProbeFailure | None:
        try:
            shell = self.shells(Target("host", host.name, host.ref))
            if service.is_running(host) is False:  # no service is started for a login that is not going to be tried
                shell.check_credential()
            with (
                service.running(self.vcenter, host, self.note) as started,
                contextlib.closing(shell) if started else shell,
            ):
                _open(shell, _START_S if started else 0.0)
                for argv, output in side_by_side(names, lambda argv: self._asked(shell, argv)):
                    answers.update(dict.fromkeys(names[argv], output))
        except service.LeftRunning:
            raise
        except SshRefused as error:
            return ProbeFailure("ssh.stopped", error.message, error.remedy)
        except Denied as error:
            return ProbeFailure("ssh.denied", error.message, error.remedy)
        except (Unreachable, StepFailed, OutcomeUnknown) as error:
            return ProbeFailure("ssh.unreachable", error.message, error.remedy)
        return None

    def _asked(self, shell: EsxiSsh, argv: tuple[str, ...]) -> CommandOutput:
        """Run a command that only reads; once more on a new connection, and again, when the connection breaks."""
        for pause in _PAUSES:
            try:
                return shell.run(argv, self.deadline_s)
            except ConnectionBroken:
                time.sleep(pause)
        return shell.run(argv, self.deadline_s)


def _of(probe: Probe, host: Facts) -> Iterator[Probe]:
    """Yield a probe as it is asked of a host: of each of its RDMA NICs, where that is meant."""
    if not probe.each_rdma_nic:
        yield probe
        return
    for nic in host.get(_NICS) or ():
        name = str(nic.get("device"))
        if nic.get("rdmaDevice") and _NIC.fullmatch(name):  # it gets into a command
            yield Probe(f"{probe.name}:{name}", (*probe.argv, name))


def _open(shell: EsxiSsh, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            shell.connect()
            return
        except SshRefused:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.2)
