"""The tables of `nvidia-smi mig`, column for column as releases 470 to 560 print them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vsphere_ai.lab.hardware.gpu import ComputeProfile, GpuInstance, LabGpu

_LGIP = (
    "| GPU instance profiles:                                                      |",
    "| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |",
    "|                              Free/Total   GiB              CE    JPEG  OFA  |",
)
_LGI = (
    "| GPU instances:                                        |",
    "| GPU   Name             Profile  Instance   Placement  |",
    "|                          ID       ID       Start:Size |",
)
_LCI = (
    "| Compute instances:                                                 |",
    "| GPU     GPU       Name             Profile   Instance   Placement  |",
    "|       Instance                       ID        ID       Start:Size |",
    "|         ID                                                         |",
)
_LCIP = (
    "| Compute instance profiles:                                                           |",
    "| GPU     GPU       Name             Profile  Instances   Exclusive       Shared       |",
    "|       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  |",
    "|         ID                                                          CE    JPEG       |",
)


def profiles(gpus: Iterable[LabGpu]) -> str:
    """Return the `-lgip` table; Free is how many more instances fit now."""
    rows = []
    for gpu in gpus:
        for p in gpu.profiles():
            e = p.engines
            free = f"{gpu.free(p)}/{p.max_instances}"
            name = f"MIG {gpu.profile_name(p)}"
            rows.append(
                f"|{gpu.index:4d}  {name:<16}{p.id:4d}     {free:<3}        {p.memory_gib:<11.2f}No     "
                f"{e['sm']:<7}{e['dec']:<6}{e['enc']:<4}|\n|{e['ce']:62d}     {e['jpeg']:<6}{e['ofa']:<4}|"
            )
    return _table(_LGIP, rows)


def placements(gpus: Iterable[LabGpu]) -> str:
    """Return the `-lgipp` lines."""
    return "".join(
        f"GPU {gpu.index:2d} Profile ID {p.id:2d} {_starts(p.starts)}:{p.size}\n"
        for gpu in gpus
        for p in gpu.profiles()
    )


def instances(found: Iterable[tuple[LabGpu, GpuInstance]]) -> str:
    """Return the `-lgi` table."""
    rows = [
        f"|{gpu.index:4d}  {'MIG ' + gpu.profile_name(i.profile):<18}{i.profile.id:4d}{i.id:9d}"
        f"{i.start:11d}:{i.profile.size:<6d}|"
        for gpu, i in found
    ]
    return _table(_LGI, rows)


def computes(found: Iterable[tuple[LabGpu, GpuInstance]]) -> str:
    """Return the `-lci` table."""
    rows = [
        f"|{gpu.index:4d}{i.id:7d}       {'MIG ' + compute_name(gpu, i, c.profile):<18}{c.profile.id:4d}{c.id:10d}"
        f"{c.start:11d}:{c.profile.slices:<6d}|"
        for gpu, i in found
        for c in i.computes
    ]
    return _table(_LCI, rows)


def compute_profiles(found: Iterable[tuple[LabGpu, GpuInstance]]) -> str:
    """Return the `-lcip` table; a star marks the profile `-cci` takes by default."""
    rows = []
    for gpu, i in found:
        e = i.profile.engines
        for c in i.compute_profiles(gpu.board):
            free = f"{i.free_computes(c)}/{c.total}"
            rows.append(
                f"|{gpu.index:4d}{i.id:7d}       {'MIG ' + compute_name(gpu, i, c):<18}{c.id:4d}"
                f"{'*' if c.default else ' '}     {free:<3}           "
                f"{c.sm:<10}{e['dec']:<6}{e['enc']:<6}{e['ofa']:<4}|\n"
                f"|{e['ce']:71d}     {e['jpeg']:<10}|"
            )
    return _table(_LCIP, rows)


def compute_placements(found: Iterable[tuple[LabGpu, GpuInstance]]) -> str:
    """Return the `-lcipp` lines."""
    return "".join(
        f"GPU {gpu.index:2d} GI {i.id:2d} Profile ID {c.id:2d} {_starts(c.starts)}:{c.slices}\n"
        for gpu, i in found
        for c in i.compute_profiles(gpu.board)
    )


def compute_name(gpu: LabGpu, instance: GpuInstance, profile: ComputeProfile) -> str:
    """Return the name of a compute instance: ``1c.3g.20gb`` for a part, ``3g.20gb`` for the whole."""
    whole = gpu.profile_name(instance.profile)
    return whole if profile.default else f"{profile.slices}c.{whole}"


def _starts(starts: Sequence[int]) -> str:
    word = "Placement :" if len(starts) == 1 else "Placements:"
    return f"{word} {{{','.join(map(str, starts))}}}"


def _table(head: tuple[str, ...], rows: list[str]) -> str:
    inner = len(head[0]) - 2
    return "\n".join(_lines(head, rows, f"+{'-' * inner}+", f"|{'=' * inner}|")) + "\n"


def _lines(head: tuple[str, ...], rows: list[str], rule: str, double: str) -> Iterator[str]:
    yield rule
    yield from head
    yield double
    for row in rows:
        yield row
        yield rule
