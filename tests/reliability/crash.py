"""Runs the real command line in forked processes, and makes it die, stall or run out of disk at a chosen point.

Started as a program of its own (`python crash.py`): everything is imported once, then each job, one line of JSON on
standard input, is a fork that calls the command line's main. Nothing in the product knows of this.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = map(str, Path(__file__).parents[1:3])  # it is a program of its own

from support.gates import LONG  # noqa: E402

RECORDING = ("CreateFolder", "AddCustomFieldDef", "SetField", "Destroy_Task")
"""Calls that write down what is out of service: before their step is written into the journal."""
DIED = 137
"""What a process ends with that died at a point; a killed one shows the same in a shell."""
_doing = threading.local()


class Points:
    """The places where a run may die: `POSITION | TARGET | WHAT #N`, the same in every run of the same plan.

    `record` is a file to which each is written when it is reached; `at` is the one where `act` is done.
    """

    def __init__(self, record, at, act):
        self.record, self.at, self.act = record, at, act
        self.seen = Counter()
        self.lock = threading.Lock()

    def reach(self, position, what):
        with self.lock:
            self.seen[position, what] += 1
            name = f"{position} | {what} #{self.seen[position, what]}"
            if self.record:
                with open(self.record, "a", encoding="utf-8") as file:
                    file.write(name + "\n")
            if name == self.at:
                self.act()


def die():
    os._exit(DIED)


def fill_disk():
    """Let no file grow any more, as on a full disk; what is said goes to the terminal, which is not on it."""
    from vsphere_ai.security.state_dir import state_dir

    with contextlib.suppress(AttributeError):
        sys.stdout.flush()
    terminal = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    _terminals.append(terminal)
    os.dup2(terminal.stdin.fileno(), 1)
    os.dup2(terminal.stdin.fileno(), 2)
    sizes = [f.stat().st_size for f in (state_dir() / "runs").glob("*.db-wal")]
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes, default=0), resource.RLIM_INFINITY))


_terminals = []


def hang_up():
    """Wait until everything that was said has arrived."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    for terminal in _terminals:
        terminal.stdin.close()
        terminal.wait(LONG)


ACTS = {"die": die, "fill-disk": fill_disk}


def watch_journal(points):
    from vsphere_ai.runs import journal
    from vsphere_ai.runs.journal import Journal

    begin, end = Journal.begin, Journal.end

    @functools.wraps(begin)
    def begin_seen(self, id, step, all_pending):
        label = f"{step.target.name} | {step.summary}"
        _doing.step = label
        points.reach("before begin", label)
        begin(self, id, step, all_pending)
        points.reach("after begin", label)

    @functools.wraps(end)
    def end_seen(self, *given, **named):
        points.reach("after reply", _doing.step)
        end(self, *given, **named)
        points.reach("after end", _doing.step)

    Journal.begin, Journal.end = begin_seen, end_seen
    for name in ("_write", "add_pending", "resolve"):
        setattr(Journal, name, _around(points, getattr(Journal, name), name.strip("_")))
    for name in ("create", "flush"):  # the whole of it, and between its new name and a folder that is on the disk
        setattr(journal, name, _around_all(points, getattr(journal, name), name.strip("_")))


def _around(points, write, name):
    @functools.wraps(write)
    def seen(self, *given, **named):
        about = given[0].target.name if given and hasattr(given[0], "target") else "run"
        points.reach(f"before {name}", f"{about} | {name}")
        write(self, *given, **named)
        points.reach(f"after {name}", f"{about} | {name}")

    return seen


def _around_all(points, act, name):
    @functools.wraps(act)
    def seen(*given, **named):
        points.reach(f"before {name}", f"run | {name}")
        done = act(*given, **named)
        points.reach(f"after {name}", f"run | {name}")
        return done

    return seen


def watch_calls(points):
    """`after call`: the request has left, and nobody has heard of its answer."""
    import http.client

    import paramiko

    from vsphere_ai.connect import vcenter
    from vsphere_ai.connect.secure_shell.esxi import EsxiSsh

    def sending(call, changes, name):
        @functools.wraps(call)
        def seen(self, first, *given, **named):
            if not changes(first, given, named):
                return call(self, first, *given, **named)
            _doing.sending = name(first, given)
            try:
                return call(self, first, *given, **named)
            finally:
                _doing.sending = ""

        return seen

    def sent(wait, *, before):
        @functools.wraps(wait)
        def seen(self, *given, **named):
            now = getattr(_doing, "sending", "")
            _doing.sending = ""
            answer = None if before else wait(self, *given, **named)
            if now:
                step = "record" if now in RECORDING else getattr(_doing, "step", "run")
                points.reach("after call", f"{step} | {now}")
            return wait(self, *given, **named) if before else answer

        return seen

    def alters(_ref, given, _named):
        # what is back is taken away together, from a thread of its own: how often depends on the time
        timed = threading.current_thread().name == "out-record"
        return not timed and not given[0].lower().startswith(vcenter._READS)

    vcenter.VCenter.call = sending(vcenter.VCenter.call, alters, lambda _ref, given: given[0])
    EsxiSsh.run = sending(EsxiSsh.run, lambda _argv, _given, named: named.get("changes"), lambda argv, _given: argv[0])
    http.client.HTTPConnection.getresponse = sent(http.client.HTTPConnection.getresponse, before=True)
    paramiko.Channel.exec_command = sent(paramiko.Channel.exec_command, before=False)


