"""A host that vCenter knows under a name that is no address is one problem; the others are read and planned."""

from __future__ import annotations

import pytest
from support.places import INVENTORY

from vsphere_ai.connect.wire.answers import PlainResponse

pytestmark = pytest.mark.lab
GOOD, RENAMED = "esx01.lab.local", b"esx02.lab.local"
ODD = [
    "esx02.lab.local.", "esx 02", "esx-ü.lab.local", "esx..02", "x" * 70, "", "a\nb", "\x85\u202e", "host:22", "[::1",
    "root:pw@esx02", "esx02/..",
]  # fmt: skip


@pytest.fixture
def renamed(monkeypatch):
    """Have vCenter show one host under another name; XML 1.0 cannot carry ESC."""
    real = PlainResponse._whole

    def as_(name):
        shown = name.replace("&", "&amp;").replace("<", "&lt;").encode()
        monkeypatch.setattr(
            PlainResponse, "_whole", lambda self: real(self).replace(b">%s<" % RENAMED, b">%s<" % shown)
        )

    return as_


@pytest.mark.parametrize("name", ODD)
def test_it_is_about_that_host_only(cli, renamed, name):
    playbook = cli.file('- hosts: "*"\n  mig: {mode: enabled}\n')
    renamed(name)
    for command in (["check"], ["doctor", "-i", INVENTORY], ["trust", "host", "*", "-i", INVENTORY]):
        assert cli(*command) in (0, 1, 2, 5, 64), f"{command}: {cli.err}"
        assert "internal error" not in cli.err
    plan = cli.plan(playbook, "--start-ssh")
    assert GOOD in {i["target"]["name"] for i in plan["items"] if i["changes"]}
    (odd,) = {p["target"]["ref"] for p in plan["problems"] if p["rule"].startswith("ssh.")}
    named = [p["target"]["name"] for p in plan["problems"] if p["target"]["ref"] == odd]
    assert set(named) == {" ".join(name.split("\r"))}
    assert not {GOOD} & {p["target"]["name"] for p in plan["problems"] if p["rule"].startswith(("ssh.", "mig."))}


def test_the_problem_says_what_would_work(cli, renamed):
    renamed("esx 02")
    plan = cli.plan(cli.file('- hosts: "*"\n  mig: {mode: enabled}\n'), "--start-ssh")
    (problem,) = [p for p in plan["problems"] if p["target"]["name"] == "esx 02"]
    assert problem["message"].endswith("'esx 02' is not a host name or an IP address")
    assert "ssh: {addresses: {HOST: ADDRESS}}" in problem["remedy"]
