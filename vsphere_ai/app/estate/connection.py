"""Connection of a command: its logins to a vCenter and to hosts, the locks it holds, and what it was answered there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.events.stop import Stop
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.errors import InputError, UsageError
from vsphere_ai.language.inventories.inventory import VCenterSettings
from vsphere_ai.model.state import Target
from vsphere_ai.reading.probe_memory import ProbeMemory
from vsphere_ai.security.credentials import fetch
from vsphere_ai.security.exceptions import without_secrets

if TYPE_CHECKING:
    from vsphere_ai.app.estate.reading_record import ReadingRecord
    from vsphere_ai.app.estate.scope import EstateScope
    from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
    from vsphere_ai.connect.secure_shell.ssh_pool import SshPool
    from vsphere_ai.connect.vcenter import VCenter
    from vsphere_ai.planning.privileges import PrivilegeNeed
    from vsphere_ai.runs.locks import Hold
    from vsphere_ai.security.secret_ref import Secret

LASTS = 10.0
"""Seconds for which an answer about privileges holds: a plan that no one had to confirm is carried out within them."""


class PrivilegeMemory:
    """The last answer of a vCenter to the question which privileges the account lacks."""

    def __init__(self) -> None:
        self._answered: tuple[float, tuple[PrivilegeNeed, ...], list[PrivilegeNeed]] | None = None

    def lacking(self, needs: tuple[PrivilegeNeed, ...]) -> list[PrivilegeNeed] | None:
        """Return what the account lacks of these; None where that was not asked within the last `LASTS` seconds."""
        if self._answered is None:
            return None
        at, known, lacks = self._answered
        return lacks if known == needs and time.monotonic() - at <= LASTS else None

    def keep(self, needs: tuple[PrivilegeNeed, ...], lacks: list[PrivilegeNeed]) -> None:
        """Keep the answer to a question that was asked just now."""
        self._answered = time.monotonic(), needs, lacks


class EstateConnection:
    """What a command has open. Each login is made when it is first needed; `close` ends them all."""

    def __init__(self, scope: EstateScope, emit: Emit = ignore) -> None:
        self.emit, self.stop = emit, Stop()
        self.remembered = ProbeMemory()
        """What hosts have answered over SSH, for readings that follow one another."""
        self.privileges = PrivilegeMemory()
        self._inventory, self._settings, self._asks_hosts = scope.inventory, scope.settings, scope.options.ask_hosts
        self._locks: Hold | None = None

    @property
    def locks(self) -> Hold | None:
        """The locks of the run that is under way."""
        return self._locks

    @contextmanager
    def holding(self, locks: Hold) -> Iterator[None]:
        """Work under the locks of a run until the block ends."""
        self._locks = locks
        try:
            yield
        finally:
            self._locks = None

    def progress(self, line: str) -> None:
        """Emit what is being read."""
        self.emit(Status(line))

    @cached_property
    def vcenter(self) -> VCenter:
        """The login to vCenter."""
        from vsphere_ai.connect.vcenter import VCenter

        return VCenter.connect(endpoint_of(self._settings, self._password.reveal()), notify=self.progress)

    @cached_property
    def _password(self) -> Secret:
        """The password, fetched once: a vCenter that is not reached at first is tried again without a question."""
        chosen = self._settings
        purpose = f"password of {chosen.username} at {chosen.address}"
        return fetch(chosen.password, self._inventory.base, purpose=purpose)

    @cached_property
    def shells(self) -> SshPool | None:
        """Connections to hosts' shells; None when the inventory has no `ssh:`, or hosts are not to be asked."""
        from vsphere_ai.app.estate.host_shells import shells_of

        return shells_of(self._inventory) if self._asks_hosts else None

    def shell(self, host: Target) -> EsxiSsh:
        """Return a connection to a host's shell; `UsageError` when the inventory has no `ssh:`."""
        if self.shells is None:
            raise UsageError("the inventory does not say how to reach hosts over SSH", "add an ssh: section to it")
        return self.shells(host)

    def leave(self, host: Target) -> None:
        """Close the connection to a host's shell, if there is one."""
        if self.__dict__.get("shells") is not None and self.shells is not None:
            self.shells.leave(host)

    @cached_property
    def reading_record(self) -> ReadingRecord:
        """What of SSH a run starts only to read, as vCenter keeps it."""
        from vsphere_ai.app.estate.reading_record import ReadingRecord

        return ReadingRecord(self.vcenter)

    def end(self, error: BaseException | None = None) -> None:
        """Close everything at the end of a command; an error gets no secrets, and the vCenter it was compared with."""
        if isinstance(error, InputError) and "vcenter" in self.__dict__:
            port = "" if self._settings.port == 443 else f":{self._settings.port}"
            error.compared_with = f"vCenter {self._settings.name} ({self._settings.address}{port})"
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


def endpoint_of(settings: VCenterSettings, password: str = "") -> Endpoint:
    """Return where a vCenter is; without a password, for looking at its certificate only."""
    ca_file = Path(settings.tls.ca_file) if settings.tls.ca_file else None
    return Endpoint(settings.address, settings.port, settings.username, password, ca_file, settings.tls.fingerprint)
