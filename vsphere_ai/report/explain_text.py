"""Explanations of topics as text of at most 80 columns, and as JSON values."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches

from pydantic import JsonValue

from vsphere_ai.errors import UsageError
from vsphere_ai.kubernetes.rdma_options import DEVICES, MODES, Device, Mode

WIDTH = 80
LABEL = 14

Document = dict[str, JsonValue]


@dataclass(frozen=True)
class Topic:
    """A topic: its title, and the makers of its text and of its JSON values."""

    title: str
    lines: Callable[[], Iterator[str]]
    document: Callable[[], Document]


def topic(name: str) -> Topic:
    """Return a topic; `UsageError` where there is none of that name."""
    if name in TOPICS:
        return TOPICS[name]
    near = get_close_matches(name, TOPICS, n=1)
    help = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(TOPICS)}"
    raise UsageError(f"there is no topic '{name}'", help, rule="usage.topic")


def explain_text(found: Topic) -> str:
    """Return a topic as text."""
    return "\n".join((found.title, "=" * len(found.title), *found.lines()))


def _rdma_lines() -> Iterator[str]:
    yield from ("", "Modes of pods on a node", "")
    for mode in MODES:
        yield mode.name
        pairs = {
            "runs on": mode.runs_on,
            "RDMA verbs": mode.verbs,
            "namespaces": mode.namespaces,
            "GPUDirect": mode.gpudirect,
            "VM has": mode.in_a_vm,
            "vMotion": mode.vmotion,
            "objects": mode.objects,
        }
        yield from _pairs(pairs, mode)
    yield from ("Devices of a VM", "")
    for device in DEVICES:
        yield device.name
        pairs = {"kind": device.kind, "RDMA": device.rdma, "vMotion": device.vmotion, "GPUDirect": device.gpudirect}
        yield from _pairs(pairs, device)


def _pairs(pairs: Mapping[str, str], of: Mode | Device) -> Iterator[str]:
    more = [*(("unverified", text) for text in of.unverified), *(("source", text) for text in of.sources)]
    for label, text in (*pairs.items(), *more):
        head = f"  {label:<{LABEL}}"
        yield from textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
    yield ""


def _rdma_document() -> Document:
    return {"modes": [asdict(mode) for mode in MODES], "devices": [asdict(device) for device in DEVICES]}


TOPICS: Mapping[str, Topic] = {
    "rdma-options": Topic("RDMA for pods on VMs", _rdma_lines, _rdma_document),
}
"""Name on the command line -> what is explained."""
