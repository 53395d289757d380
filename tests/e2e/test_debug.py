"""`--debug`: requests, commands and tracebacks on standard error, without secrets, and only where it is given."""

from __future__ import annotations

import logging
import re

from support.command_tree import leaves, options
from support.places import INVENTORY, PLAYBOOKS

from vsphere_ai.connect.soap.stub import Stub

LOG = logging.getLogger("vsphere_ai")


def test_every_command_has_it():
    assert [" ".join(words) for words in leaves() if "--debug" not in options(words)] == []


def test_requests_to_vcenter_and_commands_on_hosts_are_logged(cli):
    level = LOG.level
    assert cli("plan", PLAYBOOKS / "mig-precreate.yml", "-i", INVENTORY, "--start-ssh", "--debug") == 0, cli.err
    assert re.search(r"(?m)^\d\d:\d\d:\d\d\.\d{3} \S+: Login on SessionManager: answered after \d+ ms$", cli.err)
    assert re.search(
        r"(?m)^\S+ vsphere_ai\.connect\.secure_shell: esx\S+: exit status 0 after \d+ ms: nvidia-smi", cli.err
    )
    assert LOG.level == level
    assert not LOG.handlers
    assert cli("plan", PLAYBOOKS / "mig-precreate.yml", "-i", INVENTORY) == 0
    assert "vsphere_ai.connect" not in cli.err, "not without it"


def test_the_variable_is_the_option(cli, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_DEBUG", "1")
    assert cli("ipam", "show", "-i", INVENTORY) == 0
    assert "Login on SessionManager" in cli.err


def test_an_error_is_shown_with_the_place_where_it_arose(cli):
    assert cli("plan", cli.folder / "none.yml", "-i", INVENTORY) == 64
    assert "Traceback" not in cli.err
    assert cli("plan", cli.folder / "none.yml", "-i", INVENTORY, "--debug") == 64
    assert "Traceback (most recent call last)" in cli.err
    assert "UsageError: there is no playbook" in cli.err


def test_the_fault_of_a_request_is_logged(cli, lab):
    lab.set_faults([{"on": "Login", "do": {"fault": "InvalidLogin"}}])
    assert cli("check", "-i", INVENTORY, "--debug") == 4, cli.err
    assert re.search(r"Login on SessionManager: \S*InvalidLogin after", cli.err)


def test_a_secret_in_a_log_is_masked(cli, lab, monkeypatch):
    """Whatever a module logs goes through the redactor."""
    password = (lab.directory / "password").read_text("utf-8").strip()
    invoke = Stub.InvokeMethod

    def logging_it(self, *arguments):
        LOG.getChild("connect").debug("a request with %s in it", password)
        return invoke(self, *arguments)

    monkeypatch.setattr(Stub, "InvokeMethod", logging_it)
    assert cli("ipam", "show", "-i", INVENTORY, "--debug") == 0
    assert "a request with *** in it" in cli.err
    assert password not in cli.err
