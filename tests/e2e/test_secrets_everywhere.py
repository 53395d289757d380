"""Every place where a secret goes in, followed to every place where text comes out, while servers quote what they get.

The lab quotes each value that was sent as it is, cut, wrapped, in base64, hexadecimal and URLs. `Traces` has its
own encoders; a test at the end shows that it finds what the redactor would let through.
"""

from __future__ import annotations

import base64
import getpass
import json
import os
import shlex
import sys
import threading
import types
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml
from support.secret_traces import Traces, all_of, files
from support.vm_sets import INVENTORY as POOLS
from support.vm_sets import KEY, play

from vsphere_ai import app
from vsphere_ai.app.runs import guest_passwords
from vsphere_ai.execution.actions import vm_life
from vsphere_ai.security import child_environment, redaction

pytestmark = pytest.mark.lab
WORD = "Xk3!tt%y<Kp&9\"ü'/\\`+aBcZq7"
SCHEMES = ("env", "file", "cmd", "keyring", "prompt")
REPORTS = ("html", "markdown", "junit", "sarif", "ctrf")
ECHOES = ("fault-echoes", "task-echoes")
SEEN = "import json, os, sys; json.dump([sys.argv, dict(os.environ), sys.stdin.read()], open({out!r}, 'w'))"


@pytest.fixture
def reference(monkeypatch, tmp_path):
    """Put a secret where a reference of a scheme finds it: `reference("file", secret)` is that reference."""

    def put(scheme, secret, name="I29_SECRET"):
        file = tmp_path / f"{name}.secret"
        file.write_text(secret, encoding="utf-8")
        file.chmod(0o600)
        if scheme == "env":
            monkeypatch.setenv(name, secret)
        library, errors = types.ModuleType("keyring"), types.ModuleType("keyring.errors")
        library.get_password, errors.KeyringError = (lambda _service, _user: secret), ValueError
        monkeypatch.setitem(sys.modules, "keyring", library)
        monkeypatch.setitem(sys.modules, "keyring.errors", errors)
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(getpass, "getpass", lambda *_, **__: secret)
        forms = {"env": name, "file": file, "cmd": f"cat {shlex.quote(str(file))}", "keyring": "vc/ops", "prompt": ""}
        return f"{scheme}:{forms[scheme]}"

    return put


@pytest.fixture
def secrets_of_guests(monkeypatch):
    """What guests are given with a password: its hash, and the user data that it was packed into."""
    traces, packed, hashes = Traces().password(WORD), [], []

    def with_passwords(settings, found):
        given = real(settings, found)
        packed.append(given["guestinfo.userdata"])
        traces.packed(packed[-1]).octets(base64.b64decode(packed[-1])).without(settings["guestinfo.userdata"])
        return given

    def hashed(word):
        hashes.append(real_hash(word))
        traces.packed("$".join(hashes[-1].split("$")[-2:]))
        return hashes[-1]

    real, real_hash = vm_life.with_passwords, guest_passwords.hashed
    monkeypatch.setattr(vm_life, "with_passwords", with_passwords)
    monkeypatch.setattr(guest_passwords, "hashed", hashed)
    traces.sent = packed
    return traces


def set_of(reference):
    account = f"{{name: ops, ssh_authorized_keys: ['{KEY}'], password: {json.dumps(reference)}}}"
    return play("train-01", nics=1, power_state="off").replace(
        f"{{name: ops, ssh_authorized_keys: ['{KEY}']}}", account
    )