def resend_like_pyvmomi():
    """Send any call again whose connection broke, up to four times, as pyVmomi's own `VimSessionOrientedStub` does."""
    from vsphere_ai.connect.soap import stub

    once = stub.Stub.InvokeMethod

    @functools.wraps(once)
    def again(self, *given):
        for _ in range(4):
            with contextlib.suppress(OSError, stub.http.client.HTTPException):
                return once(self, *given)
            time.sleep(0.1)  # its default `retryDelay`; without it the first call may still be at work, and refuse
        return once(self, *given)

    stub.Stub.InvokeMethod = again


def forget_versions():
    """Send reconfigurations without a changeVersion, as most tools do."""
    from vsphere_ai.connect.vcenter import VCenter

    call = VCenter.call

    @functools.wraps(call)
    def unguarded(self, ref, method, args=None, **options):
        if method == "ReconfigVM_Task":
            args = {"spec": {k: v for k, v in args["spec"].items() if k != "changeVersion"}}
        return call(self, ref, method, args, **options)

    VCenter.call = unguarded


SPOILS = {"resend": resend_like_pyvmomi, "no-change-version": forget_versions}


def tune(values):
    """Set constants such as `LOST_CALL`, wherever they are, so that waits are as short as the lab's boots."""
    from datetime import timedelta

    for name, value in values.items():
        ours = [m for key, m in sys.modules.items() if key.startswith("vsphere_ai.")]
        homes = [m for m in ours if isinstance(getattr(m, name, None), (int, float, timedelta))]  # no text of that name
        if not homes:
            raise LookupError(f"nothing in vsphere_ai is called {name} any more: see TUNE in harness.py")
        for home in homes:
            now = getattr(home, name)
            setattr(home, name, timedelta(seconds=value) if isinstance(now, timedelta) else value)


def limit(values):
    """Shorten the limits of vCenter connections: seconds to connect, for an answer, of patience."""
    from vsphere_ai.connect import vcenter
    from vsphere_ai.connect.secure_shell import ssh_endpoint

    for name, value in values.items():
        if not hasattr(vcenter.DEFAULTS, name):
            raise LookupError(f"connections have no limit called {name} any more: see LIMITS in harness.py")
        object.__setattr__(vcenter.DEFAULTS, name, value)  # it is frozen, and this process is ours
    patient = values.get("connect", 3.0)
    ssh_endpoint.SshLimits.__init__ = functools.partialmethod(
        ssh_endpoint.SshLimits.__init__, connect=patient, banner=patient, login=patient, pause=0.1
    )


def prepare(job):
    os.environ.clear()
    os.environ.update(job["environment"])
    out = os.open(job["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w", buffering=1), open(2, "w", buffering=1)  # noqa: SIM115
    tune(job["tune"])
    limit(job["limits"])
    for name in job["spoil"]:
        SPOILS[name]()
    if job["record"] or job["at"]:
        points = Points(job["record"], job["at"], ACTS[job["act"]])
        watch_journal(points)
        watch_calls(points)


def run(job, learned):
    """Be the command line, in a forked process; never returns."""
    code = 70
    try:
        prepare(job)
        from vsphere_ai.cli.main import main

        code = main(job["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
        learned.tell()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        hang_up()
        os._exit(code)


def warm_up():
    from support import prefork

    import vsphere_ai

    for found in pkgutil.walk_packages(vsphere_ai.__path__, "vsphere_ai."):
        if not found.name.startswith(("vsphere_ai.lab", "vsphere_ai.__main__")):
            importlib.import_module(found.name)
    importlib.import_module("filelock")  # only used where a lock is taken
    prefork.once()
    gc.collect()
    gc.freeze()  # what is here already is in no fork's way
    gc.set_threshold(20_000, 20, 20)


class Learned:
    """What commands ask pyVmomi's tables for: else every fork loads it anew. To load all there is takes too long.

    The first command of each name that comes to its end tells it, and it is here when the next ones are forked.
    """

    def __init__(self):
        self.from_, self.file = set(), None

    def offer(self, command):
        """Let a command that is about to be forked tell, unless one of that name has told."""
        self.file = None if command in self.from_ else tempfile.TemporaryFile("r+")  # noqa: SIM115

    def tell(self):
        """Tell what was loaded in this process; called in the fork."""
        if self.file:
            from pyVmomi import VmomiSupport

            # its own `GetWsdlTypes` loads all there is
            names = {name: kind.__name__ for (_, name), kind in list(VmomiSupport._wsdlTypeMap.items())}
            json.dump(names, self.file)
            self.file.flush()

    def hear(self, command):
        """Load what a command that has ended told."""
        if self.file is None:
            return
        with self.file:
            self.file.seek(0)
            told = self.file.read()
        if told:
            self.from_.add(command)
            load(json.loads(told))


def load(names):
    """Load types by their WSDL names, and tie their fields to those of these types that are theirs."""
    from vsphere_ai.connect.wire import plain

    there = {*names.values(), *(f"{name}[]" for name in names.values())}
    for name in names:
        with contextlib.suppress(plain.NotExpressible):  # str, int and the like
            fields = getattr(plain.type_named(name), "_propList", ())
            for field in fields:
                if vars(field).get("typeName") in there:
                    field.type  # noqa: B018 - asking loads it
    gc.collect()
    gc.freeze()


def serve():
    warm_up()
    learned = Learned()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        learned.offer(job["arguments"][0])
        child = os.fork()
        if not child:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            run(job, learned)
        print(json.dumps({"pid": child}), flush=True)
        sys.stdin.readline()  # not to be collected before somebody holds on to it
        _, status = os.waitpid(child, 0)
        learned.hear(job["arguments"][0])
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    serve()
