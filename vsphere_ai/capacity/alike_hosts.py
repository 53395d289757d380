"""First fit on hosts that are kept in groups: what a placement takes does not grow with the hosts it does not try. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice

from vsphere_ai.capacity.first_fit import FirstFit, Names, Wanted
from vsphere_ai.capacity.host import Host


class AlikeHosts(FirstFit):
    """Hosts in groups, each of hosts to which the same VMs may go; the `hosts` of a `VmDemand` are groups here."""

    def __init__(self) -> None:
        self._machines: dict[str, Host] = {}
        super().__init__(self._machines)
        self._group_of: dict[str, str] = {}
        # by group and by the vGPUs of a VM (none: any VM) the hosts on which it could power on now, by name
        self._able: dict[str, dict[tuple[str, ...], list[str]]] = defaultdict(lambda: {(): []})

    def put(self, name: str, group: str, host: Host) -> None:
        """Put a host into a group, or another state of it in the place of the one before."""
        self.take_out(name)
        self._machines[name], self._group_of[name] = host, group
        for profiles, names in self._able[group].items():
            if host.power_on(profiles, host.states) is not None:
                insort(names, name)

    def take_out(self, name: str) -> None:
        """Let no VM go to a host."""
        self._open.clear()
        group = self._group_of.pop(name, None)
        for names in self._able[group].values() if group is not None else ():
            at = bisect_left(names, name)
            if names[at : at + 1] == [name]:
                del names[at]

    def groups(self) -> Iterator[tuple[str, str]]:
        """Yield the groups, each with one of its hosts."""
        yield from ((group, by[()][0]) for group, by in self._able.items() if by[()])

    def _with_room(self, wanted: Wanted) -> Names:
        found = [self._of_group(group, wanted[0]) for group in wanted[1] if wanted[0]]
        return found[0] if len(found) == 1 else _Merged(found)

    def _of_group(self, group: str, profiles: tuple[str, ...]) -> list[str]:
        known = self._able[group]
        if profiles not in known:
            hosts = ((n, self._machines[n]) for n in known[()])
            known[profiles] = [n for n, host in hosts if host.power_on(profiles, host.states) is not None]
        return known[profiles]


class _Merged:
    """Sorted names of several lists in order, as far as they are asked for."""

    def __init__(self, lists: Sequence[Sequence[str]]) -> None:
        self._length, self._rest, self._known = sum(map(len, lists)), merge(*lists), list[str]()

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, at: int, /) -> str:
        self._known += islice(self._rest, max(0, at + 1 - len(self._known)))
        return self._known[at]
