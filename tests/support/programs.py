"""Programs that tests call and that are not on every Debian: a test without its program is skipped and named.

`needs_program` marks a test, `uses_program` a fixture. Where everything is installed on purpose (`CI`), a test whose
program is missing fails. Packages that are essential on Debian, and those that the README asks for, are always there.
"""

from __future__ import annotations

import os
import re
import shutil

import pytest

from support.required import required

PACKAGES = {
    "chromium": "chromium",
    "fish": "fish",
    "go": "golang-go golang-github-vmware-govmomi-dev",
    "groff": "groff-base",
    "ip": "iproute2",
    "mpirun": "openmpi-bin",
    "netplan": "netplan.io",
    "openssl": "openssl",
    "ssh": "openssh-client",
    "ssh-add": "openssh-client",
    "ssh-agent": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "zsh": "zsh",
}
"""The Debian packages that bring a program."""
SERVERS = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where Debian has servers; the PATH of an account lacks them."""
NEEDS = re.compile(r"needs ([^:;]+): ((?:apt-get|pip) install [^;]+)")


def path_of(program):
    """Return the path of a program, and None where it is missing; servers are found where an account has a PATH."""
    found = shutil.which(program)
    usual = {"/usr/bin", "/bin"} & set(os.environ.get("PATH", os.defpath).split(os.pathsep))
    return found or (shutil.which(program, path=SERVERS) if usual else None)


def needs_program(*names):
    """Mark a test that calls programs."""
    return pytest.mark.program(*names)


def uses_program(*names):
    """Mark a fixture, below `pytest.fixture`, that calls programs."""

    def mark(function):
        function.programs = names
        return function

    return mark


def missing(item):
    """Return the programs that a test or one of its fixtures calls and that are not here."""
    named = [name for mark in item.iter_markers("program") for name in mark.args]
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        named += getattr(definitions[-1].func, "programs", ())
    return [name for name in dict.fromkeys(named) if path_of(name) is None]


def text_of(name):
    """Return why a test is skipped that lacks a program."""
    return f"needs {name}: apt-get install {PACKAGES[name]}"


def require(item):
    """Skip a test whose programs are not here; fail it in CI."""
    texts = "; ".join(map(text_of, missing(item)))
    required(not texts, texts.removeprefix("needs "))


def note(session):
    """Remember what is missing, for `--collect-only`, which carries no test out."""
    session.config.needs = {text_of(name) for item in session.items for name in missing(item)}


def summary(reporter):
    """Write one line at the end that names each missing program and the package that brings it."""
    needs = set(getattr(reporter.config, "needs", ()))
    for report in reporter.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        needs.update(found[0] for found in NEEDS.finditer(reason))
    if needs:
        named = sorted(f"{what} ({how})" for what, how in (NEEDS.search(need).groups() for need in needs))
        reporter.write_line(f"\nSkipped because programs or modules are missing: {', '.join(named)}", yellow=True)
