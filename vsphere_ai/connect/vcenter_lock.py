"""Advisory lock in vCenter: a folder that only one run can create, which names its holder and expires by itself.

Below the root folder is a folder `HOME`, which stays; an administrator may create it and give rights there only. A
lock is the folder `NAME` in it: vCenter creates a name once (`DuplicateName`). The names of the folders inside it
are its fields: the holder, its start by vCenter's clock, and the periods ``0``, ``1``, … it was renewed for. Period
``0`` makes it complete. A lock expires `GRACE` periods after the start of its latest one. Its holder renews it by
creating the next period; a run that takes over an expired lock creates the same name first. So only one of them
succeeds, however late either of them is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from vsphere_ai.errors import OutcomeUnknown, StepFailed, VimFault
from vsphere_ai.model.facts import Facts

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter

HOME, NAME = "vsphere-ai locks", "lock"
PERIOD = 600.0
"""Seconds for which one renewal is good."""
GRACE = 3
"""Periods after which a lock that is not renewed expires: two renewals may fail."""
MAKING = 1.0
"""Seconds a lock may stay incomplete; its maker needs a few calls."""
DESTROYING = 60.0
MOST_ATTEMPTS = 20
LONGEST_NAME = 80
"""Characters vCenter takes for a name, counted as it stores it: with ``/``, ``\\`` and ``%`` escaped."""
_SINCE = re.compile(r"since (\d{8}T\d{6}Z), renewed every (\d{1,5}(?:\.\d+)?) s, process (\d{1,9})")
_PERIOD = re.compile(r"[0-9]{1,9}")
_TIME = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class LockHolder:
    """Who holds a lock; empty where the lock does not say so (yet). `since` is vCenter's time."""

    user: str = ""
    machine: str = ""
    pid: int = 0
    run: str = ""
    since: datetime | None = None


@dataclass(frozen=True)
class LockFound:
    """A lock as it was seen. `period` is the latest one, -1 for a lock that is not complete; `every` is in seconds."""

    ref: str
    holder: LockHolder
    period: int
    every: float

    @property
    def expires(self) -> datetime | None:
        """When it expires, by vCenter's clock; None when that is not known, because it was never completed."""
        if self.period < 0 or self.holder.since is None:
            return None
        try:
            return self.holder.since + timedelta(seconds=(self.period + GRACE) * self.every)
        except OverflowError:  # a name that no run has written
            return None

    def expired(self, now: datetime) -> bool:
        """Return whether it may be taken over."""
        return self.expires is None or now >= self.expires


class Busy(Exception):
    """Another run holds the lock."""

    def __init__(self, found: LockFound) -> None:
        super().__init__(found.ref)
        self.found = found


class LockTakenOver(Exception):
    """The lock was taken over, or removed by hand."""


class _Taken(FileExistsError):
    """The name exists already."""


class VCenterLock:
    """A lock we hold, made by `acquire`."""

    def __init__(self, vcenter: VCenter, ref: str, since: datetime, every: float) -> None:
        self.vcenter, self.ref, self.since, self.every = vcenter, ref, since, every
        self.period = 0
        self._unsure = False

    @property
    def expires(self) -> datetime:
        """When it expires unless it is renewed, by vCenter's clock."""
        return self.since + timedelta(seconds=(self.period + GRACE) * self.every)

    def remark(self, run: str) -> None:
        """Say in the lock which run it serves."""
        _write(self.vcenter, self.ref, f"run {run}")

    def renew(self) -> datetime:
        """Bring it up to the present period, and return vCenter's time. Raises `LockTakenOver`; else: try again."""
        now = self.vcenter.now()
        while self.period < (now - self.since).total_seconds() // self.every:
            in_time = now < self.expires
            try:
                _create(self.vcenter, self.ref, str(self.period + 1))
            except _Taken:
                # ours, if an answer was lost before: no other run may create it before the lock has expired
                if not (self._unsure and in_time):
                    raise LockTakenOver from None
            except OutcomeUnknown:
                self._unsure = True
                raise
            except VimFault as error:
                raise (LockTakenOver if error.fault == "ManagedObjectNotFound" else error) from error
            self._unsure = False
            self.period += 1
        return now

    def release(self) -> None:
        """Remove it."""
        remove(self.vcenter, self.ref)


