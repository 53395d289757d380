"""Processes of the tool that begin as a copy of one that has imported everything: a start costs no second of imports.

The copy is a process of its own in every respect that a test judges: its number, signals, streams, exit status, death.
What a start itself does (imports, the interpreter) is tested with real ones in `tests/cli/test_startup.py`.
"""

from __future__ import annotations

import array
import contextlib
import copyreg
import fcntl
import gc
import http.client
import inspect
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from importlib import import_module

SCHEDULER = "distributed.cli.dask_scheduler"
MODULES = {
    "vsphere_ai": ("vsphere_ai.cli.main", "run"),
    SCHEDULER: (SCHEDULER, "main"),
    "vsphere_ai.lab": ("vsphere_ai.lab.front.main", "main"),
}
PRELOADED = ("vsphere_ai.app", "vsphere_ai.cli", "vsphere_ai.compat", "vsphere_ai.connect", "vsphere_ai.execution",
             "vsphere_ai.lab", "vsphere_ai.planning", "vsphere_ai.reading", "vsphere_ai.report", "vsphere_ai.resources",
             "vsphere_ai.runs", "vsphere_ai.sets")  # fmt: skip
DEVNULL, PIPE, STDOUT = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT


class Popen:
    """`subprocess.Popen([sys.executable, "-m" or "-c", ...])` as far as the tests use it, by a copy."""

    def __init__(self, argv, *, stdin=DEVNULL, stdout=None, stderr=None, text=False, env=None, cwd=None,
                 umask=-1, start_new_session=False, preexec_fn=None):  # fmt: skip
        argv = [str(a) for a in argv]
        assert argv[0] == sys.executable
        assert argv[1] in ("-m", "-c")
        ours, theirs = [], []
        for number, stream in enumerate((stdin, stdout, stderr)):
            if stream == PIPE:
                read, write = os.pipe()
                own, given = (write, read) if number == 0 else (read, write)
                mode, kind = "w" if number == 0 else "r", {"encoding": "utf-8"} if text else {}
                ours.append(os.fdopen(own, mode if text else f"{mode}b", **kind))
                theirs.append(given)
            else:
                ours.append(None)
                if stream == DEVNULL:
                    theirs.append(os.open(os.devnull, os.O_RDWR))
                elif stream == STDOUT:
                    theirs.append(os.dup(theirs[1]))
                else:
                    given = number if stream is None else stream
                    theirs.append(os.dup(given if isinstance(given, int) else given.fileno()))
        self.stdin, self.stdout, self.stderr = ours
        self.returncode = None
        asked = {
            "argv": argv[1:],
            "env": dict(os.environ if env is None else env),
            "cwd": str(cwd or os.getcwd()),
            "umask": umask,
            "session": start_new_session,
            "hangup": preexec_fn.__name__.strip("_") if preexec_fn else "default",
        }
        self._status = _ask(asked, theirs)
        for descriptor in theirs:
            os.close(descriptor)
        self.pid = int(self._line(None))

    def _line(self, timeout):
        """The next line of the copy's keeper; None when there is none in time."""
        if not select.select([self._status], [], [], timeout)[0]:
            return None
        return self._status.readline() or "-9"

    def poll(self):
        """The exit status, as `subprocess` tells it; None while the process lives."""
        return self._wait(0)

    def _wait(self, timeout):
        if self.returncode is None:
            line = self._line(timeout)
            if line is not None:
                self.returncode = int(line)
                self._status.close()
        return self.returncode

    def wait(self, timeout=None):
        """Wait for the end; return the exit status."""
        if self._wait(timeout) is None:
            raise subprocess.TimeoutExpired("a copy", timeout)
        return self.returncode

    def communicate(self, input=None, timeout=None):
        """Write to its input, wait for the end; return what it wrote to its outputs, None where that is no pipe."""
        pipes = [pipe if pipe and not pipe.closed else None for pipe in (self.stdout, self.stderr)]
        said = {}
        readers = [threading.Thread(target=lambda p=p: said.update({p: p.read()}), daemon=True) for p in pipes if p]
        for reader in readers:
            reader.start()
        if self.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.stdin.write(input or "")
                self.stdin.close()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        for pipe in said:
            pipe.close()
        return tuple(said.get(pipe) for pipe in pipes)

    def send_signal(self, number):
        """Send a signal to a process that lives."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self):
        """Kill it."""
        self.send_signal(signal.SIGKILL)


def run(argv, *, capture_output=False, stdout=None, stderr=None, timeout=None, check=False, **options):
    """`subprocess.run`, by a copy."""
    if capture_output:
        stdout = stderr = PIPE
    process = Popen(argv, stdout=stdout, stderr=stderr, **options)
    try:
        said = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    done = subprocess.CompletedProcess(argv, process.returncode, *said)
    if check:
        done.check_returncode()
    return done


SHARED = "TESTS_PREFORK"
"""Variable with where the workers of a run share a server: the number of the process that it ends with, a folder."""
_server = None


def share(folder):
    """Have the processes that this one starts share one server: what it imports is imported once, not by each."""
    os.environ[SHARED] = f"{os.getpid()}:{folder}"


def _connection():
    """A connection to the server: to the shared one where there is one, else to one of this process."""
    owner, _, folder = os.environ.get(SHARED, "").partition(":")
    if not folder:
        ours, theirs = socket.socketpair()
        with theirs:
            _start(theirs, os.getpid())
        return ours
    # a copy of this repository, which a test may have made, has another server
    code = f"{sys.executable} {os.path.abspath(__file__)}".encode()
    ours, place = socket.socket(socket.AF_UNIX), os.path.join(folder, f"{zlib.crc32(code):08x}")
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            ours.connect(place)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
            listen(place, __file__, int(owner))
            ours.connect(place)
    return ours


def listen(place, file, owner, *arguments):
    """Start a server, the program `file`, that answers on a socket at `place` for as long as a process lives."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(128)  # who comes while it imports waits in this queue
        _start(listener, owner, file, *arguments)


