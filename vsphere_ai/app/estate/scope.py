"""Scope of a command: the inventory, vCenter, playbook and limit that a user has given. It never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from vsphere_ai.errors import InputError, Mark, UsageError
from vsphere_ai.language.inventories.inventory import Inventory, VCenterSettings, find_inventory
from vsphere_ai.language.inventories.selection import narrow
from vsphere_ai.language.playbooks.desired import choose_vcenter, desired, split
from vsphere_ai.language.playbooks.play import Desired, Playbook
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.names.name_ranges import shell_word
from vsphere_ai.model.names.suggestion import did_you_mean
from vsphere_ai.model.state import Target
from vsphere_ai.sets.set_plays import SetPlay, plays_of

if TYPE_CHECKING:
    from vsphere_ai.runs.locks import Mode


@dataclass(frozen=True)
class EstateRequest:
    """Which estate to read, and how: an inventory file, the name of a vCenter in it, and a limit to some targets.

    Without a file: the project's ``vsphere-ai.yaml``, else the running lab's. `start_ssh` permits to start a stopped
    SSH service for reading (it is stopped again), `parallel` is the number of hosts at a time, and `ssh_login` lets
    planning try the SSH logins that a plan needs. `inventory_from` says where the inventory file was named, in a few
    words, where that is not the command line. Without `ask_hosts` no host is asked over SSH.
    `only_kinds` are the kinds of settings of a playbook that are looked at; all of them without any.
    `variables` are values of a playbook's variables as ``NAME=VALUE``, and `vars_files` files of such values.
    """

    inventory: Path | None = None
    vcenter: str = ""
    limit: str = ""
    start_ssh: bool = False
    parallel: int = 8
    ssh_login: bool = True
    inventory_from: str = ""
    ask_hosts: bool = True
    only_kinds: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    vars_files: tuple[Path, ...] = ()


@dataclass(frozen=True)
class EstateScope:
    """What a user has asked for; it needs no connection. `settings` are those of its vCenter."""

    inventory: Inventory
    playbook: Playbook | None
    options: EstateRequest
    settings: VCenterSettings
    more_paths: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Managed type -> property paths that are read besides those of kinds and compatibility rules."""

    @property
    def may_start_ssh(self) -> bool:
        """Whether a stopped SSH service may be started for reading."""
        start = self.inventory.ssh.start_service if self.inventory.ssh else "never"
        return start == "always" or (self.options.start_ssh and start != "never")

    def stopping_ssh(self, host: str) -> str:
        """Return how SSH is stopped that a killed command had started: by any command that may start it."""
        if self.inventory.ssh is None or self.inventory.ssh.start_service == "never":
            return "in the vSphere Client, under Configure > Services, TSM-SSH"
        return f"vsphere-ai show {shell_word(host)} --start-ssh"

    def limited(self, estate: Estate, targets: Sequence[Target]) -> tuple[Target, ...]:
        """Narrow targets to those `--limit` names (as datacenters, hosts or VMs)."""
        if not self.options.limit:
            return tuple(targets)
        from vsphere_ai.sets.wanted import going_for

        mark = Mark("--limit")
        try:
            named = set(narrow(self.options.limit, self.inventory, estate, mark=mark))
        except InputError as error:
            if any(d.mark != mark for d in error.diagnostics):  # a group that the inventory describes wrongly
                raise
            faults = [f"--limit: {d.message}" for d in error.diagnostics]
            raise UsageError("\n".join(faults), error.diagnostics[0].help, rule="usage.limit") from None
        named |= going_for(named, targets, estate)
        return tuple(t for t in targets if t in named)

    def desired(self, playbook: Playbook, estate: Estate) -> Desired:
        """Return what a playbook sets of each target, also of those that `--limit` leaves out."""
        every = desired(playbook, self.inventory, estate, vcenter=self.settings.name)
        plays = self.set_plays(playbook)
        if not plays:
            return every
        from vsphere_ai.sets.wanted import with_members

        return with_members(every, plays, estate)

    def split(self, playbook: Playbook, estate: Estate, only: Desired | None) -> Playbook:
        """Return a playbook whose plays have one value of each variable, with those that count for `only` these."""
        return split(playbook, self.inventory, estate, vcenter=self.settings.name, only=only)

    def unknown_hosts(self, playbook: Playbook, estate: Estate) -> tuple[str, ...]:
        """Return a line per host that has variables in the inventory and that this, its only vCenter, does not have."""
        if not playbook.varying or len(self.inventory.vcenters) != 1:
            return ()
        names, lines = {host.name for host in estate.hosts}, []
        for name, values in self.inventory.variables.hosts.items():
            if name not in names:
                place = next((f"  ({value.place})" for value in values.values()), "")
                near, text = did_you_mean(name, names), f"! host_vars: there is no host '{name}'{place}"
                lines.append(f"{text}: {near}" if near else text)
        return tuple(lines)

    def set_plays(self, playbook: Playbook | None) -> tuple[SetPlay, ...]:
        """Return the plays of a playbook that make VMs in this vCenter."""
        return plays_of(playbook, self.settings.name)

    @property
    def lock_mode(self) -> Mode:
        """The lock that a run takes: of the vCenter where it gives or takes addresses, else as the inventory says."""
        plays = self.set_plays(self.playbook)
        leases = any(n.pools for play in plays for n in play.wanted.nics) or any(not play.names for play in plays)
        return "vcenter" if leases else self.settings.lock


def scope_of(inventory: Inventory, playbook: Playbook | None, options: EstateRequest) -> EstateScope:
    """Return a scope with the vCenter that is asked for, or of the playbook; `UsageError` where that is not one."""
    settings = choose_vcenter(playbook, inventory, options.vcenter)
    return EstateScope(inventory.of_vcenter(settings.name), playbook, options, settings)


def inventory_of(options: EstateRequest) -> Inventory:
    """Return the inventory of a request, with `ssh` and `guests` as its vCenter has them.

    `UsageError` where it has several vCenters, none is named, and one of them has such a section of its own.
    """
    inventory = find_inventory(options.inventory)
    if options.vcenter or len(inventory.vcenters) == 1 or any(v.ssh or v.guests for v in inventory.vcenters.values()):
        return inventory.of_vcenter(choose_vcenter(None, inventory, options.vcenter).name)
    return inventory


def require_no_values(estate: EstateRequest) -> None:
    """Refuse values of variables where there is no playbook that has some."""
    if estate.variables or estate.vars_files:
        text = "--var and --vars-file are for variables of a playbook, and none is given"
        raise UsageError(text, "leave them out, or give the playbook", rule="usage.var")
