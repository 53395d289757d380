"""A vCenter, host shells and a clock that only remember what steps do to them."""

from __future__ import annotations

from contextlib import contextmanager

from support.estates import ESX1, vm
from vsphere_ai.execution.actions import ssh_guard
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.model import steps
from vsphere_ai.model.facts import Facts

VM = vm(1)


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self):
        self.now, self.pauses = 1000.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


def on_clock(monkeypatch, module, clock):
    """Let the waits of the product's module of waits take place on a clock of the tests."""
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "nap", lambda _wake, seconds: clock.sleep(seconds))


class Server:
    """Answers reads from a list of property sets (the last one stays) and remembers every call."""

    def __init__(self, *readings):
        self.readings, self.calls, self.asked, self.error = list(readings), [], [], None

    def read_objects(self, refs, paths):
        (ref,) = refs
        assert list(paths) == [ref.partition(":")[0]]
        if paths[ref.partition(":")[0]] == ssh_guard.PATHS:  # the look before a command: nothing stands in its way
            return {ref: Facts(ref, {})}
        self.asked.append(paths[ref.partition(":")[0]])
        now = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        if isinstance(now, Exception):
            raise now
        return {} if now is None else {ref: Facts(ref, now)}

    def resolve_path(self, ref, path):
        return f"{ref}/{path}" if path else ref

    def call(self, ref, method, args=None):
        self.calls.append((ref, method, dict(args or {})))

    def run_task(self, ref, method, args=None, *, timeout, progress=None):
        self.calls.append((ref, method, dict(args or {}), timeout))
        if progress:
            progress(None)
            progress(40)
        if self.error:
            raise self.error


class Shells:
    """Answers commands from a list (the last one stays); an exception is raised instead, on connecting or running."""

    def __init__(self, *answers, refuse=()):
        self.answers, self.ran, self.refuse = list(answers), [], list(refuse)

    @contextmanager
    def __call__(self, host):
        if self.refuse:
            raise self.refuse.pop(0)
        yield self

    def connect(self):
        """There is nothing to open."""

    def run(self, argv, deadline_s, *, changes=False):
        self.ran.append((argv, deadline_s, changes))
        now = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(now, Exception):
            raise now
        return now


def executor(server, shell=None, left=lambda *_: (), gpus=2, **more):
    return StepExecutor(Context(server, shell or Shells(), left, {ESX1.ref: gpus}, {VM.ref: ESX1.ref}, **more))


def do(step, server, shell=None, **more):
    """Do one step; return what was said."""
    said = []
    executor(server, shell, **more).do(step, said.append)
    return said


OF_ACTION = {each.action: each for each in steps.Lifecycle.__subclasses__()}
NEEDED = {
    "enter-maintenance": {"timeout": 600},
    "exit-maintenance": {"timeout": 600},
    "reboot": {"via": "ssh"},
    "power-off": {"shutdown_timeout": 300},
}


def lifecycle(action, target=ESX1, summary="", **options):
    return OF_ACTION[action](target=target, summary=summary, **{**NEEDED.get(action, {}), **options})
