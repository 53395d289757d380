"""Faults that befall machines and servers: sessions, outages, certificates, host keys, power, GPUs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.faults.engine import Fired
from vsphere_ai.lab.faults.rules import ON_GUESTS, WORDS
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.listener import HttpsListener
from vsphere_ai.lab.managed.guests import guest_faults
from vsphere_ai.lab.managed.hosts import alarms
from vsphere_ai.lab.sshd import SshServer
from vsphere_ai.lab.tls import make_certificate


class FaultTarget(Protocol):
    """What of a lab faults befall."""

    farm: Farm
    ssh: dict[str, SshServer]
    server: HttpsListener | None

    def expire_sessions(self) -> None:
        """End every session."""


def strike(lab: FaultTarget, fired: Fired) -> None:
    """Let happen what a fault does beside the call it fires at; nothing for those that only spoil the reply."""
    action = fired.rule.do
    if action.word == "expire-session":
        lab.expire_sessions()
    elif action.word == "restart":
        lab.expire_sessions()
        if lab.server is not None:
            lab.server.restart(action.seconds, action.starting)
        lab.expire_sessions()  # a client may have logged in again before the last connection was cut; none can after
    elif action.word == "cert-swap" and lab.server is not None:
        with tempfile.TemporaryDirectory() as folder:
            make_certificate(Path(folder))
            lab.server.show_certificate(Path(folder))
    elif action.word == "key-swap":
        for host in _hosts(lab, fired):
            lab.ssh[host.name].new_key()
    elif action.word in ON_GUESTS:
        if action.word != "guest-stuck":  # which awaits the shutdown itself
            found = guest_faults.GuestFault(action.value, fired.released)
            guest_faults.befall(lab.farm, fired.event.objects, action.word, found)
    elif action.word == "raise-alarm":
        for host in _hosts(lab, fired):
            _alarm(lab.farm, host, action.value)
    else:
        for host in _hosts(lab, fired):
            _befall(host, action.word, action.value)


def _befall(host: LabHost, word: str, value: str) -> None:
    if word == "power-loss":
        host.lose_power()
    elif word == "host-never-returns":
        host.never_returns = True
    elif word == "gpu-missing":
        host.missing_at_boot.add(value)


def _alarm(farm: Farm, host: LabHost, name: str) -> None:
    with farm.store.lock:
        moid = next(m for m, h in farm.hosts.items() if h is host)
        alarms.raise_alarm(farm, farm.store.objects[moid], name)


def _hosts(lab: FaultTarget, fired: Fired) -> Iterator[LabHost]:
    """Yield the hosts a rule names, else those its event is about."""
    action = fired.rule.do
    glob = action.value if WORDS[action.word].value == "host" else ""
    for host in lab.farm.hosts.values():
        if fnmatchcase(host.name, glob) if glob else host.name in fired.event.hosts:
            yield host
