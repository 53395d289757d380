"""Placeholders such as ``{local_rank}`` in arguments and variables of a job: which there are, and their values.

They take the place of a shell's ``$LOCAL_RANK``: no shell reads what a job says. ``{{name}}`` means ``{name}`` itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from vsphere_ai.training.ranks import Rank

PER_RANK = ("rank", "local_rank")
"""Placeholders whose value differs between the processes of a node."""
PER_NODE = ("node_rank", "local_size")
PER_JOB = ("world_size", "nodes", "master_addr", "master_port", "run", "run_dir")
NAMES = (*PER_RANK, *PER_NODE, *PER_JOB)
_WRITTEN = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")


def names_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the placeholders in texts, each once, also of those that there are not."""
    found = (match[2] for text in texts for match in _WRITTEN.finditer(text))
    return tuple(dict.fromkeys(name for name in found if name))


def require_known(text: str) -> str:
    """Return a text with known placeholders only; `ValueError` for any other one, with what would work."""
    unknown = next((name for name in names_in([text]) if name not in NAMES), None)
    if unknown is not None:
        known = ", ".join(f"{{{name}}}" for name in NAMES)
        raise ValueError(f"there is no placeholder {{{unknown}}}\nthere are {known}; {{{{{unknown}}}}} means itself")
    return text


def filled(text: str, values: Mapping[str, object]) -> str:
    """Return a text with the values of its placeholders; one without a value, and ``{{name}}``, stay as written."""
    return _WRITTEN.sub(lambda m: str(values[m[2]]) if m[2] in values else m[0], text)


def final(text: str, values: Mapping[str, object]) -> str:
    """Return a text with its placeholders' values, and ``{name}`` for ``{{name}}``; `KeyError` without a value."""
    return _WRITTEN.sub(lambda m: f"{{{m[1]}}}" if m[1] else str(values[m[2]]), text)


def values_of(rank: Rank) -> dict[str, object]:
    """Return the values of a process's own placeholders."""
    return {
        "rank": rank.rank,
        "local_rank": rank.local_rank,
        "node_rank": rank.node_rank,
        "local_size": rank.local_size,
        "world_size": rank.world_size,
        "nodes": rank.nodes,
    }
