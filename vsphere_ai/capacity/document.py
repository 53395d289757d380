"""Document of `capacity` as plain JSON values: per GPU what runs and what fits, and the verdict on a playbook. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vsphere_ai.capacity.fragmentation import ProfileRoom, fragmentation
from vsphere_ai.capacity.gpu import GpuSlot, Takes, most
from vsphere_ai.capacity.solve import Answer, Fit, Undecided
from vsphere_ai.gpu.drawing import draw
from vsphere_ai.gpu.search import Instance
from vsphere_ai.gpu.vgpu import Share, VgpuProfile
from vsphere_ai.model.state import Problem, Target


def gpu_document(slot: GpuSlot, names: Mapping[str, str]) -> dict[str, Any]:
    """Return one GPU; `names` maps references of VMs to their names."""
    document = {
        "pci": slot.pci,
        "board": slot.board.key,
        "title": slot.board.title,
        "mode": slot.mode,
        "sizes": "mixed" if slot.kind.mixed else "equal",
        "running": [{"vm": names.get(r.vm, r.vm), "profile": r.profile} for r in slot.running],
        "room": {name: most(slot.kind, slot.state, name) for name in _profiles(slot)},
    }
    if slot.mode == "mig":
        document.update(_slices(slot))
    return document


def _slices(slot: GpuSlot) -> dict[str, Any]:
    found = fragmentation(slot.board, slot.present, driver_major=slot.driver_major)
    gained = [_moved(r) for r in found.profiles if r.move]
    return {
        "slices": slot.board.memory_slices,
        "picture": list(draw(slot.board, slot.present)),
        "placement_known": not slot.guessed,
        "instances": [_instance(i) for i in slot.present],
        "free_slices": list(found.free),
        "stranded_slices": list(found.stranded),
        "defragment": gained,
    }


def _moved(room: ProfileRoom) -> dict[str, object]:
    move = [_instance(i) for i in room.move]
    return {"profile": room.profile, "now": room.now, "after": room.after, "move_for_one_more": move}


def _instance(instance: Instance) -> dict[str, object]:
    return {"profile": instance.profile_name, "start": instance.start, "in_use": instance.in_use}


def _profiles(slot: GpuSlot) -> list[str]:
    """Return the profile names a GPU takes in its mode, the largest first: the host's own, else the catalogue's."""
    board = slot.board
    if slot.offered is not None:
        names: Iterable[str] = slot.offered
    else:
        stem = (slot.spellings or board.vgpu_names or ("",))[0]
        backed = [p.vgpu_suffix for p in board.profiles if p.vgpu_suffix]
        sizes = [*backed, *(f"{t.fb_gb}C" for t in board.time_sliced), *(n for n in board.types if n.endswith("C"))]
        names = (f"{stem}-{size.lower()}" for size in dict.fromkeys(sizes))

    taken = {n: takes for n in names if (takes := slot.kind.takes(n)) is not None}

    def size(takes: Takes) -> tuple[int, ...]:
        if isinstance(takes, VgpuProfile):
            return (-takes.fb_gb,)
        profile, part = (takes.profile, -takes.fb_gb) if isinstance(takes, Share) else (takes, -board.memory_gb)
        return -profile.memory_slices, -profile.compute_slices, part

    return sorted(taken, key=lambda n: (size(taken[n]), n))


@dataclass(frozen=True)
class Verdict:
    """How a playbook's VMs fare: at home when none has to change its host; `homes` maps VM to its present host.

    Where they fit only once VMs are on other hosts, the plan is refused, and its problems say which VM and which host.
    """

    answer: Answer
    at_home: bool
    targets: Mapping[str, Target]
    homes: Mapping[str, str]
    spare_hosts: int = 0
    problems: tuple[Problem, ...] = ()
    """What stands against the plan of the playbook."""

    @property
    def fits(self) -> bool:
        """Return whether every VM can power on where it is registered."""
        return isinstance(self.answer, Fit) and self.at_home

    @property
    def refused(self) -> bool:
        """Return whether the VMs do not fit, or the plan of the playbook is refused."""
        return not self.fits or bool(self.problems)

    def document(self) -> dict[str, Any]:
        """Return the verdict as plain values."""
        answer, decided = self.answer, not isinstance(self.answer, Undecided)
        problems = [
            {"target": p.target.name, "rule": p.rule, "message": p.message, "help": p.help} for p in self.problems
        ]
        common = {
            "fits": self.fits,
            "exact": answer.exact,
            "decided": decided,
            "spare_hosts": self.spare_hosts,
            "problems": problems,
        }
        if not isinstance(answer, Fit):
            left = sorted(self.targets[ref].name for ref in answer.vms)
            return {**common, "explanation": answer.explanation, "left_over": left, "room": dict(answer.room)}
        return {**common, "warnings": list(answer.warnings), "power_on_order": self._places(answer)}

    def _places(self, fit: Fit) -> Sequence[Mapping[str, object]]:
        return [
            {
                "vm": self.targets[ref].name,
                "host": host,
                "registered_on": self.homes[ref],
                "vgpus": [{"gpu": p.gpu, "profile": p.profile, "start": p.start} for p in places],
            }
            for ref, (host, places) in fit.assignment.items()
        ]
