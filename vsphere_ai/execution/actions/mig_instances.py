"""Effect of commands that create or destroy MIG instances, judged by what would have to be done now."""

from __future__ import annotations

from vsphere_ai.model.steps import Shell, Step

_DESTROY, _CREATE = ("-dci", "-dgi"), "-cgi"


def is_about(step: Step) -> bool:
    """Return whether a step is one of several such commands, so that the state of its kind does not show its effect."""
    return isinstance(step, Shell) and any(verb in step.argv for verb in (*_DESTROY, _CREATE))


def took_effect(step: Shell, left: tuple[Step, ...] | None) -> bool | None:
    """Return whether it did, by the steps that are `left` on the host; None when they do not show it.

    False: nothing of it happened, and this command is the next one for its GPU. Sent again it cannot do anything twice:
    it names the instance it destroys, or the places it creates instances at.
    """
    if left is None:
        return None
    commands = [s.argv for s in left if isinstance(s, Shell) and _gpu(s.argv) == _gpu(step.argv)]
    if step.argv in commands:
        return False if commands[0] == step.argv else None
    # destroying is done or not; nvidia-smi creates one instance after the other, and may have stopped in between
    return None if _CREATE in step.argv and commands else True


def _gpu(argv: tuple[str, ...]) -> str:
    return argv[argv.index("-i") + 1] if "-i" in argv[:-1] else ""
