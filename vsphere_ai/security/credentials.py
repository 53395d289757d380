"""Credentials: the password behind a reference, from environment, file, program, key ring or terminal."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shlex
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from vsphere_ai.security import child_environment
from vsphere_ai.security.asking import asking
from vsphere_ai.security.files import Unfit, reading
from vsphere_ai.security.secret_ref import NoPassword, Secret, parse

ONE_LINE = "the file holds the password alone, on one line of text in UTF-8"
LIMIT = 64 * 1024
"""Bytes of the longest password."""
_LIKE_A_VARIABLE = re.compile(r"[A-Z][A-Z0-9]{0,4}|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
"""Names that are repeated in a message: no password is that short, or capital words with underscores between them."""
PATIENCE = 10.0
"""Seconds a program may take to print a password."""


def fetch(reference: str, base: Path | None = None, *, purpose: str = "password") -> Secret:
    """Fetch a secret; `NoPassword` with what to do when it is not there. `base`: where programs run and paths begin.

    `purpose` is what the terminal is asked for, e.g. ``password of root on the ESXi hosts``. Messages name it where
    what stands behind ``env:`` or ``file:`` may be the password itself, typed in the wrong place.
    """
    match parse(reference):
        case {"cmd": command}:
            return _printed_by(command, base, purpose)
        case {"service": service, "user": user}:
            return _from_keyring(service, user, purpose)
        case {"prompt": _}:
            return _asked(purpose)
        case {"env": name}:
            return _from_environment(name, purpose)
        case {"file": path}:
            return _from_file((base or Path()) / os.path.expanduser(path), purpose)
    raise AssertionError(f"a form of reference without its source: {reference.partition(':')[0]}")


def _from_environment(name: str, purpose: str) -> Secret:
    value = os.environ.get(name)
    if value is None and not _LIKE_A_VARIABLE.fullmatch(name):
        raise NoPassword(
            f"the environment variable of the {purpose} is not set",
            "look at env: behind it is the name of a variable; it is not shown because it may be a password",
        )
    if value is None:
        raise NoPassword(f"the environment variable {name} is not set", f"set it, e.g.: read -rs {name}; export {name}")
    if not value:
        raise NoPassword(f"the environment variable {name} is empty", f"set it, e.g.: read -rs {name}; export {name}")
    return Secret(value)


def _from_file(path: Path, purpose: str) -> Secret:
    try:
        with reading(path) as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & 0o077:
                remedy = f"let only its owner read it: chmod 600 {path}"
                raise NoPassword(f"the password file {path} can be read by others (mode {mode & 0o777:03o})", remedy)
            content = file.read(LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError):
        folder = next(above for above in path.absolute().parents if above.is_dir())
        raise NoPassword(
            f"the file of the {purpose} is not there: {folder} has nothing of the name given",
            "look at file: behind it is a path; it is not shown because it may be a password",
        ) from None
    except Unfit:
        kind = "is a directory" if path.is_dir() else "is not a regular file"
        raise NoPassword(f"the password file {path} {kind}", "give the path of a file") from None
    except OSError as fault:
        if not os.path.lexists(path):  # a name that is too long, a folder that may not be read
            raise NoPassword(
                f"the file of the {purpose} cannot be read: {fault.strerror}",
                "look at file: behind it is a path; it is not shown because it may be a password",
            ) from None
        raise NoPassword(f"the password file {path} cannot be read: {fault.strerror}", f"see: ls -ld {path}") from None
    if len(content) > LIMIT:
        raise NoPassword(
            f"the password file {path} is larger than {LIMIT // 1024} KiB: this is not a password", ONE_LINE
        )
    try:
        value = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise NoPassword(f"the password file {path} is not UTF-8 text", ONE_LINE) from None
    if not value:
        raise NoPassword(f"the password file {path} is empty", ONE_LINE)
    return Secret(value)


def _printed_by(command: str, base: Path | None, purpose: str) -> Secret:
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise NoPassword(f"the password program cannot be read: {error}", "balance the quotes after cmd:") from None
    if not argv or not argv[0]:
        raise NoPassword("the password program has no name", "write cmd:PROGRAM ARGUMENTS")
    name = f"the password program {argv[0]}"
    try:
        status, output = _output_of(argv, base, name)
    except OSError as error:
        raise NoPassword(
            f"the program that prints the {purpose} cannot be run: {error.strerror}",
            "look at cmd: behind it is the full path of a program, or one on PATH; it is not shown "
            "because it may be a password",
        ) from None
    by_hand = "run it by hand to see what it says"  # its own messages may hold the secret: they are not repeated
    if status != 0:
        raise NoPassword(f"{name} ended with {status}", by_hand)
    if len(output) > LIMIT:
        raise NoPassword(f"{name} printed more than {LIMIT // 1024} KiB: this is not a password", by_hand)
    try:
        value = output.decode().partition("\n")[0].removesuffix("\r")
    except UnicodeDecodeError:
        raise NoPassword(f"{name} printed something that is not UTF-8 text", by_hand) from None
    if not value:
        raise NoPassword(f"{name} printed an empty first line", by_hand)
    return Secret(value)


def _output_of(argv: list[str], base: Path | None, name: str) -> tuple[int, bytes]:
    process = subprocess.Popen(  # noqa: S603 - no shell: the operator's own inventory names the program
        argv,
        cwd=base,
        env=child_environment.inherited(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # so that what it starts can be ended with it
    )
    with process:
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                remedy = "it must not ask for anything: its input is empty"
                raise NoPassword(f"{name} did not end within {PATIENCE:.0f} s", remedy) from None
            raise
    return process.returncode, output


def _from_keyring(service: str, user: str, purpose: str) -> Secret:
    try:
        keyring = import_module("keyring")
    except ImportError:
        remedy = "install keyring: pipx inject vsphere-ai keyring; in a virtual environment: pip install keyring"
        raise NoPassword("the key ring library is not installed", remedy) from None
    except Exception as error:
        raise NoPassword(f"the key ring cannot be used: {type(error).__name__}", "use env:, file: or cmd:") from None
    try:
        value = keyring.get_password(service, user)
    except Exception as error:
        # a machine without a desktop session has no key ring; a backend that is installed may fail to load with any
        # error of its own, whose text is not repeated: it may hold what it was asked for
        raise NoPassword(f"the key ring cannot be used: {type(error).__name__}", "use env:, file: or cmd:") from None
    if not value:
        raise NoPassword(
            f"the key ring has no {purpose} under the names of the reference",
            "store it: keyring set SERVICE USER, with the two names behind keyring:; they are not shown because they "
            "may be a password",
        )
    return Secret(value)


def _asked(purpose: str) -> Secret:
    if not sys.stdin.isatty():
        raise NoPassword(f"there is no terminal to ask for the {purpose} on", "use env:, file: or cmd:")
    try:
        with asking():
            value = getpass.getpass(f"{purpose[:1].upper()}{purpose[1:]}: ", stream=sys.stderr)
    except EOFError:
        value = ""
    if not value:
        raise NoPassword(f"no {purpose} was given", "start again and enter it, or use env:, file: or cmd:")
    return Secret(value)
