"""Lines of NCCL's own log (NCCL_DEBUG=INFO) that say which transports a run used."""

from __future__ import annotations

import re

from vsphere_ai.benchmarks.nccl.nccl_run import NcclRun

MAX_NOTES, MAX_TEXT = 20, 200
"""Lines that are kept of a kind, and characters of each."""

# Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA: names of networks hold blanks and semicolons
_CHANNEL = re.compile(r"\bvia (P2P|SHM|NVLS|(?:NET|COLLNET)/[^/]{1,60}|COLLNET)(/.*|\s.*)?$")
_USING = re.compile(r"\b(NET/[\w.-]+) ?: Using (.*)")
_NETWORK = re.compile(r"Using network (\S.*)")
_PROVIDER = re.compile(r"Selected provider is ([^\s,(]+)", re.IGNORECASE)  # aws-ofi-nccl
_GPUDIRECT = re.compile(r"GPU Direct RDMA (Enabled|Disabled)")
_FAILURE = re.compile(r"Test (?:NCCL |CUDA |MPI )?failure|Test timeout")


def read_log(run: NcclRun, text: str) -> None:
    """Add what a line of the log says to a run; other lines change nothing."""
    seen = run.transport
    if channel := _CHANNEL.search(text):
        name = f"{channel[1]}/GDRDMA" if channel[2] and "/GDRDMA" in channel[2] and "NET/" in channel[1] else channel[1]
        seen.channels[name if name in seen.channels or len(seen.channels) < MAX_NOTES else "others"] += 1
    elif using := _USING.search(text):
        _keep(seen.networks, f"{using[1]}: {using[2].strip()}")
    elif "NET/IB : No device found" in text:
        seen.no_rdma_device = True
    elif network := _NETWORK.search(text):
        seen.chosen = network[1].strip()[:MAX_TEXT]
    elif provider := _PROVIDER.search(text):
        seen.provider = provider[1][:MAX_TEXT]
    elif gpudirect := _GPUDIRECT.search(text):
        seen.gpudirect[gpudirect[1]] += 1
    elif "NCCL WARN" in text:
        _keep(run.warnings, text[text.index("NCCL WARN") + len("NCCL WARN") :].strip())
    elif _FAILURE.search(text):
        _keep(run.failures, text.strip())


def _keep(lines: list[str], text: str) -> None:
    if text and text[:MAX_TEXT] not in lines and len(lines) < MAX_NOTES:
        lines.append(text[:MAX_TEXT])
