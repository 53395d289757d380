"""Program that gives addresses: run once per request, with JSON on its standard input and output.

A program that does not end in time has an unknown outcome: it is asked the same again, which it has to answer the same,
and nothing is taken for granted. It gets no other secrets than those that are named for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.errors import OutcomeUnknown, StepFailed
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.text import safe
from vsphere_ai.security import child_environment
from vsphere_ai.security.redaction import untrusted

ATTEMPTS = 3
LONGEST = 16 << 20
"""Bytes of an answer."""
_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_SAID = 300


@dataclass(frozen=True)
class ProgramCall:
    """How a program is run: its arguments, the folder, variables of its own, and the seconds that it may take."""

    argv: tuple[str, ...]
    folder: Path
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 30.0

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return f"the program {safe(self.argv[0])}"


def ask(program: ProgramCall, request: Mapping[str, object]) -> object:
    """Return the JSON that a program answers a request with.

    `StepFailed` when it cannot be run, fails, or answers no JSON; `OutcomeUnknown` when it does not end in time,
    several times.
    """
    text = json.dumps(request).encode()
    for _ in range(ATTEMPTS):
        try:
            return _answer(program, text)
        except subprocess.TimeoutExpired:
            continue
    raise OutcomeUnknown(
        f"{program.name} did not end within {program.timeout:g} s, {ATTEMPTS} times: "
        "whether it has given or taken back addresses is not known",
        "run it by hand; the same request again is answered the same",
        rule="addresses.backend-unknown",
    )


def _answer(program: ProgramCall, text: bytes) -> object:
    try:
        status, out, err = _run(program, text)
    except OSError as error:
        raise _failed(f"{program.name} cannot be run: {error.strerror}") from None
    if status != 0:
        raise _failed(f"{program.name} ended with {status}{_last(err)}")
    if len(out) > LONGEST:
        raise _failed(f"{program.name} answered more than {LONGEST >> 20} MiB")
    try:
        return json_value(out)
    except ValueError:
        raise _failed(f"{program.name} answered no JSON{_last(err)}") from None


def _run(program: ProgramCall, text: bytes) -> tuple[int, bytes, bytes]:
    given = child_environment.inherited()
    own = {name: given[name] for name in (*_PASSED, *_PROXIES) if name in given}
    process = subprocess.Popen(  # noqa: S603 - no shell: the operator's own inventory names the program
        program.argv,
        cwd=program.folder,
        env={**own, **program.env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that what it starts can be ended with it
    )
    with process:
        try:
            out, err = process.communicate(text, timeout=program.timeout)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, out, err


def _last(err: bytes) -> str:
    """Return the end of what a program wrote to standard error, without secrets."""
    lines = untrusted(err.decode(errors="replace")).strip().splitlines()
    return f": {safe(lines[-1][:_SAID])}" if lines else ""


def _failed(message: str) -> StepFailed:
    help = "run it by hand with the request on its standard input"
    return StepFailed(message, help, rule="addresses.backend-failed")
