"""Checks of nvidia-smi listings against each other: contradictory answers are not planned on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise

from vsphere_ai.gpu.smi.listings import (
    GpuStatus,
    ListedComputeInstance,
    ListedInstance,
    ListedProfile,
    UnreadableOutput,
)

REMEDY = "the answers may be from different moments: plan again; if it stays, compare -lgi and -lci on the host"


def check(
    gpus: Sequence[GpuStatus],
    instances: Sequence[ListedInstance],
    compute: Sequence[ListedComputeInstance],
    profiles: Sequence[ListedProfile] = (),
) -> None:
    """Raise `UnreadableOutput` when the listings of one host contradict each other; the message says where."""
    for found in (
        *_twice(gpus, instances, compute),
        *_unknown_gpus(gpus, instances, compute),
        *_modes(gpus, instances),
        *_overlaps(instances, compute),
        *_orphans(instances, compute),
        *_totals(instances, profiles),
    ):
        raise UnreadableOutput(f"nvidia-smi contradicts itself: {found}", REMEDY)


def _unknown_gpus(
    gpus: Sequence[GpuStatus], instances: Iterable[ListedInstance], compute: Iterable[ListedComputeInstance]
) -> Iterator[str]:
    listed = {g.index for g in gpus}
    for index in sorted({i.gpu for i in instances} | {c.gpu for c in compute}):
        if index in listed:
            continue
        yield f"it lists instances of GPU {index}, which it does not list itself"


def _twice(
    gpus: Iterable[GpuStatus], instances: Iterable[ListedInstance], compute: Iterable[ListedComputeInstance]
) -> Iterator[str]:
    names: list[Hashable] = [f"GPU {g.index}" for g in gpus if g.index is not None]
    names += [f"GPU at {g.pci}" for g in gpus]
    names += [f"GPU instance {i.gi_id} of GPU {i.gpu}" for i in instances]
    names += [f"compute instance {c.ci_id} of GPU instance {c.gi_id} of GPU {c.gpu}" for c in compute]
    for name, times in Counter(names).items():
        if times > 1:
            yield f"{name} is listed {'twice' if times == 2 else f'{times} times'}"


def _modes(gpus: Iterable[GpuStatus], instances: Iterable[ListedInstance]) -> Iterator[str]:
    having = {i.gpu for i in instances}
    for gpu in gpus:
        if gpu.index in having and not gpu.mig_current and not gpu.fault:
            yield f"it lists GPU instances of GPU {gpu.index}, whose MIG mode is off"


def _overlaps(instances: Iterable[ListedInstance], compute: Iterable[ListedComputeInstance]) -> Iterator[str]:
    places: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for one in instances:
        places[f"GPU {one.gpu}"].append((one.start, one.size, f"GPU instance {one.gi_id}"))
    for each in compute:
        if each.start is not None and each.size is not None:
            inside = f"GPU instance {each.gi_id} of GPU {each.gpu}"
            places[inside].append((each.start, each.size, f"compute instance {each.ci_id}"))
    for where, own in places.items():
        for (start, size, name), (later, _, other) in pairwise(sorted(own)):
            if later < start + size:
                yield f"{name} and {other} of {where} stand on the same slice {later}"


def _orphans(instances: Iterable[ListedInstance], compute: Iterable[ListedComputeInstance]) -> Iterator[str]:
    known = {(i.gpu, i.gi_id) for i in instances}
    for each in compute:
        if (each.gpu, each.gi_id) not in known:
            inside = f"GPU instance {each.gi_id}, which is not listed"
            yield f"compute instance {each.ci_id} of GPU {each.gpu} is in {inside}"


def _totals(instances: Iterable[ListedInstance], profiles: Iterable[ListedProfile]) -> Iterator[str]:
    standing = Counter((i.gpu, i.profile_id) for i in instances)
    for profile in profiles:
        there = standing[profile.gpu, profile.id]
        if there + profile.free > profile.total:
            yield (
                f"GPU {profile.gpu} holds {there} of {profile.name} with room for {profile.free} more, "
                f"of {profile.total} in all"
            )