class Hook(BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def hook():
    server = HTTPServer(("127.0.0.1", 0), Hook)
    server.bodies = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def after_failed_run(sets, cli, tmp_path, hook):
    """Everything that shows a run that has failed, by name."""
    out = tmp_path / "notified.json"
    command = shlex.join([sys.executable, "-c", SEEN.format(out=str(out))])
    url = f"http://127.0.0.1:{hook.server_port}/run"
    texts = {}
    for form in ("text", "json"):
        more = ("--notify-command", command, "--notify-webhook", url, "--notify-secret", "env:I29_SIGNS")
        assert sets("apply", tmp_path / "play.yml", "--yes", "-o", form, *more) == 1, cli.err
        texts |= {f"apply {form}, out": cli.out, f"apply {form}, err": cli.err, f"{form}: command": out.read_text()}
        run = json.loads(json.loads(out.read_text())[2])["run"]
    for form in REPORTS:
        assert cli("run", "report", run, "-o", form) == 0, cli.err
        texts[f"report {form}"] = cli.out
    for command in (["runs"], ["runs", "-o", "json"], ["runs", run]):
        cli(*command)
        texts[" ".join(command)] = cli.out + cli.err
    texts["webhook"] = "\n".join(hook.bodies)
    assert len(hook.bodies) == 2
    return texts | files(os.environ["VSPHERE_AI_STATE_DIR"])


@pytest.mark.parametrize(("scheme", "do"), [("env", "fault-echoes"), ("file", "task-echoes")])
def test_the_password_of_an_account_in_guests(
    sets, cli, monkeypatch, tmp_path, reference, secrets_of_guests, hook, scheme, do
):
    monkeypatch.setenv("I29_SIGNS", "the-key-that-signs-Aa1!Bb2?")
    cli.file(set_of(reference(scheme, WORD)))
    sets.lab.set_faults([{"on": "CloneVM_Task", "do": {do: "InvalidName"}}])
    texts = after_failed_run(sets, cli, tmp_path, hook)
    assert len(secrets_of_guests.sent) == 2, "the user data with the hash were sent, and quoted"
    assert "guestinfo.userdata" in texts["apply text, out"] + texts["apply text, err"], "the quoted request was shown"
    secrets_of_guests.password("the-key-that-signs-Aa1!Bb2?")
    assert {name: hits for name, text in texts.items() if (hits := secrets_of_guests.found(text))} == {}
    for form in ("text", "json"):
        environment = json.loads(texts[f"{form}: command"])[1]
        assert not {"I29_SIGNS", "I29_SECRET"} & set(environment)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_results_events_and_errors_of_the_python_api(sets, cli, monkeypatch, reference, secrets_of_guests, scheme):
    playbook, do = cli.file(set_of(reference(scheme, WORD))), ECHOES[SCHEMES.index(scheme) % 2]
    sets.lab.set_faults([{"on": "CloneVM_Task", "do": {do: "InvalidName"}}])
    events = []
    with redaction.fresh(), child_environment.fresh():
        result = app.apply(
            app.ApplyRequest(playbook, app.EstateRequest(sets.inventory), yes=True), lambda event: events.append(event)
        )
    errors = [outcome.error for outcome in result.run.outcomes if outcome.error is not None]
    assert errors
    assert secrets_of_guests.sent
    texts = {"events": repr(events), "errors": "\n".join(map(all_of, errors))}
    assert "guestinfo.userdata" in texts["errors"]
    assert {name: hits for name, text in texts.items() if (hits := secrets_of_guests.found(text))} == {}


@pytest.fixture
def farm_of(sets, cli, reference):
    """An inventory whose passwords are behind references: `farm_of("cmd")`; and what to look for."""

    def write(scheme):
        document = yaml.safe_load((sets.lab.directory / "connection.yml").read_text())
        vcenter, ssh = document["vcenters"]["lab"], document["ssh"]
        words = [(sets.lab.directory / name).read_text().strip() for name in ("password", "ssh_password")]
        vcenter |= {"password": reference(scheme, words[0]), "tls": {"ca_file": str(sets.lab.directory / "ca.pem")}}
        ssh |= {
            "password": reference("env", words[1], "I29_SSH"),
            "known_hosts": str(sets.lab.directory / "known_hosts"),
        }
        document["pools"] = yaml.safe_load(POOLS)["pools"]
        traces = Traces()
        for word in words:
            traces.password(word)
        # parts that the inventory has for everyone to see, such as the name of the lab's folder, are none of a secret
        path = cli.file(json.dumps(document), f"{scheme}.yml")
        return path, traces

    return write


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_password_of_a_vcenter_that_quotes_the_login(sets, cli, farm_of, scheme, tmp_path):
    path, traces = farm_of(scheme)
    sets.lab.set_faults([{"on": "Login", "do": {"fault-echoes": "InvalidRequest"}}])
    texts = {}
    for command in (["plan", cli.file(play("train-01", nics=1))], ["check"], ["show"], ["doctor"]):
        for form in ([], ["-o", "json"]):
            code = cli(*command, *form, "-i", path)
            texts[f"{command[0]} {form}"] = f"{code} {cli.out} {cli.err}"
            assert code != 0, texts
    with redaction.fresh(), child_environment.fresh():
        with pytest.raises(Exception, match="refuses the login") as caught:
            app.read(app.ReadRequest(app.EstateRequest(path)))
        with app.open(app.EstateRequest(path)) as session:
            try:
                _ = session.connection.vcenter
            except Exception as error:
                texts["caught within the session"] = "\n".join(map(repr, (error, error.__cause__, error.__context__)))
        assert "refuses the login" in texts["caught within the session"]
        texts["exception"] = all_of(caught.value)
    texts |= files(os.environ["VSPHERE_AI_STATE_DIR"])
    assert {name: hits for name, text in texts.items() if (hits := traces.found(text))} == {}


def test_the_traces_are_found_where_nothing_is_masked(sets, cli, monkeypatch, tmp_path, reference, secrets_of_guests):
    """The same without the redactor: whatever is looked for is found, so that an empty result means something."""
    cli.file(set_of(reference("file", WORD)))
    sets.lab.set_faults([{"on": "CloneVM_Task", "do": {"task-echoes": "InvalidName"}}])
    monkeypatch.setattr("vsphere_ai.connect.soap.faults.untrusted", str)
    monkeypatch.setattr("vsphere_ai.security.exceptions.untrusted", str)
    monkeypatch.setattr(redaction, "clean", str)
    monkeypatch.setattr("vsphere_ai.runs.journal.clean", str)
    assert sets("apply", tmp_path / "play.yml", "--yes") == 1
    (packed,) = secrets_of_guests.sent
    for trace in (Traces().packed(packed), Traces().octets(base64.b64decode(packed)), Traces().password(packed[:300])):
        assert trace.found(cli.out + cli.err)
