"""Session: one vCenter of an inventory, its connection, and the targets that a playbook and a limit mean there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.addresses.request import PoolSettings
from vsphere_ai.app.events import Emit, Remark, SessionOpened, Status, ignore
from vsphere_ai.app.events.stop import Stop
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.errors import InputError, Mark, UsageError
from vsphere_ai.language.inventories.inventory import Inventory, VCenterSettings, find_inventory
from vsphere_ai.language.inventories.selection import groups_of, narrow
from vsphere_ai.language.playbooks.desired import choose_vcenter, desired, split
from vsphere_ai.language.playbooks.play import Desired, Playbook
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.names.name_ranges import shell_word
from vsphere_ai.model.names.suggestion import did_you_mean, suggest
from vsphere_ai.model.state import Target
from vsphere_ai.reading import requirements
from vsphere_ai.reading.host_calls import is_call, should_query
from vsphere_ai.reading.probe_memory import ProbeMemory
from vsphere_ai.resources.makes_vms import OUTLINES
from vsphere_ai.security.credentials import fetch
from vsphere_ai.security.exceptions import without_secrets
from vsphere_ai.sets.host_choice import with_hosts
from vsphere_ai.sets.lay_out import LaidOut, addressed_again, expand_sets
from vsphere_ai.sets.leases import LeaseLedger
from vsphere_ai.sets.leaves import leaves_of
from vsphere_ai.sets.members import SetPlay, makes_vms, plays_of
from vsphere_ai.sets.rules import with_faults
from vsphere_ai.sets.wanted import going_for, with_members

if TYPE_CHECKING:
    from vsphere_ai.app.estate.reading_record import ReadingRecord
    from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
    from vsphere_ai.connect.secure_shell.ssh_pool import SshPool
    from vsphere_ai.connect.vcenter import VCenter
    from vsphere_ai.planning.privileges import PrivilegeNeed
    from vsphere_ai.reading.collector import CollectorRequest, Depth
    from vsphere_ai.runs.locks import Hold, Mode
    from vsphere_ai.security.secret_ref import Secret


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


class Session:
    """One vCenter, one playbook (or none), and what was read. Closes its connection as a context manager."""

    def __init__(
        self, inventory: Inventory, playbook: Playbook | None, options: EstateRequest, emit: Emit = ignore
    ) -> None:
        self.inventory, self.playbook, self.options = inventory, playbook, options
        self.emit, self.stop = emit, Stop()
        self.settings = choose_vcenter(playbook, inventory, options.vcenter)
        self.locks: Hold | None = None
        self.more_paths: Mapping[str, tuple[str, ...]] = {}
        """Managed type -> property paths that are read besides those of kinds and compatibility rules."""
        self.remembered = ProbeMemory()
        """What hosts have answered over SSH, for readings that follow one another."""
        self.lacking: tuple[float, tuple[PrivilegeNeed, ...], list[PrivilegeNeed]] = (
            0.0,
            (),
            [],
        )  # when asked, for which, what lacks
        self.approved_hosts: Mapping[str, str] = {}
        """Reference of a VM that a run is to make -> name of its host, where that run goes on."""
        self._desired: tuple[Playbook, Estate, Desired] | None = None

    def progress(self, line: str) -> None:
        """Emit what is being read."""
        self.emit(Status(line))

    @cached_property
    def vcenter(self) -> VCenter:
        """The connection, opened when it is first needed."""
        from vsphere_ai.connect.vcenter import VCenter

        return VCenter.connect(endpoint_of(self.settings, self._password.reveal()), notify=self.progress)

    @cached_property
    def _password(self) -> Secret:
        """The password, fetched once: a vCenter that is not reached at first is tried again without a question."""
        chosen = self.settings
        return fetch(chosen.password, self.inventory.base, purpose=f"password of {chosen.username} at {chosen.address}")

    @cached_property
    def shells(self) -> SshPool | None:
        """Connections to hosts' shells; None when the inventory has no `ssh:`, or hosts are not to be asked."""
        from vsphere_ai.app.estate.host_shells import shells_of

        return shells_of(self.inventory) if self.options.ask_hosts else None

    def shell(self, host: Target) -> EsxiSsh:
        """Return a connection to a host's shell; `UsageError` when the inventory has no `ssh:`."""
        if self.shells is None:
            raise UsageError("the inventory does not say how to reach hosts over SSH", "add an ssh: section to it")
        return self.shells(host)

    def leave(self, host: Target) -> None:
        """Close the connection to a host's shell, if there is one."""
        if self.__dict__.get("shells") is not None and self.shells is not None:
            self.shells.leave(host)

    def again(self, playbook: Playbook | None = None) -> Session:
        """Return a session for another reading, of the same playbook or another one, over the same connection.

        `UsageError` where a playbook is about another vCenter. Only the session that was opened first is closed.
        """
        other = Session(self.inventory, playbook or self.playbook, self.options, self.emit)
        if other.settings != self.settings:
            name, mine = other.settings.name, self.settings.name
            raise UsageError(f"{playbook and playbook.path} is about {name}, not {mine}", "give --vcenter NAME")
        other.__dict__.update(vcenter=self.vcenter, shells=self.shells, remembered=self.remembered)
        return other

    def __enter__(self) -> Session:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, InputError) and "vcenter" in self.__dict__:
            port = "" if self.settings.port == 443 else f":{self.settings.port}"
            error.compared_with = f"vCenter {self.settings.name} ({self.settings.address}{port})"
        if isinstance(error, Exception):
            without_secrets(error)
        self.close()
        self.emit(Status(""))

    def close(self) -> None:
        """Log out, if there was a login, and close the connections to hosts."""
        if (shells := self.__dict__.get("shells")) is not None:
            shells.close()
        if "vcenter" in self.__dict__:
            self.vcenter.close()

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

    def desired(self, playbook: Playbook, estate: Estate) -> Desired:
        """Return what the playbook wants of each target, narrowed by `--limit`."""
        known = self._desired  # a run asks for each target that it reads back, on the same estate
        if known is None or known[0] is not playbook or known[1] is not estate:
            wanted = self._wanted(playbook, estate)
            own = Desired({t: wanted[t] for t in self.limited(estate, tuple(wanted))})
            known = self._desired = (playbook, estate, own)
        return known[2]

    def split(self, playbook: Playbook, estate: Estate) -> Playbook:
        """Return a playbook whose plays have one value of each variable: those whose hosts have several are parts.

        Its variables are those that count for what `--limit` and `--kind` leave.
        """
        only = self.desired(playbook, estate) if playbook.variables or playbook.varying else None
        found = split(playbook, self.inventory, estate, vcenter=self.settings.name, only=only)
        if playbook.varying and len(self.inventory.vcenters) == 1:
            names = {host.name for host in estate.hosts}
            for name, values in self.inventory.variables.hosts.items():
                if name not in names:
                    place = next((f"  ({each.place})" for each in values.values()), "")
                    near = did_you_mean(name, names)
                    text = f"! host_vars: there is no host '{name}'{place}"
                    self.emit(Remark("variable.no-host", f"{text}: {near}" if near else text))
        return found

    def limited(self, estate: Estate, targets: Sequence[Target]) -> tuple[Target, ...]:
        """Narrow targets to those `--limit` names (as datacenters, hosts or VMs)."""
        if not self.options.limit:
            return tuple(targets)
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

    def left_out(self, playbook: Playbook, estate: Estate) -> frozenset[Target]:
        """Return the playbook's targets that `--limit` leaves out."""
        if not self.options.limit:
            return frozenset()
        wanted = self._wanted(playbook, estate)
        return frozenset(wanted) - set(self.limited(estate, tuple(wanted)))

    def require_targets(self, playbook: Playbook, estate: Estate) -> None:
        """Refuse a `--limit` that leaves none of the playbook's targets: nothing to do would say nothing of them."""
        if not self.desired(playbook, estate) and (wanted := self._wanted(playbook, estate)):
            text = f"--limit: '{self.options.limit}' leaves none of the targets of {playbook.path}"
            raise UsageError(text, suggest("", (t.name for t in wanted), "its targets"), rule="usage.limit")

    def _wanted(self, playbook: Playbook, estate: Estate) -> Desired:
        """Return what a playbook wants of each target; of an estate in which the members of its sets are laid out."""
        wanted = desired(playbook, self.inventory, estate, vcenter=self.settings.name)
        plays = self.set_plays(playbook)
        return with_members(wanted, plays, estate) if plays else wanted

    def set_plays(self, playbook: Playbook | None) -> tuple[SetPlay, ...]:
        """Return the plays of a playbook that make VMs in this vCenter."""
        return plays_of(playbook, self.settings.name)

    def laid_out(self, playbook: Playbook | None, estate: Estate, *, addresses: bool = True) -> LaidOut:
        """Return an estate with the VMs of the playbook's sets, those to be made included; `addresses`: with theirs."""
        plays = self.set_plays(playbook)
        return expand_sets(plays, estate, self._book if plays and addresses else None)

    def placed(self, playbook: Playbook, estate: Estate) -> Estate:
        """Return an estate that was read for a playbook, in which new VMs of sets are on hosts with room for them."""
        plays = self.set_plays(playbook)
        wanted = self.desired(playbook, estate) if plays else Desired()
        leaves = leaves_of(self.inventory, estate) if plays else None
        moved = with_hosts(plays, wanted, with_faults(plays, estate), self.approved_hosts, leaves)
        if moved is not estate and any(pool.affinity.hosts for pool in self.inventory.pools.values()):
            moved = addressed_again(plays, moved, self._book)
        if plays:  # what is wanted of a VM does not depend on its host
            self._desired = (playbook, moved, wanted)
        return moved

    @cached_property
    def _reading(self) -> ReadingRecord:
        """What of SSH a run starts only to read, as vCenter keeps it."""
        from vsphere_ai.app.estate.reading_record import ReadingRecord

        return ReadingRecord(self.vcenter)

    @cached_property
    def _book(self) -> LeaseLedger:
        """The leases of addresses as vCenter keeps them, read once."""
        from vsphere_ai.app.estate.address_ip_pools import read_ip_pools
        from vsphere_ai.connect.address_ledger import read_text

        terms = PoolSettings(self.inventory.pools, int(time.time()), self.inventory.reserved)
        pools = self.inventory.pools.values()
        groups = partial(groups_of, self.inventory) if any(p.affinity.vms or p.affinity.hosts for p in pools) else None
        return LeaseLedger(read_text(self.vcenter).text, terms, tuple(read_ip_pools(self.vcenter, self.emit)), groups)

    @property
    def lock_mode(self) -> Mode:
        """The lock that a run takes: of the vCenter where it gives or takes addresses, else as the inventory says."""
        plays = self.set_plays(self.playbook)
        leases = any(n.pools for each in plays for n in each.wanted.nics) or any(not each.names for each in plays)
        return "vcenter" if leases else self.settings.lock

    def request(self, choose: Callable[[Estate], Depth]) -> CollectorRequest:
        """Return a request to read what all kinds ask for, as deeply as `choose` says."""
        from vsphere_ai.reading.collector import CollectorRequest

        making = makes_vms(self.playbook)
        always = frozenset(filter(is_call, self.more_paths.get("HostSystem", ())))
        return CollectorRequest(
            paths=requirements.wanted_paths(self.more_paths, makes_vms=making),
            choose=choose,
            outlines=OUTLINES if making else {},
            probes=requirements.probes(),
            queries=requirements.queries(),
            worth=lambda host, call: call in always or should_query(host, call),
            always=always,
            start_ssh=self.may_start_ssh,
            parallel=self.options.parallel,
            progress=self.progress,
            seen=self.locks.respect if self.locks else None,
            shared_note=self._reading.noted if self.locks else None,
            remembered=self.remembered,
        )


def open_session(estate: EstateRequest, playbook: Playbook | None = None, emit: Emit = ignore) -> Session:
    """Return a session with the vCenter of a playbook, or the one that is asked for; it logs in when it first reads.

    Use it as a context manager: that logs out. `UsageError` when there is no inventory, or no such vCenter in it.
    """
    if playbook is None:
        require_no_values(estate)
    session = Session(find_inventory(estate.inventory), playbook, estate, emit)
    emit(SessionOpened(session.close))
    return session


def require_no_values(estate: EstateRequest) -> None:
    """Refuse values of variables where there is no playbook that has some."""
    if estate.variables or estate.vars_files:
        text = "--var and --vars-file are for variables of a playbook, and none is given"
        raise UsageError(text, "leave them out, or give the playbook", rule="usage.var")


def endpoint_of(settings: VCenterSettings, password: str = "") -> Endpoint:
    """Return where a vCenter is; without a password, for looking at its certificate only."""
    ca_file = Path(settings.tls.ca_file) if settings.tls.ca_file else None
    return Endpoint(settings.address, settings.port, settings.username, password, ca_file, settings.tls.fingerprint)
