"""Modules compiled before the workers start: else each of them rewrites the asserts of every test at the same time."""

from __future__ import annotations

import compileall
import contextlib
import os
import sys
from pathlib import Path


def ahead(config, roots):
    """Compile what is below some folders, as many files side by side as there are processors.

    What cannot be compiled is left to the import itself.
    """
    if sys.dont_write_bytecode:
        return
    paths = sorted(path for root in roots for path in Path(root).rglob("*.py"))
    processors = len(os.sched_getaffinity(0))
    children = []
    for number in range(processors):
        if (child := os.fork()) == 0:
            try:
                for path in paths[number::processors]:
                    with contextlib.suppress(Exception):
                        compiled(config, path)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def compiled(config, path):
    """Compile one file: a test as pytest keeps it, with its asserts rewritten, another one as Python does."""
    if not path.match("test_*.py") and path.name != "conftest.py":
        compileall.compile_file(path, quiet=2)
        return
    from _pytest.assertion import AssertionState, rewrite

    kept = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(path, kept) is None and rewrite.try_makedirs(kept.parent):
        source, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(AssertionState(config, "rewrite"), code, source, kept)
