"""Replays transcripts of real nvidia-smi binaries against the model, byte for byte."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from vsphere_ai.lab.hardware import parts
from vsphere_ai.lab.hardware.gpu import LabGpu, Nvml
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.ledger import Ledger
from vsphere_ai.lab.shell.run import run_line

FIXTURES = Path(__file__).parent / "fixtures_hw"
BUSES = ("07", "0f", "47", "4e", "87", "90", "b7", "bd")
MIG_UUID = re.compile(r"MIG-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Exchange:
    section: str
    command: str
    output: str
    status: int


def read(path: Path) -> list[Exchange]:
    found, section, command, output = [], "", None, []
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith("$ "):
            command, output = line[2:].rstrip("\n"), []
        elif line.startswith("[exit code ") and command is not None:
            found.append(Exchange(section, command, "".join(output), int(line.strip()[11:-1])))
            command = None
        elif command is not None:
            output.append(line)
        elif line.startswith("# "):
            section = line[2:].strip()
    return found


def machine(board: str, driver: str, count: int = 8) -> LabHost:
    gpus = [LabGpu.of(n, f"0000:{bus}:00.0", board) for n, bus in enumerate(BUSES[:count])]
    for gpu in gpus:
        gpu.resettable = True
        gpu.uuid = f"GPU-12345678-1234-1234-1234-12345678000{gpu.index}"
    return LabHost("dgx", Ledger(), gpus=gpus, vibs=[parts.driver_vib(driver)])


def replay(host: LabHost, exchanges: list[Exchange], prepare: Callable[[LabHost, Exchange], None]) -> int:
    for exchange in exchanges:
        prepare(host, exchange)
        line = re.sub(r"-cgi (MIG \S+)", r'-cgi "\1"', exchange.command)
        result = run_line(host, line)
        given = MIG_UUID.sub("MIG-UUID", result.stdout)
        assert (given, result.status) == (MIG_UUID.sub("MIG-UUID", exchange.output), exchange.status), exchange.command
        assert result.stderr == ""
    return len(exchanges)


def empty(*gpus: LabGpu) -> None:
    for gpu in gpus:
        gpu.instances.clear()
        gpu.mig_current = gpu.mig_pending = True


def carve(gpu: LabGpu, *tokens: str) -> None:
    empty(gpu)
    for token in tokens:
        name, _, start = token.partition(":")
        profile = gpu.profile(name)
        assert profile is not None
        made = gpu.create(profile, int(start))
        made.create_compute(made.compute_profiles(gpu.board)[-1])


STARTS_EMPTY = ("19,14,9,5,5,2", "19,19,14,9", "9,19,14,19", "19:0,19:1", "9:4,9:4", "MIG 3g.20gb,2g")


def prepare_a100(host: LabHost, at: Exchange) -> None:
    """Put the GPUs into the state the transcript's section heading tells of."""
    gpu, second, third, fifth = host.gpus[0], host.gpus[1], host.gpus[2], host.gpus[4]
    section = at.section
    if at.command == "nvidia-smi mig -lgi" and section.startswith("--- MIG disabled"):
        second.clients.add("dcgm")
        third.resettable = False
        fifth.faults["mig"] = Nvml.NO_PERMISSION
    elif any(f"-cgi {text}" in at.command for text in STARTS_EMPTY):
        empty(gpu)
    elif section.startswith("--- sub-divided") and at.command.endswith("0,0,0 -gi 1"):
        carve(gpu, "9:0")
        gpu.instances[0].computes.clear()
    elif section.startswith("--- no -i") and at.command.endswith("9,14 -C"):
        second.clients.clear()
        empty(gpu, second)
    elif section.startswith("--- disable") and at.command.endswith("-mig 0"):
        gpu.instances.clear()
        if gpu.mig_pending:
            carve(gpu, "9:4")
    elif section.startswith("--- NVML NO_PERMISSION"):
        empty(gpu)
        gpu.faults["create"] = Nvml.NO_PERMISSION
    elif section.startswith("--- -L"):
        gpu.faults.clear()
        carve(gpu, "9:4", "14:0", "19:2")
        empty(*host.gpus[1:])


@pytest.mark.parametrize("driver", ["470.256.02", "535.261.03", "550.163.01"])
def test_a100_40_session(driver):
    exchanges = read(FIXTURES / f"session-a100-40gb.{driver}.txt")
    assert replay(machine("a100-40gb", driver), exchanges, prepare_a100) > 60


OTHER_BOARDS = {"a100_80": "a100-80gb", "a30": "a30-24gb", "h100": "h100-80gb-sxm"}


@pytest.mark.parametrize(
    "path", sorted(p for p in FIXTURES.glob("session-*.txt") if "a100-40gb" not in p.name), ids=lambda p: p.name
)
def test_session_of_other_boards(path):
    model, driver = path.name.removeprefix("session-").removesuffix(".txt").split(".", 1)
    board = OTHER_BOARDS[model]
    host = machine(board, driver, count=1)
    empty(host.gpus[0])

    def prepare(host: LabHost, at: Exchange) -> None:
        if at.command.endswith("19,14,9,5,5,2 -C"):
            empty(host.gpus[0])

    assert replay(host, read(path), prepare) == 9


@pytest.mark.parametrize("driver", ["470.256.02", "535.261.03", "550.163.01"])
def test_argument_parsing_is_the_same_in_all_releases(driver):
    host = machine("a100-40gb", driver, count=1)
    exchanges = read(FIXTURES / "argument-parsing.550.163.01.txt")
    assert replay(host, exchanges, lambda host, at: empty(host.gpus[0])) == 15


def test_edge_cases():
    host = machine("a100-40gb", "550.163.01", count=2)
    empty(host.gpus[0])

    def prepare(host: LabHost, at: Exchange) -> None:
        if "5:0" in at.command:
            empty(host.gpus[int(at.command.split("-i ")[1][0])])

    assert replay(host, read(FIXTURES / "edge-cases.550.163.01.txt"), prepare) == 13
