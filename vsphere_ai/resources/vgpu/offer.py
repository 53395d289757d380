"""vGPU types that a host offers, now or after a plan, and what to do where it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from vsphere_ai.fabric.api_types import GraphicsInfo
from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.devices import nvidia_gpus
from vsphere_ai.gpu.smi.live import readable
from vsphere_ai.gpu.vgpus import vgpu as names
from vsphere_ai.gpu.vgpus import vgpu_mode
from vsphere_ai.gpu.vgpus.listed_board import boards_as_listed
from vsphere_ai.model.estate.kept import once
from vsphere_ai.model.estate.remedies import play_for
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.mig import Mig

SHARED_INSTANCES_ESXI, SHARED_INSTANCES_DRIVER = (9, 0, 1), 580  # time-sliced vGPUs in a GPU instance: vGPU 19


def offers(host: str, profile: str, view: View) -> bool:
    """Return whether a host offers a profile once this plan is carried out.

    The host's own list is the truth; it is predicted, GPU by GPU, only when this plan changes what decides it.
    """
    if not _is_changed(host, view):
        return profile in _listed(view.facts(host))
    parsed = parsed_name(profile)
    return parsed is not None and any(
        _gpu_offers(host, pci, listed.board, parsed, view) for pci, listed in boards_as_listed(view.facts(host)).items()
    )


def _is_changed(host: str, view: View) -> bool:
    """Return whether this plan changes what decides a host's list: graphics type, passthrough, MIG mode, a reboot."""
    if view.is_planned(host, HostGraphics.kind) or view.is_planned(host, Mig.kind):
        return True
    if any(_is_passed(host, gpu["pciId"], view) for gpu in nvidia_gpus(view.facts(host))):
        return True
    gpus = (mig.gpus if host in view.rebooting and (mig := view.get(Mig, host)) else None) or {}
    return any(g.mode != "enabled" for g in gpus.values()) and _lists_mig(
        view.facts(host)
    )  # on Hopper boards and later


def _gpu_offers(host: str, pci: str, board: Board | None, profile: names.VgpuProfile, view: View) -> bool:
    graphics, mig = view.get(HostGraphics, host), view.get(Mig, host)
    if board is None or graphics is None or (graphics.gpus or {}).get(pci) != "shared_direct":
        return False
    if _is_passed(host, pci, view):
        return False
    if profile.stem not in board.vgpu_names:
        return False
    gpu = (mig.gpus or {}).get(pci) if mig is not None else None
    mode = _shown(host, pci, view).get("vgpuMode")  # of each GPU, from vSphere 8.0 U3 on
    seen = mode == vgpu_mode.MIG if mode else _lists_mig(view.facts(host))
    divided = gpu.mode == "enabled" if gpu else seen
    listed = profile.name in _listed(view.facts(host))
    if profile.is_mig:
        return (
            divided and names.mig_profile(board, profile) is not None and (listed or not _too_old(host, profile, view))
        )
    return not divided and (listed or names.time_sliced(board, profile))


def _shown(host: str, pci: str, view: View) -> GraphicsInfo:
    """Return the entry of graphicsInfo of a GPU, as the plan leaves it; empty when it has none."""
    infos: tuple[GraphicsInfo, ...] = view.facts(host).get("config.graphicsInfo", ())
    return next((g for g in infos if g["pciId"] == pci), GraphicsInfo())


def _is_passed(host: str, pci: str, view: View) -> bool:
    """Return whether a GPU that gives vGPUs now is passed through whole by this plan."""
    graphics = view.get(HostGraphics, host)
    shares = graphics is not None and graphics.shares(pci)
    return shares and _shown(host, pci, view).get("graphicsType") == "direct"


def _too_old(host: str, profile: names.VgpuProfile, view: View) -> str:
    """Return what is too old for a time-sliced vGPU in a shared GPU instance; empty when nothing is."""
    facts = view.facts(host)
    if not any(e.board and names.share_of(e.board, profile) for e in boards_as_listed(facts).values()):
        return ""
    version = (facts.get("config.product") or {}).get("version", "")
    numbers = tuple(int(n) for n in version.split(".") if n.isdecimal())
    if numbers and numbers < SHARED_INSTANCES_ESXI:
        return f"ESXi {version}"
    drivers = [major for gpu in readable(facts).gpus if (major := gpu.driver_major) is not None]
    return f"driver R{min(drivers)}" if drivers and min(drivers) < SHARED_INSTANCES_DRIVER else ""


@once
def _listed(host: Facts) -> frozenset[str]:
    """Return the vGPU types that a host lists, lower case."""
    return frozenset(t.lower() for t in host.get("config.sharedPassthruGpuTypes", ()))


@once
def _lists_mig(host: Facts) -> bool:
    return any(p is not None and p.is_mig for p in map(parsed_name, _listed(host)))