def find(vcenter: VCenter) -> LockFound | None:
    """Return the lock there is, after giving one that is just being made the time to be completed."""
    end = time.monotonic() + MAKING
    found = _look(vcenter)
    while found is not None and found.period < 0 and time.monotonic() < end:
        time.sleep(MAKING / 8)
        ref, found = found.ref, _look(vcenter)
        if found is not None and found.ref != ref:
            end = time.monotonic() + MAKING
    return found


def is_among(objects: Mapping[str, Facts]) -> bool:
    """Return whether there is a lock among objects of which name and parent were read, all folders included."""
    named = {(f.get("name"), f.get("parent")): f.ref for f in objects.values() if f.ref.startswith("Folder:")}
    return any(name == HOME and (NAME, ref) in named for (name, _), ref in named.items())


def acquire(
    vcenter: VCenter,
    holder: LockHolder,
    *,
    dead: Collection[str] = (),
    every: float = PERIOD,
    announce: Callable[[str], None],
) -> VCenterLock:
    """Take the lock; `Busy` when another run has it. Locks in `dead` are known to have lost their holders.

    `announce` is called with the reference of the lock as soon as it is there, before it is complete.
    """
    home = home_of(vcenter)
    for _ in range(MOST_ATTEMPTS):
        try:
            ref = _create(vcenter, home, NAME)
        except (_Taken, OutcomeUnknown):
            found = find(vcenter)
            if found is not None:
                if not (found.ref in dead or found.expired(vcenter.now())):
                    raise Busy(found) from None
                _take_over(vcenter, found)
            continue
        announce(ref)
        lock = _complete(vcenter, ref, holder, every)
        if lock is not None:
            return lock
    raise StepFailed(
        f"the folder '{NAME}' in '{HOME}' can neither be created nor used as a lock", "look at it in the vSphere Client"
    )


def remove(vcenter: VCenter, ref: str) -> bool:
    """Destroy a lock; False when it was gone. `StepFailed` when another user has put something into it."""
    return destroy_folder(vcenter, ref, NAME)


def destroy_folder(vcenter: VCenter, ref: str, name: str) -> bool:
    """Destroy a folder in `HOME`; False when it was gone. `StepFailed` when more than empty folders are in it."""
    inside = children_of(vcenter, ref)
    if any(not r.startswith("Folder:") or facts.get("childEntity") for r, facts in inside.items()):
        # destroying a folder destroys what is in it: hosts and VMs as well
        raise StepFailed(f"the folder '{name}' in '{HOME}' has something in it that is not ours", "move it elsewhere")
    try:
        vcenter.run_task(ref, "Destroy_Task", timeout=DESTROYING)
    except VimFault as error:
        if error.fault == "ManagedObjectNotFound":
            return False
        raise
    except OutcomeUnknown:
        if vcenter.read_objects([ref], {"Folder": ("name",)}):
            raise
    return True


def place(vcenter: VCenter) -> tuple[str, str]:
    """Return name and reference of the folder an account needs rights on: `HOME`, or the root before there is one."""
    root = root_of(vcenter)
    home = child_of(vcenter, root, HOME)
    return (HOME, home) if home else ("the root folder", root)


def _complete(vcenter: VCenter, ref: str, holder: LockHolder, every: float) -> VCenterLock | None:
    """Write the holder into a new lock, then complete it; None when another run took it for an abandoned one."""
    since = vcenter.now().replace(microsecond=0)
    try:
        _write(vcenter, ref, f"since {since:{_TIME}}, renewed every {every:g} s, process {holder.pid}")
        _write(vcenter, ref, f"by {holder.user}@{holder.machine}")
        _write(vcenter, ref, f"for {holder.run}")
        _create(vcenter, ref, "0")
    except (_Taken, OutcomeUnknown):
        remove(vcenter, ref)
        return None
    except VimFault as error:
        if error.fault == "ManagedObjectNotFound":
            return None
        raise
    return VCenterLock(vcenter, ref, since, every)


