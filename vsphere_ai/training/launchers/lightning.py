"""Lightning: under torchrun, or one process per GPU; `--num_nodes` and `--devices` have to be what is launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vsphere_ai.training.launch import Launch, LaunchPlan, refuse
from vsphere_ai.training.launchers import per_process, torchrun

NUMBERS = ("num_nodes", "devices")


def launch(plan: LaunchPlan) -> Launch:
    """Return the launch of torchrun or of mode `env`; `Refused` where an argument says other numbers."""
    wanted = {"num_nodes": len(plan.nodes), "devices": plan.even("Lightning")}
    for name, given in stated(plan.job.what).items():
        if given not in ("auto", "-1", f"{{{ {'num_nodes': 'nodes', 'devices': 'local_size'}[name] }}}") and (
            given != str(wanted[name])
        ):
            message = f"the job says --{name} {given}, and it is launched with {wanted[name]}"
            raise refuse("lightning", message, f"write --{name} {wanted[name]}, or change the nodes")
    start = torchrun.launch if plan.job.lightning.via == "torchrun" else per_process.launch
    return replace(start(plan), mode="lightning")


def stated(words: Sequence[str]) -> dict[str, str]:
    """Return what arguments say of `num_nodes` and `devices`, also by names such as ``--trainer.devices``.

    The last one counts, as for the parsers of Lightning and argparse.
    """
    found: dict[str, str] = {}
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        key = name.lstrip("-").rpartition(".")[2].replace("-", "_")
        if key not in NUMBERS or not (name.startswith("--") or equals):
            continue
        if equals:
            found[key] = value
        elif number + 1 < len(words):
            found[key] = words[number + 1]
    return found