def why_not(vm: Target, host: Target, profile: str, view: View) -> str:
    """Return what would make a host offer a profile."""
    parsed = parsed_name(profile)
    if parsed is None:
        return _meant(profile, _boards(host, view))
    listed = sorted(_listed(view.facts(host.ref)))
    planned = _is_changed(host.ref, view)
    if listed and not planned:
        right = sorted(t for t in listed if (p := parsed_name(t)) and p.ending == parsed.ending)
        return f"{f'write {right[0]}; ' if right else ''}it lists {', '.join(listed)}"
    if not nvidia_gpus(view.facts(host.ref)) and not boards_as_listed(view.facts(host.ref)):
        return f"{host.name} has no NVIDIA GPU: {_elsewhere(vm, host, profile, view)}"
    if not listed and not planned:
        return f"it lists no profiles: {play_for(host, view, 'graphics: {default_type: shared_direct}')}"
    here = list(_boards(host, view))
    if not any(parsed.stem in b.vgpu_names for b in here):
        return _misnamed(host, parsed, here)
    old = _too_old(host.ref, parsed, view)
    if old:
        needs = f"ESXi {'.'.join(map(str, SHARED_INSTANCES_ESXI))} and driver R{SHARED_INSTANCES_DRIVER} (vGPU 19)"
        return f"several vGPUs in one GPU instance need {needs}; {host.name} has {old}"
    own = [b for b in here if parsed.stem in b.vgpu_names]
    if not any(names.renamed(parsed, b) for b in own):
        return f"{own[0].title} has no such type: vsphere-ai vgpu list {own[0].key}"
    divided = "MIG mode enabled" if parsed.is_mig else "MIG mode disabled"
    how = play_for(host, view, f"mig: {{mode: {'enabled' if parsed.is_mig else 'disabled'}}}")
    return f"{profile} needs a GPU of type {parsed.board} in shared direct mode with {divided}; {how}"


def _meant(word: str, boards: Iterable[Board]) -> str:
    """Return the type that is spelled most alike, of the boards of a host."""
    known = [f"{stem}-{end.lower()}" for board in boards for stem in board.vgpu_names for end in board.types]
    near = get_close_matches(word.lower(), known, n=1)
    return f"did you mean '{near[0]}'?" if near else "a profile is spelled like grid_a100-3-20c or nvidia_h100-40c"


def _elsewhere(vm: Target, host: Target, profile: str, view: View) -> str:
    others = [h for h in view.estate.hosts_for(vm.ref) if h != host]
    offering = [h.name for h in others if offers(h.ref, profile, view)]
    fitted = offering or [h.name for h in others if nvidia_gpus(view.facts(h.ref))]
    if not fitted:
        return "no other host of its cluster has one, either"
    return f"move {vm.name} to a host that {'offers it' if offering else 'has one'}: {', '.join(fitted)}"


def _misnamed(host: Target, wanted: names.VgpuProfile, here: Sequence[Board]) -> str:
    """Say what the type is called on the GPUs of the host: vSphere names types by product, not by family."""
    for board in here:
        right = names.renamed(wanted, board)
        if right:
            title = ", ".join(p.name for p in board.products) or board.title
            return f"write {' or '.join(right)}: its GPUs are {title}"
    unnamed = [b.title for b in here if not b.vgpu_names]
    if unnamed and names.board_of(wanted) is None:
        return f"vGPU names of {unnamed[0]} are not published: apply the play for {host.name}, then it lists its own"
    known = dict.fromkeys(name for b in here for name in b.vgpu_names)
    if not known:
        return f"no GPU of {host.name} is known to have vGPU types"
    begin = " or ".join(f"{name}-" for name in known)
    return f"the types of its GPUs begin with {begin}: vsphere-ai vgpu list {next(b.key for b in here if b.vgpu_names)}"


def _boards(host: Target, view: View) -> Iterator[Board]:
    return (listed.board for listed in boards_as_listed(view.facts(host.ref)).values() if listed.board)


def parsed_name(name: str) -> names.VgpuProfile | None:
    """Return a vGPU name in its parts; None when it is none."""
    try:
        return names.parse(name)
    except names.VgpuNameError:
        return None


def _board_of(profile: names.VgpuProfile, host: Target | None, view: View) -> Board | None:
    """Return the board behind a vGPU name: the catalogue's, else the one whose names the VM's host lists."""
    listed = _boards(host, view) if host else iter(())
    return next((b for b in listed if profile.stem in b.vgpu_names), None) or names.board_of(profile)


def is_whole(name: str, host: Target | None, view: View) -> bool:
    """Return whether a profile has its board's full framebuffer; one of an unknown board counts as whole."""
    profile = parsed_name(name)
    board = _board_of(profile, host, view) if profile else None
    return profile is None or board is None or board.memory_gb is None or profile.fb_gb >= board.memory_gb
