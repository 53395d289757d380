"""Task: cancelling one."""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.refusals import invalid_state, not_supported


@reads(vim.Task, "CancelTask")
def cancel(call: Call) -> None:
    """Ask a queued or running, cancelable task to end with RequestCanceled, once."""
    info = call.mo["info"]
    task = call.farm.tasks.running.get(call.mo.moid)
    if task is None or task.cancelled:
        raise invalid_state("the task has ended" if task is None else "the task is cancelled already")
    if not info.cancelable:
        raise not_supported("the task cannot be cancelled")
    task.cancelled = True
    task.update(cancelled=True)
