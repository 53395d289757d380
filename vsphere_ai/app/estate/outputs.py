"""Outputs of a playbook: values of the VMs that it makes, computed anew from what vCenter and the guests show."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.app.estate.read_estate import report_malformed
from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.estate.session_outputs import observed_outputs
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.errors import UsageError
from vsphere_ai.language.playbooks.play import Playbook, PlaybookOutput
from vsphere_ai.model.facts import About
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.sets.outputs import OutputValue


@dataclass(frozen=True)
class OutputRequest:
    """A playbook, and the name of one of its outputs; without it all of them."""

    playbook: Path
    name: str = ""
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class OutputResult:
    """The vCenter that was read, and the outputs as they are now."""

    about: About
    playbook: str
    outputs: tuple[OutputValue, ...]

    @property
    def exit_code(self) -> int:
        """Return 1 where something blocks an output, which then has no value; else 0."""
        return int(any(each.problems for each in self.outputs))


def output(request: OutputRequest, emit: Emit = ignore) -> OutputResult:
    """Return the outputs of a playbook as they are observed. Changes nothing; no file of an earlier run is read.

    An output is refused where a VM is missing, off or not ready, where its guest reports another address, or where the
    playbook says something else now. `UsageError` for an output that the playbook does not have.
    """
    playbook = load(request.playbook, request.estate, emit)
    chosen = _chosen(playbook, request.name)
    with open_session(request.estate, playbook, emit) as session:
        found, estate = observed_outputs(session, playbook, chosen)
        about, vcenter = session.connection.vcenter.about, session.scope.settings.name
    if request.name and not found:
        raise UsageError(f"the VMs of '{request.name}' are not in {vcenter}", "choose their vCenter with --vcenter")
    report_malformed(estate, emit)
    return OutputResult(about, playbook.path, found)


def _chosen(playbook: Playbook, name: str) -> tuple[PlaybookOutput, ...]:
    known = [each.name for each in playbook.outputs]
    if not known:
        raise UsageError(f"{playbook.path} has no outputs", "add an item '- outputs: {NAME: \"${...}\"}'")
    if name and name not in known:
        raise UsageError(f"{playbook.path} has no output '{name}'", suggest(name, known, "it has"))
    return tuple(each for each in playbook.outputs if name in ("", each.name))
