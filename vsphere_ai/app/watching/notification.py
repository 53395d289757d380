"""Notification: a JSON document for a command or a webhook, at the end of a run or when drift changes.

A notification never fails what it is about: what goes wrong is a remark. The command gets the document on its standard
input and is started without a shell; the webhook gets it as the body of a POST. Secrets are masked in it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from vsphere_ai import __version__
from vsphere_ai.app.events import Emit, Remark, Status
from vsphere_ai.documents.runs.notifications import DriftChanged, RunEnded
from vsphere_ai.errors import UsageError
from vsphere_ai.model.names.webhook_url import program_words, webhook_url
from vsphere_ai.model.records.notify_request import NotifyRequest
from vsphere_ai.security import child_environment
from vsphere_ai.security.credentials import fetch
from vsphere_ai.security.redaction import untrusted
from vsphere_ai.security.secret_ref import Secret, is_reference

Parts = TypeVar("Parts")
TIMEOUT = 10.0
"""Seconds that a command or a webhook may take."""
RULE = "notify.failed"
USAGE = "usage.notify"
SIGNATURE = "X-Vsphere-AI-Signature"
"""Header of a webhook: ``sha256=`` and the HMAC-SHA256 of the body, in hexadecimal."""
EVENT = "X-Vsphere-AI-Event"


class Notifier:
    """Sends documents; made before anything is changed, so that a wrong URL or a missing secret stops nothing later."""

    def __init__(self, request: NotifyRequest, emit: Emit, timeout: float = TIMEOUT) -> None:
        self._emit, self._timeout = emit, timeout
        self._ways: list[tuple[str, Callable[[str, bytes], str]]] = []
        if request.notify_command:
            self._arguments = _usable(program_words, request.notify_command, "--notify-command")
            self._ways.append((f"command {self._arguments[0]}", self._run))
        if request.notify_webhook:
            self._url = _fetched(request)
            inventory = request.webhook_inventory
            name = f"notify.webhook of {inventory}" if inventory else "--notify-webhook"
            host = _usable(webhook_url, self._url, name).hostname
            secret, folder = request.notify_secret, _folder(request.secret_inventory)
            self._key = fetch(secret, folder, purpose="secret of the webhook") if secret else None
            self._ways.append((f"webhook at {host}", self._post))
        elif request.notify_secret:
            raise UsageError("--notify-secret signs what a webhook gets", "give --notify-webhook, too", rule=USAGE)

    @property
    def is_used(self) -> bool:
        """Whether there is somewhere to send to; without that, no document needs to be made."""
        return bool(self._ways)

    def send(self, document: RunEnded | DriftChanged) -> None:
        """Send a document to all; what fails, or takes too long, is a remark."""
        event = document.event
        body = json.dumps(_masked(document.as_json()), ensure_ascii=False).encode()
        for name, way in self._ways:
            self._emit(Status(f"notifying the {name}"))
            failed = self._within(way, event, body)
            if failed:
                self._emit(Remark(RULE, f"warning: the notification by the {name} failed: {untrusted(failed)}"))
        if self._ways:
            self._emit(Status(""))

    def _within(self, way: Callable[[str, bytes], str], event: str, body: bytes) -> str:
        """Return why a way failed, "" where it did not; a server that answers byte by byte is not waited for."""
        found = [f"it took longer than {self._timeout:.0f} s"]

        def work() -> None:
            try:
                found[0] = way(event, body)
            except Exception as error:  # whatever it is: the run has ended, and stays as it ended
                found[0] = f"{type(error).__name__}: {error}"

        thread = threading.Thread(target=work, name="notification", daemon=True)
        thread.start()
        thread.join(self._timeout + 0.5)
        return found[0]

    def _run(self, event: str, body: bytes) -> str:
        try:
            process = subprocess.Popen(  # noqa: S603 the operator's own command
                self._arguments, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                env=child_environment.inherited(), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return error.strerror or str(error)
        try:
            _, said = process.communicate(body, timeout=self._timeout)
        except subprocess.TimeoutExpired:
            return f"it took longer than {self._timeout:.0f} s"
        finally:
            with suppress(ProcessLookupError, PermissionError):  # what it has left behind as well
                os.killpg(process.pid, signal.SIGKILL)
        lines = said.decode("utf-8", "replace").split("\n")
        last = next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
        return f"it exited with {process.returncode}{f': {last}' if last else ''}" if process.returncode else ""

    def _post(self, event: str, body: bytes) -> str:
        headers = {"Content-Type": "application/json", "User-Agent": f"vsphere-ai/{__version__}", EVENT: event}
        if self._key is not None:
            headers[SIGNATURE] = f"sha256={signature(self._key, body)}"
        request = urllib.request.Request(self._url, body, headers, method="POST")  # noqa: S310 see _checked
        try:
            with _opener(self._url).open(request, timeout=self._timeout) as answer:
                answer.read(1)
                return ""
        except urllib.error.HTTPError as error:
            error.close()
            moved = ", a redirect, which is not followed" if 300 <= error.code < 400 else ""
            return f"it answered {error.code}{moved}"
        except urllib.error.URLError as error:
            return str(error.reason)


def signature(key: Secret, body: bytes) -> str:
    """Return the HMAC-SHA256 of a body in hexadecimal."""
    return hmac.new(key.reveal().encode(), body, hashlib.sha256).hexdigest()


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Return what follows no redirect, which may lead anywhere with the body, and knows no other scheme."""
    opener = urllib.request.OpenerDirector()
    # to this machine through no proxy, else as the environment says
    proxies: dict[str, str] | None = {} if urlsplit(url).scheme == "http" else None
    for handler in (
        urllib.request.ProxyHandler(proxies),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _usable(check: Callable[[str, str], Parts], text: str, name: str) -> Parts:
    """Return what a check makes of a text; `UsageError` with its name where it cannot be used."""
    try:
        return check(text, name)
    except ValueError as error:
        raise UsageError(*str(error).split("\n", 1), rule=USAGE) from None


def _fetched(request: NotifyRequest) -> str:
    text = request.notify_webhook
    if not is_reference(text):
        return text
    return fetch(text, _folder(request.webhook_inventory), purpose="URL of the webhook").reveal().strip()


def _folder(inventory: Path | None) -> Path:
    return inventory.absolute().parent if inventory else Path.cwd()


def _masked(value: object) -> object:
    """Return a JSON value in which no text holds a registered secret."""
    match value:
        case str():
            return untrusted(value)
        case Mapping():
            return {untrusted(str(k)): _masked(v) for k, v in value.items()}
        case list() | tuple():
            return [_masked(v) for v in value]
    return value