def _start(asking, owner, file=__file__, *arguments):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    argv = [sys.executable, os.path.abspath(file), str(asking.fileno()), str(owner), *arguments]
    # it may outlive who started it: that one's output has to end with it
    kept = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    subprocess.Popen(argv, pass_fds=[asking.fileno()], env=environment, **kept)


def use(connection):
    """Ask a server for copies that this process is connected with."""
    global _server
    _server = os.getpid(), connection


def _ask(asked, descriptors):
    """Send a request to the server, which is started for the first one; return where the copy's keeper answers."""
    global _server
    if _server is None or _server[0] != os.getpid():
        _server = os.getpid(), _connection()
    answer, given = socket.socketpair()
    text = json.dumps(asked).encode()
    fds = array.array("i", [*descriptors, given.fileno()])
    _server[1].sendmsg([len(text).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    _server[1].sendall(text)
    given.close()
    return answer.makefile("r")


# -- the server


def warm():
    """Compute what the product computes once and asks for nothing, and have pyVmomi load the types of a farm."""
    from vsphere_ai.lab.build import build
    from vsphere_ai.lab.scenario_file import load

    once()
    build(load(None), "warm").close()
    gc.collect()
    gc.freeze()  # what is here already is in no copy's way
    gc.set_threshold(20_000, 20, 20)


def once():
    """Compute what is computed once and asks for nothing: catalogues, rules, kinds; read plain headers in short.

    That headers are read as before is tested in `tests/lab/test_shortcuts.py`; answers have four or five of them.
    """
    from pydantic import BaseModel

    from vsphere_ai.cli.commands import command_entry, commands
    from vsphere_ai.lab.front import shortcuts

    http.client.parse_headers = shortcuts.headers
    for module in [m for name, m in sys.modules.items() if name.startswith("vsphere_ai.")]:
        for made in [v for v in vars(module).values() if hasattr(v, "cache_info")]:
            if not inspect.signature(made).parameters:
                made()
    for model in _models(BaseModel):
        model.model_rebuild()  # a real process does so for those that it uses
    for name in commands():
        command_entry(name)


def _models(of):
    """The models of the product that are loaded."""
    for model in of.__subclasses__():
        if model.__module__.startswith("vsphere_ai."):
            yield model
        yield from _models(model)


def _import_rooms(*rooms):
    for room in rooms:
        package = import_module(room)
        for module in pkgutil.walk_packages(package.__path__, f"{room}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)


_PLAIN = dict(copyreg.dispatch_table)
"""How values are copied in a process that has not imported Dask."""


def _is_of_a_fleet(argv):
    return not {"fleet", SCHEDULER}.isdisjoint(argv)


def _import_for(argv):
    """Import what fleets need, which few tests do: once, for the first process of one. Dask may not be installed."""
    if SCHEDULER in sys.modules or not _is_of_a_fleet(argv):
        return
    with contextlib.suppress(ImportError):
        _import_rooms("vsphere_ai.fleet")
        import_module(SCHEDULER)
        gc.freeze()


def _prepare():
    """Have what copies of the tool need in this process."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    _import_rooms(*PRELOADED)
    warm()


def serve(asking, owner, prepare):
    """Answer on one connection until it ends, or on all that a listening socket takes until a process has ended."""
    try:
        ended = os.pidfd_open(owner)
    except ProcessLookupError:
        return
    prepare()
    signal.signal(signal.SIGCHLD, _collect)  # and not ignored: then their processor time would be lost
    listens = bool(asking.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    sources = {ended: None, asking.fileno(): asking}
    while True:
        for ready in select.select(list(sources), [], [])[0]:
            if ready == ended:
                return
            source = sources[ready]
            if listens and source is asking:
                connection = asking.accept()[0]
                sources[connection.fileno()] = connection
            elif not _answer(source, [s for s in sources.values() if s]):
                if not listens:
                    return
                del sources[ready]
                source.close()


def _answer(asking, sources):
    """Carry out one request of a connection; False when it has ended. `sources` are closed in the copy."""
    head, rights, *_ = asking.recvmsg(4, socket.CMSG_SPACE(4 * 4))
    if not head:
        return False
    text = b""
    while len(text) < int.from_bytes(head, "big"):
        text += asking.recv(int.from_bytes(head, "big") - len(text))
    descriptors = array.array("i")
    descriptors.frombytes(rights[0][2])
    asked = json.loads(text)
    _import_for(asked["argv"])
    if os.fork() == 0:
        for source in sources:
            source.close()
        _keep(asked, *descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    return True


def _collect(*_):
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _keep(asked, stdin, stdout, stderr, answer):
    """Start the copy, tell its number, and how it ended: its parent is this process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(answer)
        for number, descriptor in enumerate((stdin, stdout, stderr)):
            os.dup2(descriptor, number)
        os.closerange(3, 256)
        _become(asked)
    for descriptor in (stdin, stdout, stderr):
        os.close(descriptor)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.write(answer, b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        os.write(answer, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(asked):
    """Be what was asked for."""
    import random

    code = 70
    try:
        if asked["session"]:
            os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN if asked["hangup"] == "ignored" else signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(asked["env"])
        time.tzset()
        if "dask" in sys.modules:
            sys.modules["dask"].config.refresh()  # it read the variables of the server
        if not _is_of_a_fleet(asked["argv"]):
            # distributed registers a way to copy each exception (tblib.pickling_support), which faults of pyVmomi do
            # not take; a lab copies them while it answers (pyVmomi's SoapAdapter), and then answers SystemError
            copyreg.dispatch_table.clear()
            copyreg.dispatch_table.update(_PLAIN)
        os.chdir(asked["cwd"])
        if asked["umask"] >= 0:
            os.umask(asked["umask"])
        random.seed()
        unbuffered = bool(asked["env"].get("PYTHONUNBUFFERED"))
        encoding = asked["env"].get("PYTHONIOENCODING", "utf-8")
        sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.stdout.reconfigure(write_through=unbuffered, line_buffering=unbuffered)
        sys.stderr.reconfigure(line_buffering=True)
        kind, what, *rest = asked["argv"]
        if kind == "-c":
            sys.argv = ["-c", *rest]
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
            code = 0
        else:
            module, name = MODULES[what]
            sys.argv = [what, *rest]
            code = getattr(sys.modules[module], name)() or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    finally:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), _prepare)
