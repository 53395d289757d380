"""Workers of pytest-xdist that begin as copies of a process that has imported the tests: once, not in each of them.

pytest-xdist starts a worker as `PYTHON -u -c LINE`. Here PYTHON is this file: it asks the process that has imported the
tests for a copy which runs LINE with its own streams, and ends when that copy ends.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import sys
import types

if __name__ == "__main__":
    import prefork
else:
    from support import prefork
    from support.places import ROOT


def offer(config, specs, folder):
    """Have the workers of these specifications begin as copies; `folder` is where the socket is.

    Not where statements are counted (pytest-cov): those that a module carries out when it is imported would be missing.
    Nor for tests that are elsewhere, whose configuration is another.
    """
    if config.getoption("cov_source", None) or config.rootpath != ROOT:
        return
    place = os.path.join(folder, "workers")
    chosen = [os.path.abspath(argument.partition("::")[0]) for argument in config.args]
    left_out = config.getoption("--but-passed") or ""
    prefork.listen(place, __file__, os.getpid(), left_out, *chosen)
    for spec in specs:
        if spec.popen and not spec.python:
            spec.python = shlex.join([sys.executable, "-S", __file__, place])


def _import_tests(left_out, chosen):
    """Import the modules of tests at these places as pytest does; one that fails does so again in each worker."""
    from _pytest.config import _prepareconfig
    from _pytest.outcomes import OutcomeException
    from _pytest.pathlib import import_path

    # with the streams left alone: a worker captures its own
    config = _prepareconfig(["--capture=no", *([f"--but-passed={left_out}"] if left_out else ())])
    from support import passed

    for path in _modules(config.rootpath, chosen):
        if passed.is_done(config, path):
            continue
        before = set(sys.modules)
        try:
            import_path(path, mode="importlib", root=config.rootpath, consider_namespace_packages=False)
        except (Exception, OutcomeException):
            for name in set(sys.modules) - before:
                if name.startswith("tests."):
                    del sys.modules[name]
    # a process that multiprocessing starts from a worker is not to run this file
    sys.modules["__main__"] = types.ModuleType("__main__")


def _modules(root, chosen):
    for place in sorted((root / "tests").rglob("test_*.py")):
        if any(str(place) == one or str(place).startswith(f"{one}{os.sep}") for one in chosen):
            yield place


def _prepared(left_out, *chosen):
    import gc

    def prepare():
        gc.disable()
        _import_tests(left_out, chosen)
        gc.collect()
        gc.freeze()

    return prepare


def _be_a_copy(place, line):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.connect(place)
        prefork.use(connection)
        copy = prefork.Popen([sys.executable, "-c", line], stdin=0, stdout=1, stderr=2)
    for number in (0, 1):  # the copy has them: who waits for their end waits for its end
        os.close(number)
    return copy.wait()


if __name__ == "__main__":
    if sys.argv[1].isdecimal():
        prefork.serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), _prepared(*sys.argv[3:]))
    else:
        os._exit(_be_a_copy(sys.argv[1], sys.argv[-1]))
