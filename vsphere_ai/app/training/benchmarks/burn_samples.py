"""Samples of GPUs during a burn, from the side that can see them: the guest for a whole GPU, the host for a vGPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from vsphere_ai.app.training.nodes.listed import NodesResult
from vsphere_ai.benchmarks.programs.burn import FIELDS, Sample, samples_in
from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections, GuestSurvey
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.model.guest_probes import Answers, GuestCommand, GuestProbe, NoAnswer
from vsphere_ai.model.nodes import Node, NodeGpu
from vsphere_ai.model.state import Target

WITHIN, ALL_WITHIN = 20.0, 60.0
"""Seconds for one answer, and for those of all guests: the rest are asked the next time."""
AT_ONCE = 16
_GPUS = GuestCommand("gpus", ("nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"), WITHIN)


def _samples(answers: Answers) -> Mapping[str, Sample]:
    if answers[_GPUS.name].failure:
        raise NoAnswer(answers[_GPUS.name].failure)
    return samples_in(answers[_GPUS.name].out)


SAMPLES = GuestProbe((_GPUS,), _samples)
"""What the GPUs of a guest show now, by their PCI addresses."""


@dataclass
class Sampler:
    """Asks guests and hosts; samples are by VM and GPU index, and `why` is the reason where a node has none."""

    read: NodesResult
    guests: GuestConnections
    hosts: Mapping[str, EsxiSsh] = field(default_factory=dict)
    samples: dict[tuple[str, int], list[Sample]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, read: NodesResult, guests: GuestConnections, connect: Callable[[Target], EsxiSsh] | None) -> Sampler:
        """Return a sampler with a connection for each host of a vGPU, where the inventory says how to reach them."""
        made = cls(read, guests)
        names = {n.host for n in read.nodes if n.host and not made.is_guest(n)}
        if connect is None:
            return made
        refs = {h.name: h.ref for h in read.estate.hosts}
        found = {}
        for name in sorted(names & set(refs)):
            try:
                found[name] = connect(Target("host", name, refs[name]))
            except VsphereAiError as error:
                made.why |= {n.vm: error.message for n in read.nodes if n.host == name}
        made.hosts = found
        return made

    def is_guest(self, node: Node) -> bool:
        """Return whether the guest owns its GPUs."""
        return self.read.states[node.vm].passthrough

    def side(self, node: Node) -> str:
        """Return who is asked about a node."""
        return "guest" if self.is_guest(node) else "host"

    def take(self, nodes: Sequence[Node]) -> None:
        """Ask everybody once; who does not answer is asked again the next time."""
        survey = GuestSurvey(self.guests, within=ALL_WITHIN)
        answers = survey.ask(dict.fromkeys((n.vm for n in nodes if self.is_guest(n)), SAMPLES))
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="samples") as pool:
            names = list(self.hosts)
            of_hosts = dict(zip(names, pool.map(lambda name: _of_host(self.hosts[name]), names), strict=True))
        for node in nodes:
            own = answers.get(node.vm) if self.is_guest(node) else of_hosts.get(node.host)
            if isinstance(own, VsphereAiError):
                self.why[node.vm] = own.message
            elif own is None:
                self.why.setdefault(node.vm, "the inventory does not say how to reach its host over SSH")
            else:
                self._add(node, own)

    def _add(self, node: Node, found: Mapping[str, Sample]) -> None:
        for gpu in node.gpus:
            address = gpu.guest_pci if self.is_guest(node) else gpu.host_pci
            sample = found.get(address) or _only(node, gpu, found)
            if sample is not None:
                self.samples.setdefault((node.vm, gpu.index), []).append(sample)
            else:
                self.why[node.vm] = f"which GPU of the {self.side(node)} it is, is not known"

    def close(self) -> None:
        """Close the connections to hosts."""
        for shell in self.hosts.values():
            with suppress(VsphereAiError):
                shell.close()


def _only(node: Node, gpu: NodeGpu, found: Mapping[str, Sample]) -> Sample | None:
    """Return the sample of a GPU that is the only one on both sides."""
    return next(iter(found.values())) if len(found) == len(node.gpus) == 1 and gpu.index == 0 else None


def _of_host(shell: EsxiSsh) -> Mapping[str, Sample] | VsphereAiError:
    try:
        shell.connect()
        return samples_in(shell.run(_GPUS.argv, WITHIN).stdout)
    except VsphereAiError as error:
        return error
