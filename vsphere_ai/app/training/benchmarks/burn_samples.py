"""Samples of GPUs during a burn, from the side that can see them: the guest for a whole GPU, the host for a vGPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from vsphere_ai.app.training.nodes.listed import NodesResult
from vsphere_ai.benchmarks.programs.burn import FIELDS, Sample, samples_in
from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSsh, on_each
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.model.nodes import Node, NodeGpu
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import plain

ARGV = ("nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits")
WITHIN = 20.0
AT_ONCE = 16


@dataclass
class Sampler:
    """Asks guests and hosts; samples are by VM and GPU index, and `why` is the reason where a node has none."""

    read: NodesResult
    shells: Mapping[str, GuestSsh]
    hosts: Mapping[str, EsxiSsh] = field(default_factory=dict)
    samples: dict[tuple[str, int], list[Sample]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, read: NodesResult, shells: Mapping[str, GuestSsh], connect: Callable[[Target], EsxiSsh] | None
    ) -> Sampler:
        """Return a sampler with a connection for each host of a vGPU, where the inventory says how to reach them."""
        made = cls(read, shells)
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
        guests = [self.shells[n.vm] for n in nodes if self.is_guest(n)]
        answers = on_each(guests, _of_guest)
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


def _of_guest(shell: GuestSsh) -> Mapping[str, Sample]:
    return samples_in(plain(shell.run(ARGV, timeout=WITHIN).out))


def _of_host(shell: EsxiSsh) -> Mapping[str, Sample] | VsphereAiError:
    try:
        shell.connect()
        return samples_in(shell.run(ARGV, WITHIN).stdout)
    except VsphereAiError as error:
        return error
