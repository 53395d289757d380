"""Writes the documentation page of the GPU boards: ``python -m tools.docgen.catalogue > docs/catalogue.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from vsphere_ai.app.project.explanations.boards import mode_text, names_text, size_text
from vsphere_ai.gpu.catalog import NO_PLACEMENTS, Board, Profile, boards
from vsphere_ai.gpu.mig import search
from vsphere_ai.model.dated_table import dated_tables

HEAD = """\
# GPU boards

What the tool knows of GPU boards: their MIG profiles, where an instance of each may start, and the vGPU types vSphere
offers. `vsphere-ai mig layouts BOARD` prints the same with every layout that fills the board.

- **id** is what `nvidia-smi mig -cgi` takes. It means something only together with the board: 14 is 2g on an A100 and
  1g on an A30.
- **slices** are compute slices and memory slices; two instances never share a memory slice.
- **starts** are the memory slices an instance may begin at; **most** is how many of it a GPU holds.
- **engines** are SM, decoder, JPEG and OFA as `nvidia-smi mig -lgip` counts them. A profile with `+me` takes the media
  engines that are there once per GPU: at most one `+me` instance fits. `+me.all` takes all of them: beside it only
  `-me` profiles stand.
- **vGPU type** is the MIG-backed C-series type, to be read behind a name such as `grid_a100-`, which names the product.
  `vsphere-ai vgpu list BOARD` shows every type by product; vSphere's own list of a host is what counts.
- Time-sliced types are given with their maximum per GPU: all of one size / mixed sizes (vSphere 8.0 U3 and later).

What a host lists itself (`nvidia-smi mig -lgip`, `-lgipp`) wins over this page; a plan says where they differ.

Sources: NVIDIA Multi-Instance GPU User Guide; NVIDIA AI Enterprise User Guide, appendix "Virtual GPU Types"; the device
lists of github.com/NVIDIA/mig-parted; github.com/NVIDIA/gpu-operator, commit a22dbf671 (vGPU types and their counts,
read {types}); the PCI ID repository; published listings of real GPUs, all as of {boards}. Boards
marked *by analogy* have ids or starts of their closest relative, because NVIDIA publishes none. `vsphere-ai doctor`
shows the age of each table.

This page is generated from the data: `python -m tools.docgen.catalogue > docs/catalogue.md`.
"""


def page() -> str:
    """Return the page in Markdown."""
    with_mig = [b for b in boards() if b.mig_capable]
    without = [b for b in boards() if not b.mig_capable]
    read = {table.file: table.read.isoformat() for table in dated_tables()}
    head = HEAD.format(types=read["gpu/vgpu_types.yaml"], boards=read["gpu/boards.yaml"])
    parts = [head, *_index(with_mig), ""]
    parts += ["\n".join(_section(board)) for board in with_mig]
    parts += ["## Boards without MIG\n", *_without_mig(without)]
    return "\n".join(parts).rstrip() + "\n"


def _index(with_mig: list[Board]) -> Iterator[str]:
    yield "| board | GPUs | PCI device ids | driver from | layouts that fill it |"
    yield "|---|---|---|---|---|"
    for board in with_mig:
        full = "not published" if board.named_profiles else _full(board)
        trust = "" if board.verified else " (by analogy)"
        driver = f"R{board.min_driver}" if board.min_driver else "not published"
        yield f"| [`{board.key}`](#{board.key}) | {board.title}{trust} | {_ids(board)} | {driver} | {full} |"


def _full(board: Board) -> str:
    return str(len(search.full_layouts(board, search.plain_profiles(board))))


def _section(board: Board) -> Iterator[str]:
    yield f"## {board.key}\n"
    if board.named_profiles:
        names = ", ".join(f"`{name}`" for name in board.named_profiles)
        yield f"{board.title}. {board.compute_slices} compute slices. NVIDIA publishes the names of its profiles only:"
        yield f"{names};\n{NO_PLACEMENTS}.\n"
        yield f"{mode_text(board)}\n"
        return
    trust = "" if board.verified else " Ids or starts by analogy: check `nvidia-smi mig -lgip` on the host."
    yield f"{board.title}. {board.compute_slices} compute slices, {board.memory_slices} memory slices.{trust}\n"
    yield f"{mode_text(board)}\n"
    yield "| profile | id | slices | starts | most | SM, DEC, JPEG, OFA | vGPU type | driver from |"
    yield "|---|---|---|---|---|---|---|---|"
    for profile in board.profiles:
        yield _row(profile)
    sizes = ", ".join(size_text(t) for t in board.time_sliced)
    yield f"\nvGPU names: {names_text(board)}. Time-sliced: {sizes or 'not published'}.\n"


def _row(p: Profile) -> str:
    names = " or ".join(f"`{n}`" for n in (p.name, *p.aliases))
    starts = ", ".join(str(s) for s in p.starts)
    engines = ", ".join(
        "?" if e is None else str(e) for e in (p.engines.sm, p.engines.dec, p.engines.jpeg, p.engines.ofa)
    )
    driver = f"R{p.min_driver}" if p.min_driver else ""
    cells = (names, p.id, f"{p.compute_slices}, {p.memory_slices}", starts, p.max_instances, engines,
             p.vgpu_suffix or "", driver)  # fmt: skip
    return "| " + " | ".join(str(c) for c in cells) + " |"


def _without_mig(without: list[Board]) -> Iterator[str]:
    yield "| board | GPUs | PCI device ids | vGPU names | time-sliced C-series |"
    yield "|---|---|---|---|---|"
    for board in without:
        sizes = ", ".join(size_text(t) for t in board.time_sliced)
        yield f"| `{board.key}` | {board.title} | {_ids(board)} | {names_text(board)} | {sizes} |"


def _ids(board: Board) -> str:
    return ", ".join(f"{number:04x}" for number in board.device_ids)


def main() -> None:
    """Write the page to standard output."""
    sys.stdout.write(page())


if __name__ == "__main__":
    main()
