"""What programs of an operator inherit: the variables that they need, and none that holds a secret of the inventory."""

from __future__ import annotations

import json
import os
import shlex
import sys

import pytest
from support.notified import run_ended
from support.secret_traces import Traces
from support.vm_sets import play

from vsphere_ai.app.watching.notification import Notifier, NotifyRequest
from vsphere_ai.connect.address_program import ProgramCall, ask
from vsphere_ai.errors import StepFailed
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.resources import kinds
from vsphere_ai.security import child_environment, redaction
from vsphere_ai.security.credentials import fetch

INVENTORY = """
vcenters:
  one: {{address: vc1, username: u, password: {cmd}, tls: {{ca_file: ca.pem}}}}
  two: {{address: vc2, username: u, password: "env:I29_VC", tls: {{ca_file: ca.pem}}}}
ssh: {{username: root, key_file: k, key_passphrase: "env:I29_SSH", known_hosts: kh}}
guests: {{username: ai, key_file: k, key_passphrase: "env:I29_GUESTS", known_hosts: kh}}
vars: {{console_password: "env:I29_VARS"}}
pools:
  mgmt:
    subnet: 10.0.0.0/24
    gateway: 10.0.0.1
    backend: {{exec: [./give], env: {{NETBOX_TOKEN: "env:I29_POOL"}}}}
"""
OF_INVENTORY = ("I29_VC", "I29_SSH", "I29_GUESTS", "I29_VARS", "I29_POOL")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
SHOW = "import json, os; print(json.dumps(dict(os.environ)))"


@pytest.fixture(autouse=True)
def _own():
    with redaction.fresh(), child_environment.fresh():
        yield


@pytest.fixture
def secrets(monkeypatch):
    """Variables with secrets, a copy of one, and one that a program needs and no reference names."""
    for name in (*OF_INVENTORY, "I29_NOTIFY", "I29_HOOK"):
        monkeypatch.setenv(name, f"the-secret-of-{name}")
    monkeypatch.setenv("I29_COPY", "the-secret-of-I29_SSH")
    monkeypatch.setenv("VAULT_TOKEN", "needed-by-the-program")


def program(tmp_path):
    """A program that prints its whole environment as one line of JSON."""
    path = tmp_path / "show"
    path.write_text(f"#!{sys.executable}\n{SHOW}\n", encoding="utf-8")
    path.chmod(0o700)
    return path


def test_a_password_program_does_not_inherit_other_secrets(tmp_path, secrets):
    command = json.dumps(f"cmd:{shlex.quote(str(program(tmp_path)))}")
    path = tmp_path / "inventory.yml"
    path.write_text(INVENTORY.format(cmd=command), encoding="utf-8")
    inventory = load_inventory(path)
    seen = json.loads(fetch(inventory.vcenters["one"].password, tmp_path).reveal())
    assert [name for name in (*OF_INVENTORY, "I29_COPY") if name in seen] == []
    assert "the-secret-of" not in json.dumps({k: v for k, v in seen.items() if k not in ("I29_NOTIFY", "I29_HOOK")})
    assert seen["VAULT_TOKEN"] == "needed-by-the-program"
    assert seen["PATH"] == os.environ["PATH"]


def test_a_notified_program_does_not_inherit_secrets(tmp_path, secrets):
    path = tmp_path / "inventory.yml"
    path.write_text(INVENTORY.format(cmd='"env:I29_VC"'), encoding="utf-8")
    load_inventory(path)
    out = tmp_path / "seen.json"
    code = f"import json, os, sys; json.dump([dict(os.environ), sys.stdin.read()], open({str(out)!r}, 'w'))"
    request = NotifyRequest(
        notify_command=shlex.join([sys.executable, "-c", code]),
        notify_webhook="env:I29_HOOK",
        notify_secret="env:I29_NOTIFY",
    )
    os.environ["I29_HOOK"] = "http://127.0.0.1:9/the-secret-of-I29_HOOK"
    Notifier(request, lambda event: None).send(run_ended(what=os.environ["I29_NOTIFY"]))
    environment, document = json.loads(out.read_text())
    assert "the-secret-of" not in json.dumps(environment) + document
    assert environment["VAULT_TOKEN"] == "needed-by-the-program"


def test_a_program_with_addresses_gets_what_is_named_and_no_proxy_that_is_a_secret(tmp_path, secrets, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://user:pass@proxy")
    fetch("env:HTTPS_PROXY")
    answer = ask(ProgramCall((str(program(tmp_path)),), tmp_path, {"NETBOX_TOKEN": "own"}), {})
    assert answer["NETBOX_TOKEN"] == "own"
    assert set(answer) <= {"NETBOX_TOKEN", "PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LC_CTYPE", *CERTIFICATES}


SPELLINGS = {
    "cut": "token[:14]",
    "base64": "base64.b64encode(token.encode()).decode()[:18]",
    "hex": "token.encode().hex()",
    "wrapped": "token[:9] + ' ' + token[9:]",
    "URL": "urllib.parse.quote(token)",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_program_that_says_its_secret_when_it_fails(tmp_path, monkeypatch, spelling):
    token = "Xk3!tt%y<Kp&9aBc/Zq7"
    monkeypatch.setenv("I29_TOKEN", token)
    given = fetch("env:I29_TOKEN")
    path = tmp_path / "fails"
    code = (
        f"import base64, os, sys, urllib.parse; token = os.environ['T']; sys.exit('refused: ' + {SPELLINGS[spelling]})"
    )
    path.write_text(f"#!{sys.executable}\n{code}\n", encoding="utf-8")
    path.chmod(0o700)
    with pytest.raises(StepFailed) as caught:
        ask(ProgramCall((str(path),), tmp_path, {"T": given.reveal()}), {})
    assert "refused: ***" in caught.value.message
    assert Traces().password(token).found(f"{caught.value!r} {caught.value.message} {caught.value.remedy}") == []


def test_the_password_of_an_account_of_guests_is_withheld_once_its_playbook_is_read(tmp_path, secrets):
    path = tmp_path / "farm.yml"
    text = play("train-01", nics=1).replace("name: ops, ", "name: ops, password: 'env:I29_VARS', ")
    assert "I29_VARS" in text
    path.write_text(text, encoding="utf-8")
    load_playbook(path, kinds())
    assert "I29_VARS" not in child_environment.inherited()


def test_a_short_value_is_no_copy(monkeypatch):
    monkeypatch.setenv("I29_SHORT", "1")
    monkeypatch.setenv("I29_FLAG", "1")
    fetch("env:I29_SHORT")
    assert "I29_SHORT" not in child_environment.inherited()
    assert child_environment.inherited()["I29_FLAG"] == "1"


def test_the_next_command_withholds_its_own(monkeypatch):
    monkeypatch.setenv("I29_ONE", "value-of-one")
    with child_environment.fresh():
        fetch("env:I29_ONE")
        assert "I29_ONE" not in child_environment.inherited()
    assert child_environment.inherited()["I29_ONE"] == "value-of-one"
