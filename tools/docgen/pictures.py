"""Pictures of the screens in docs/pictures: terminals of tmux as SVG. Needs tmux and the lab; takes some minutes.

``python -m tools.docgen.pictures [NAME]...`` makes them anew. What differs from run to run (ids, ports, times of
day) is written as in the golden files of the tests.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
MISSION = "playbooks/ai-ready-cluster.yml"


def _colours(hex_values: str) -> list[tuple[int, int, int]]:
    found = (int(each, 16) for each in hex_values.split())
    return [(each >> 16, each >> 8 & 255, each & 255) for each in found]


THEME = TerminalTheme(
    (22, 27, 34),
    (225, 228, 232),
    _colours("484f58 ff7b72 56d364 e3b341 79c0ff d2a8ff 56d4dd e1e4e8"),
    _colours("8b949e ffa198 7ee787 f2cc60 a5d6ff e2c5ff b3f0ff ffffff"),
)
FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>
<g transform="translate(9, 20)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
STEADY = (
    (r"127\.0\.0\.1:\d{4,5}", "127.0.0.1:40443"),
    (r"\bPlan [0-9a-f]{8}", "Plan 0123abcd"),
    (r"\b\d{8}-\d{6}-[0-9a-f]{4}\b", "20260101-120000-0123"),
    (r"(?m)^\d\d:\d\d:\d\d ", "12:00:00 "),
)
RACK = """\
name: rack
timing: {boot_seconds: 12, task_seconds: 0.4, shutdown_seconds: 1, vmotion_seconds: 0.2}
clusters: [{name: gpu-a}, {name: gpu-b}, {name: gpu-c}, {name: gpu-d}]
switches:
  - {name: dvs-lan, port_groups: [{name: dvpg-lan}]}
  - {name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{name: dvpg-rdma, vlan: 100}]}
hosts:
HOSTS
vms:
VMS
"""
HOSTS = """\
  - name: esx[FIRST:LAST].lab.local
    cluster: CLUSTER
    nvidia_driver: 470.256.02
    gpus:
      - {pci: "0000:3b:00.0", board: a100-40gb, device_id: 20f1}
      - {pci: "0000:86:00.0", board: a100-40gb, device_id: 20f1}
    nics:
      - {name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}
      - {name: vmnic4, pci: "0000:5e:00.0", model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}
    vmkernel: [{name: vmk0, port_group: dvpg-lan}, {name: vmk2, port_group: dvpg-rdma}]
    ssh: {running: true, policy: on}
"""
VMS = '  - {name: "train-[VM:MV]", host: "esx[FIRST:LAST].lab.local", power: on, folder: ai, network: dvpg-lan}\n'
PLAYBOOK = """\
- hosts: esx*
  graphics: {default_type: shared_direct}
  mig: {mode: enabled}
  pvrdma_host: {vmknic: vmk2, firewall: true}
  rolling: {evacuate: power_off}
- vms: train-*
  hardware: {version: 19}
  vgpu: [grid_a100-1-5c]
  pvrdma: [{port_group: dvpg-rdma, protocol: rocev2}]
