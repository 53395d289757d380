"""Outputs of a playbook as text, as variables of a shell, and as a host file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from vsphere_ai.documents.outputs import Scalar
from vsphere_ai.errors import UsageError
from vsphere_ai.model.text import safe
from vsphere_ai.sets.outputs import OutputItem, OutputValue


def outputs_text(outputs: Sequence[OutputValue]) -> list[str]:
    """Return a line per output, and below a list one per item; why a value is not known stands in its place."""
    lines = []
    for each in outputs:
        if each.problems:
            lines.append(f"{each.name} = refused")
        elif not each.listed:
            lines.append(f"{each.name} = {_shown(each.items[0])}")
        else:
            lines.append(f"{each.name} =")
            lines += [f"  {f'{item.vm}: ' if item.vm else ''}{_shown(item)}" for item in each.items]
    return lines


def problems_text(outputs: Sequence[OutputValue]) -> str:
    """Return the problems of outputs, a line each with what would work below it."""
    lines = []
    for each in outputs:
        for problem in each.problems:
            vm = f"{safe(problem.vm)}: " if problem.vm else ""
            lines.append(f"{each.name} ({each.mark}): {problem.rule}: {vm}{safe(problem.message)}")
            lines += [f"  {safe(problem.help)}"] if problem.help else []
    return "".join(f"{line}\n" for line in lines)


def reasons_text(outputs: Sequence[OutputValue]) -> str:
    """Return why parts of outputs are not known."""
    return "".join(
        f"note: {each.name}: {safe(reason)}\n" for each in outputs for reason in each.reasons if not each.problems
    )


def env_text(outputs: Sequence[OutputValue]) -> str:
    """Return a shell assignment per output, its name in capitals; a list is joined by commas, nothing is empty."""
    lines = (f"{each.name.upper()}={shlex.quote(_joined(each))}" for each in outputs)
    return "".join(f"{line}\n" for line in lines)


def hostfile_text(outputs: Sequence[OutputValue]) -> str:
    """Return a line per item of the only list, ``HOST slots=GPUS``, as mpirun and DeepSpeed read it.

    A VM without GPUs has no ``slots``. `UsageError` where there is not one list, or a part of it is not known.
    """
    lists = [each for each in outputs if each.listed]
    if len(lists) != 1:
        names = ", ".join(each.name for each in lists) or "none"
        raise UsageError(f"a host file is made of one list, and there are {len(lists)}: {names}", "name one of them")
    unknown = next((item for item in lists[0].items if item.value is None), None)
    if unknown is not None:
        raise UsageError(f"{lists[0].name} has no value for {unknown.vm}: {unknown.reason}", "choose another output")
    lines = (f"{item.value}{f' slots={item.gpus}' if item.gpus else ''}" for item in lists[0].items)
    return "".join(f"{safe(line)}\n" for line in lines)


def _shown(item: OutputItem) -> str:
    return f"({safe(item.reason)})" if item.value is None else safe(_text(item.value))


def _joined(output: OutputValue) -> str:
    return ",".join("" if item.value is None else _text(item.value) for item in output.items)


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else json.dumps(value)
