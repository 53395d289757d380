"""The real command line against a lab, in this process or in one of its own, and secrets that are easy to find."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import pytest
from support import prefork
from support.gates import LONG

ROOT = Path(__file__).parents[2]
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789"
NASTY = "<&\"'%/\\`+ü"


def canary(seed):
    """24 characters, every one that some encoding changes among them."""
    chance = random.Random(seed)
    chosen = [*NASTY, *chance.choices(LETTERS, k=24 - len(NASTY))]
    chance.shuffle(chosen)
    return "".join(chosen)


class Tool:
    """Runs `vsphere-ai ARGS` in this process; keeps what it printed."""

    def __init__(self, capsys):
        self.capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments):
        from vsphere_ai.cli.main import main

        code = main([str(a) for a in arguments])
        self.out, self.err = self.capsys.readouterr()
        return code


@pytest.fixture
def tool(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    return Tool(capsys)


@pytest.fixture
def inventory_of(tmp_path):
    """Write an inventory for a lab as an operator would: `inventory_of(lab, known_hosts="kh", tls={...})`."""

    def write(lab, *, password="", ssh_password="", tls=None, known_hosts=None, start="apply", name="inventory.yml"):
        document = connection(lab)
        vcenter, ssh = document["vcenters"]["lab"], document["ssh"]
        vcenter["password"] = password or f"file:{lab.directory / 'password'}"
        vcenter["tls"] = {"ca_file": str(lab.directory / "ca.pem")} if tls is None else tls
        ssh["password"] = ssh_password or f"file:{lab.directory / 'ssh_password'}"
        ssh["known_hosts"] = known_hosts or str(lab.directory / "known_hosts")
        ssh["start_service"] = start
        # the lab makes groups of its folders, whatever they are called
        document["vms"] = {"training": {"names": ["train-*"]}}
        path = tmp_path / name
        path.write_text(json.dumps(document), encoding="utf-8")
        path.chmod(0o600)
        return path

    return write


def connection(lab):
    import yaml

    return yaml.safe_load((lab.directory / "connection.yml").read_text(encoding="utf-8"))


@pytest.fixture
def outside(tmp_path):
    """Run `vsphere-ai ARGS` as a process of its own: `outside("plan", file, env={...}, umask=0)`."""

    def run(*arguments, env=None, umask=-1, code=None, cwd=None):
        command = ["-c", code] if code else ["-m", "vsphere_ai"]
        return prefork.run(
            [sys.executable, *command, *arguments],
            cwd=cwd or tmp_path,
            env={**os.environ, **(env or {})},
            capture_output=True,
            umask=umask,
            timeout=LONG,
        )

    return run
