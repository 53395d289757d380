"""Option string of a kernel module (``max_vfs=8 pfctx=0x08``): parsed, changed in part, and written.

ESXi replaces the whole string, so a change of one option has to send all the others unchanged.
Source: VMware KB 1017253 and vSphere Web Services API reference, HostKernelModuleSystem.UpdateModuleOptionString.
"""

from __future__ import annotations

from collections.abc import Mapping

from vsphere_ai.model.three_way import compare

Options = Mapping[str, str | None]
"""Option -> value as it is written; None: a word without a value."""


def parsed(text: str | None) -> dict[str, str | None]:
    """Return the options of a string in their order; of one that is given twice the last counts."""
    options: dict[str, str | None] = {}
    for word in (text or "").split():
        name, has_value, value = word.partition("=")
        options[name] = value if has_value else None
    return options


def written(options: Options) -> str:
    """Return options as one string."""
    return " ".join(name if value is None else f"{name}={value}" for name, value in options.items())


def changed(options: Options, wanted: Options) -> dict[str, str | None]:
    """Return options with some set; None takes an option out. Every other one stays as it is, in its place."""
    merged = {**options, **wanted}
    return {name: value for name, value in merged.items() if value is not None or name not in wanted}


def pfc_priorities(text: str) -> tuple[int, ...]:
    """Return the priorities with flow control both ways in the options of nmlx5_core."""
    found = parsed(text)
    sent, received = (_mask(found.get(name)) for name in ("pfctx", "pfcrx"))
    return tuple(n for n in range(8) if sent >> n & 1) if sent == received else ()


def _mask(value: str | None) -> int:
    try:
        return int(value or "0", 0)
    except ValueError:
        return 0


def merged(planned: str | None, wanted: str, now: str | None) -> str | tuple[str, ...]:
    """Return the string to send where others may have changed theirs since planning: the present one with our changes.

    Where another user has changed one of our options: the names of these options.
    """
    base, goal, present = parsed(planned), parsed(wanted), parsed(now)
    ours = [n for n in {**base, **goal} if (n in base, base.get(n)) != (n in goal, goal.get(n))]
    before = {n: base.get(n) for n in ours}
    taken = tuple(p.name for p in compare(before, present, {n: goal.get(n) for n in ours}) if p.conflict)
    if taken:
        return taken
    kept = {n: v for n, v in present.items() if n not in ours or n in goal}
    return written({**kept, **{n: goal[n] for n in ours if n in goal}})