def _take_over(vcenter: VCenter, found: LockFound) -> None:
    try:
        _create(vcenter, found.ref, str(found.period + 1))
    except (_Taken, OutcomeUnknown):
        return  # its holder, or another run, was first
    except VimFault as error:
        if error.fault != "ManagedObjectNotFound":
            raise
        return
    remove(vcenter, found.ref)


def _look(vcenter: VCenter) -> LockFound | None:
    home = child_of(vcenter, root_of(vcenter), HOME)
    ref = child_of(vcenter, home, NAME) if home else None
    if ref is None:
        return None
    names = [str(facts.get("name") or "") for facts in children_of(vcenter, ref).values()]
    fields = {word: rest for word, _, rest in (n.partition(" ") for n in names)}
    begun = next((m for m in map(_SINCE.fullmatch, names) if m), None)
    user, _, machine = fields.get("by", "").rpartition("@")
    holder = LockHolder(
        user=user,
        machine=machine,
        pid=int(begun[3]) if begun else 0,
        run=fields.get("run") or fields.get("for", ""),
        since=_moment(begun[1]) if begun else None,
    )
    period = max((int(n) for n in names if _PERIOD.fullmatch(n)), default=-1)
    return LockFound(ref, holder, period, float(begun[2]) if begun else PERIOD)


def _moment(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def home_of(vcenter: VCenter) -> str:
    """Return the folder `HOME`, which is made where it is not there."""
    root = root_of(vcenter)
    found = child_of(vcenter, root, HOME)
    if found is not None:
        return found
    _write(vcenter, root, HOME)
    found = child_of(vcenter, root, HOME)
    if found is None:
        raise StepFailed(f"the folder '{HOME}' was created and cannot be seen", "the account needs System.View on it")
    return found


def root_of(vcenter: VCenter) -> str:
    """Return the root folder of the inventory."""
    return str(vcenter.service("rootFolder"))


def child_of(vcenter: VCenter, parent: str, name: str) -> str | None:
    """Return what has this name in a folder; None where nothing has."""
    found = vcenter.call(str(vcenter.service("searchIndex")), "FindChild", {"entity": parent, "name": name})
    return str(found) if found else None


def children_of(vcenter: VCenter, ref: str) -> dict[str, Facts]:
    """Return what is in a folder, by reference."""
    whole = vcenter.read_objects([ref], {"Folder": ("childEntity",)}).get(ref)
    refs = [str(r) for r in (whole.get("childEntity") if whole else None) or ()]
    return vcenter.read_objects(refs, {"ManagedEntity": ("name",), "Folder": ("childEntity",)})


def _write(vcenter: VCenter, parent: str, name: str) -> None:
    """Create a folder whose name is a field of the lock; it may exist already, so it may be sent again."""
    for last in (False, True):
        try:
            _create(vcenter, parent, name)
        except _Taken:
            return
        except OutcomeUnknown:
            if last:
                raise
        else:
            return


def create_folder(vcenter: VCenter, parent: str, name: str) -> str:
    """Create a folder; `FileExistsError` when something has its name."""
    return _create(vcenter, parent, name)


def _create(vcenter: VCenter, parent: str, name: str) -> str:
    try:
        return str(vcenter.call(parent, "CreateFolder", {"name": _escaped(name)}))
    except VimFault as error:
        raise (_Taken if error.fault == "DuplicateName" else error) from error


def _escaped(name: str) -> str:
    """Escape what vCenter keeps escaped in names, and cut what is too long for it."""
    pieces = [{"%": "%25", "/": "%2f", "\\": "%5c"}.get(c, c) for c in name]
    while sum(map(len, pieces)) > LONGEST_NAME:
        pieces.pop()
    return "".join(pieces)