"""


@dataclass(frozen=True)
class Picture:
    """A screen: a command on a terminal of that size; of a run, the moment that is shown."""

    command: str
    columns: int
    lines: int
    until: str
    """A pattern of what the terminal shows at that moment."""
    then: str = ""
    """Keys that are pressed then, and another pattern, that is waited for: ``C-c stopping``."""
    rack: bool = False
    whole: bool = True
    """With what has scrolled out of the terminal."""


PLAN = f"vsphere-ai plan {MISSION}"
PICTURES: Mapping[str, Picture] = {
    "plan-120x40": Picture(PLAN, 120, 40, "Apply it with"),
    "plan-80x24": Picture(PLAN, 80, 24, "Apply it with"),
    "apply-80x24": Picture(f"vsphere-ai apply {MISSION} --yes", 80, 24, r"\[10\] wait", whole=False),
    "apply-120x40": Picture(f"vsphere-ai apply {MISSION} --yes", 120, 40, r"\[10\] wait", whole=False),
    "plan-256-120x40": Picture("vsphere-ai plan rack.yml", 120, 40, "Apply it with", rack=True),
    "plan-256-80x24": Picture("vsphere-ai plan rack.yml", 80, 24, "Apply it with", rack=True),
    "apply-256-80x24": Picture("vsphere-ai apply rack.yml --yes", 80, 24, "wait until .* of ~", rack=True, whole=False),
    "apply-256-120x40": Picture(
        "vsphere-ai apply rack.yml --yes", 120, 40, "wait until .* of ~", rack=True, whole=False
    ),
    "stopping-120x40": Picture(
        "vsphere-ai apply rack.yml --yes",
        120,
        40,
        "wait until .* of ~",
        "C-c nothing else starts",
        rack=True,
        whole=False,
    ),
}


def main(names: Sequence[str]) -> None:
    """Write these pictures, or all."""
    FOLDER.mkdir(exist_ok=True)
    wanted = {name: PICTURES[name] for name in names or PICTURES}
    for rack in (False, True):
        for name, picture in wanted.items():
            if picture.rack == rack:
                with _farm(rack=rack) as (folder, environment):
                    (FOLDER / f"{name}.svg").write_text(svg(name, picture, _captured(picture, folder, environment)))
                print(name)


def svg(name: str, picture: Picture, ansi: str) -> str:
    """Return a terminal as SVG, which loads nothing."""
    console = Console(record=True, width=picture.columns, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.from_ansi(ansi), overflow="crop", no_wrap=True, highlight=False)
    form = FORMAT.replace("{title}", f"Terminal: {escape(picture.command)}")
    return console.export_svg(theme=THEME, code_format=form, unique_id=f"p-{name}")


def rack_scenario() -> str:
    """Return a farm of 32 hosts in four clusters with 256 VMs."""
    hosts = vms = ""
    for n, cluster in enumerate("abcd"):
        own = (("FIRST", n * 8 + 1, 2), ("LAST", n * 8 + 8, 2), ("VM", n * 64 + 1, 3), ("MV", n * 64 + 64, 3))
        more = {word: f"{number:0{wide}}" for word, number, wide in own} | {"CLUSTER": f"gpu-{cluster}"}
        pattern = re.compile("|".join(more))
        hosts += pattern.sub(lambda found, more=more: more[found[0]], HOSTS)  # type: ignore[misc]
        vms += pattern.sub(lambda found, more=more: more[found[0]], VMS)  # type: ignore[misc]
    return RACK.replace("HOSTS\n", hosts).replace("VMS\n", vms)


@contextmanager
def _farm(*, rack: bool) -> Iterator[tuple[Path, dict[str, str]]]:
    """A lab of its own, in a folder with the playbooks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "VSPHERE_AI_STATE_DIR": str(folder / "state"), "COLORTERM": "", "NO_COLOR": ""}
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        for part in ("playbooks", "inventories"):
            (folder / part).symlink_to(ROOT / part)
        (folder / "rack.yml").write_text(PLAYBOOK)
        (folder / "rack-farm.yml").write_text(rack_scenario())
        more = ["--scenario", "rack-farm.yml"] if rack else []
        lab = ["vsphere-ai", "lab"]
        _run(*lab, "up", *more, cwd=folder, env=environment)
        try:
            yield folder, environment
        finally:
            _run(*lab, "down", cwd=folder, env=environment)


def _captured(picture: Picture, folder: Path, environment: Mapping[str, str]) -> str:
    socket = str(folder / "tmux")

    def tmux(*words: str) -> str:
        return _run("tmux", "-S", socket, "-f", "/dev/null", *words, cwd=folder, env=environment)

    def shows(pattern: str) -> None:
        end = time.monotonic() + 300
        while not re.search(pattern, tmux("capture-pane", "-p")):
            if time.monotonic() > end:
                raise TimeoutError(f"{pattern} was not shown:\n{tmux('capture-pane', '-p')}")
            time.sleep(0.2)

    inventory = [] if picture.rack else ["-i", "inventories/lab.yml"]
    name, sub, *rest = shlex.split(picture.command)
    command = f"trap : INT; {shlex.join([name, sub, *inventory, *rest])}; sleep 600"
    size = ["-x", str(picture.columns), "-y", str(picture.lines)]
    try:
        tmux("new-session", "-d", *size, "-c", str(folder), f"TERM=xterm-256color sh -c {shlex.quote(command)}")
        shows(picture.until)
        if picture.then:
            key, _, pattern = picture.then.partition(" ")
            tmux("send-keys", key)
            shows(pattern)
        time.sleep(1.2 if not picture.whole else 0.3)
        text = tmux("capture-pane", "-ep", *(["-S", "-"] if picture.whole else []))
    finally:
        tmux("kill-server")
    return steady(text.rstrip())


def _run(*words: str, cwd: Path, env: Mapping[str, str]) -> str:
    done = subprocess.run(words, cwd=cwd, env=env, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    return done.stdout


def steady(text: str) -> str:
    """Return a text without what differs from run to run."""
    for pattern, instead in STEADY:
        text = re.sub(pattern, instead, text)
    return text


if __name__ == "__main__":
    main(sys.argv[1:])
