"""Lines of NCCL's own log (NCCL_DEBUG=INFO) that say which transports a run used."""

from __future__ import annotations

import re

from vsphere_ai.benchmarks.nccl.nccl_run import NcclRun

MAX_NOTES, MAX_TEXT = 20, 200
"""Lines that are kept of a kind, and characters of each."""

_CHANNEL = re.compile(r"\bvia (P2P|SHM|NET/[\w.-]+)(?:/[\w.-]*)*")
_USING = re.compile(r"\b(NET/[\w.-]+) ?: Using (.*)")
_NETWORK = re.compile(r"Using network (\S+)")
_GPUDIRECT = re.compile(r"GPU Direct RDMA (Enabled|Disabled)")
_FAILURE = re.compile(r"Test (?:NCCL|CUDA|MPI) failure|Test failure")


def read_log(run: NcclRun, text: str) -> None:
    """Add what a line of the log says to a run; other lines change nothing."""
    seen = run.transport
    if channel := _CHANNEL.search(text):
        name = f"{channel[1]}/GDRDMA" if "GDRDMA" in channel[0] and channel[1].startswith("NET/") else channel[1]
        seen.channels[name if name in seen.channels or len(seen.channels) < MAX_NOTES else "others"] += 1
    elif using := _USING.search(text):
        _keep(seen.networks, f"{using[1]}: {using[2].strip()}")
    elif "NET/IB : No device found" in text:
        seen.no_rdma_device = True
    elif network_name := _NETWORK.search(text):
        _keep(seen.networks, f"NET/{network_name[1]}: in use")
    elif gpudirect := _GPUDIRECT.search(text):
        seen.gpudirect[gpudirect[1]] += 1
    elif "NCCL WARN" in text:
        _keep(run.warnings, text[text.index("NCCL WARN") + len("NCCL WARN") :].strip())
    elif _FAILURE.search(text):
        _keep(run.failures, text.strip())


def _keep(lines: list[str], text: str) -> None:
    if text and text[:MAX_TEXT] not in lines and len(lines) < MAX_NOTES:
        lines.append(text[:MAX_TEXT])
